"""Components that come with Retinue: one file each."""

from .currency import CurrencyConverter
from .document_splitter import DocumentSplitter
from .document_writer import DocumentWriter
from .file_converter import FileConverter
from .github import GitHubAPI
from .haystack_rest import DeepsetCloudPipeline, HaystackPipeline
from .issue_link import IssueLink, issue_link
from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .ranker import Ranker
from .reader import Reader
from .retriever import Retriever
from .sandbox import SandboxLimits
from .serpapi import SerpAPIComponent
from .top_p import TopPSampler
from .weather import Weather
from .wikipedia import Wikipedia

__all__ = [
    "CurrencyConverter",
    "DeepsetCloudPipeline",
    "DocumentSplitter",
    "DocumentWriter",
    "FileConverter",
    "GitHubAPI",
    "HaystackPipeline",
    "IssueLink",
    "PromptNode",
    "PromptTemplate",
    "PythonRuntime",
    "Ranker",
    "Reader",
    "Retriever",
    "SandboxLimits",
    "SerpAPIComponent",
    "TopPSampler",
    "Weather",
    "Wikipedia",
    "issue_link",
]
