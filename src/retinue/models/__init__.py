"""Models: `PromptModel`, its vendors (one file each) and the wire formats that they speak."""

from ..net.retry import Retries, TimeLimits
from .prompt_model import ENGINES, PromptModel

__all__ = ["ENGINES", "PromptModel", "Retries", "TimeLimits"]
