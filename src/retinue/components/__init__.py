"""Built-in components."""

from .documents import DocumentSplitter, DocumentWriter, FileConverter, Ranker, Reader, Retriever, TopPSampler
from .free_services import CurrencyConverter, Weather
from .github import GitHubAPI, IssueLink, issue_link
from .haystack_rest import DeepsetCloudPipeline, HaystackPipeline
from .prompt_node import PromptNode, PromptTemplate
from .report_writer import ReportWriter
from .sandbox import PythonRuntime, SandboxLimits
from .speech import SpeechToText, TextToSpeech
from .web_pages import Crawler, LinkContentFetcher, WebRetriever
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
