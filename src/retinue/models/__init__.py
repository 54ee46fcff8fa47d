"""Models: `PromptModel`, and one file for each engine."""

from .prompt_model import ENGINES, PromptModel

__all__ = ["ENGINES", "PromptModel"]
