"""Components that come with Retinue: one file each."""

from .link_content import LinkContentFetcher
from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .sandbox import SandboxLimits
from .search_engine import SearchEngine
from .serpapi import SerpAPIComponent
from .web_retriever import WebRetriever

__all__ = [
    "LinkContentFetcher", "PromptNode", "PromptTemplate", "PythonRuntime", "SandboxLimits", "SearchEngine",
    "SerpAPIComponent", "WebRetriever",
]  # fmt: skip
