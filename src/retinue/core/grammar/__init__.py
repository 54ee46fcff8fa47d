"""Constraints on replies, written once and printed in each engine's notation."""

from .json_patterns import MAX_DEPTH, MAX_ITEMS, MAX_PRINTED, MAX_STRING, json_pattern
from .patterns import (
    Chars,
    Choice,
    Constraint,
    Pattern,
    Repeat,
    Seq,
    Text,
    choice,
    gbnf,
    line,
    optional,
    regex,
    seq,
)

__all__ = [
    "MAX_DEPTH", "MAX_ITEMS", "MAX_PRINTED", "MAX_STRING", "Chars", "Choice", "Constraint", "Pattern", "Repeat", "Seq",
    "Text", "choice", "gbnf", "json_pattern", "line", "optional", "regex", "seq",
]  # fmt: skip
