"""Components that come with Retinue: one file each."""

from .currency import CurrencyConverter
from .github import GitHubAPI
from .haystack_rest import DeepsetCloudPipeline, HaystackPipeline
from .issue_link import IssueLink, issue_link
from .prompt_node import PromptNode
from .prompt_template import PromptTemplate
from .python_runtime import PythonRuntime
from .sandbox import SandboxLimits
from .serpapi import SerpAPIComponent
from .weather import Weather
from .wikipedia import Wikipedia

__all__ = [
    "CurrencyConverter",
    "DeepsetCloudPipeline",
    "GitHubAPI",
    "HaystackPipeline",
    "IssueLink",
    "PromptNode",
    "PromptTemplate",
    "PythonRuntime",
    "SandboxLimits",
    "SerpAPIComponent",
    "Weather",
    "Wikipedia",
    "issue_link",
]
