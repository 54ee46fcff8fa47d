"""Components that come with Retinue: one file each."""

from .document_splitter import DocumentSplitter
from .document_writer import DocumentWriter
from .file_converter import FileConverter
from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .ranker import Ranker
from .reader import Reader
from .retriever import Retriever
from .sandbox import SandboxLimits
from .serpapi import SerpAPIComponent
from .top_p import TopPSampler

__all__ = [
    "DocumentSplitter",
    "DocumentWriter",
    "FileConverter",
    "PromptNode",
    "PromptTemplate",
    "PythonRuntime",
    "Ranker",
    "Reader",
    "Retriever",
    "SandboxLimits",
    "SerpAPIComponent",
    "TopPSampler",
]
