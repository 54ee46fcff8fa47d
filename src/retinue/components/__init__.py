"""Built-in components."""

from .crawler import Crawler
from .currency import CurrencyConverter
from .documents import DocumentSplitter, DocumentWriter, FileConverter, Retriever
from .github import GitHubAPI, IssueLink, issue_link
from .haystack_rest import DeepsetCloudPipeline, HaystackPipeline
from .link_content import LinkContentFetcher
from .prompt_node import PromptNode, PromptTemplate
from .python_runtime import PythonRuntime
from .ranking import Ranker, TopPSampler
from .reader import Reader
from .report_writer import ReportWriter
from .sandbox import SandboxLimits
from .speech import SpeechToText, TextToSpeech
from .weather import Weather
from .web_retriever import WebRetriever
from .web_search import SearchEngine, SerpAPIComponent
from .wikipedia import Wikipedia

__all__ = [
    "Crawler",
    "CurrencyConverter",
    "DeepsetCloudPipeline",
    "DocumentSplitter",
    "DocumentWriter",
    "FileConverter",
    "GitHubAPI",
    "HaystackPipeline",
    "IssueLink",
    "LinkContentFetcher",
    "PromptNode",
    "PromptTemplate",
    "PythonRuntime",
    "Ranker",
    "Reader",
    "ReportWriter",
    "Retriever",
    "SandboxLimits",
    "SearchEngine",
    "SerpAPIComponent",
    "SpeechToText",
    "TextToSpeech",
    "TopPSampler",
    "Weather",
    "WebRetriever",
    "Wikipedia",
    "issue_link",
]
