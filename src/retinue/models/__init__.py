"""Models: `PromptModel`, its vendors (one file each) and the wire formats that they speak."""

from ..net.retry import Retries
from ..net.time_limits import TimeLimits
from .prompt_model import ENGINES, PromptModel

__all__ = ["ENGINES", "PromptModel", "Retries", "TimeLimits"]
