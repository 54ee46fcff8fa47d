"""Tools that come with Retinue: one file each."""

from .calculator import calculator
from .passages import Passages, passages

__all__ = ["Passages", "calculator", "passages"]
