"""Built-in components, one per file."""

from .crawler import Crawler
from .currency import CurrencyConverter
from .document_splitter import DocumentSplitter
from .document_writer import DocumentWriter
from .file_converter import FileConverter
from .github import GitHubAPI
from .haystack_rest import DeepsetCloudPipeline, HaystackPipeline
from .issue_link import IssueLink, issue_link
from .link_content import LinkContentFetcher
from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .ranker import Ranker
from .reader import Reader
from .report_writer import ReportWriter
from .retriever import Retriever
from .sandbox import SandboxLimits
from .search_engine import SearchEngine
from .serpapi_component import SerpAPIComponent
from .speech_to_text import SpeechToText
from .text_to_speech import TextToSpeech
from .top_p import TopPSampler
from .weather import Weather
from .web_retriever import WebRetriever
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
