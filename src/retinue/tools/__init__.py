"""Built-in tools, one per file."""

from .calculator import calculator
from .passages import Passages, passages

__all__ = ["Passages", "calculator", "passages"]
