"""Models: `PromptModel`, and one file for each engine."""

from ..net.retry import Retries
from ..net.time_limits import TimeLimits
from .prompt_model import ENGINES, PromptModel

__all__ = ["ENGINES", "PromptModel", "Retries", "TimeLimits"]
