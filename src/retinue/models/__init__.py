"""Models: `PromptModel`, and one file for each engine."""

from ..net.retry import Retries
from .prompt_model import ENGINES, PromptModel
from .settings import TimeLimits

__all__ = ["ENGINES", "PromptModel", "Retries", "TimeLimits"]
