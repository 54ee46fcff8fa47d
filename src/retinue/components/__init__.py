"""Components that come with Retinue: one file each."""

from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .sandbox import SandboxLimits
from .serpapi import SerpAPIComponent

__all__ = ["PromptNode", "PromptTemplate", "PythonRuntime", "SandboxLimits", "SerpAPIComponent"]
