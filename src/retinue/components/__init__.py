"""Components that come with Retinue: one file each."""

from .prompt_node import PromptNode
from .prompt_template import PromptTemplate

__all__ = ["PromptNode", "PromptTemplate"]
