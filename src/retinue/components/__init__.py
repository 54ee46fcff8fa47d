"""Components that come with Retinue: one file each."""

from .document_splitter import DocumentSplitter
from .document_writer import DocumentWriter
from .file_converter import FileConverter
from .link_content import LinkContentFetcher
from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .ranker import Ranker
from .reader import Reader
from .retriever import Retriever
from .sandbox import SandboxLimits
from .search_engine import SearchEngine
from .serpapi import SerpAPIComponent
from .top_p import TopPSampler
from .web_retriever import WebRetriever

__all__ = [
    "DocumentSplitter", "DocumentWriter", "FileConverter", "LinkContentFetcher", "PromptNode", "PromptTemplate",
    "PythonRuntime", "Ranker", "Reader", "Retriever", "SandboxLimits", "SearchEngine", "SerpAPIComponent",
    "TopPSampler", "WebRetriever",
]  # fmt: skip
