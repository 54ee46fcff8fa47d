"""Components that come with Retinue: one file each."""

from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .ranker import Ranker
from .sandbox import SandboxLimits
from .serpapi import SerpAPIComponent
from .top_p import TopPSampler

__all__ = [
    "PromptNode",
    "PromptTemplate",
    "PythonRuntime",
    "Ranker",
    "SandboxLimits",
    "SerpAPIComponent",
    "TopPSampler",
]
