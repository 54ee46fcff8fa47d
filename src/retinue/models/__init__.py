"""Models: `PromptModel`, and one file for each engine."""

from .prompt_model import ENGINES, PromptModel
from .retrying import Retries
from .settings import TimeLimits

__all__ = ["ENGINES", "PromptModel", "Retries", "TimeLimits"]
