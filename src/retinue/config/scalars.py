"""Unquoted scalars in YAML 1.2, where `no` is text and `012` is twelve."""

from __future__ import annotations

import re
from typing import Any

MAX_DIGITS = 400  # per integer
_INT = re.compile(r"[-+]?[0-9]+")
_BASED_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None} | {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.title(), word.upper())
}


def scalar(text: str) -> Any:
    """Return the value of an unquoted scalar in YAML 1.2's core schema. Raises `ValueError` for too many digits."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INT.fullmatch(text) or _BASED_INT.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a number of {len(text):,} digits")
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if not _FLOAT.fullmatch(text):
        return text
    return float(text if text[-1] in "0123456789." else text.replace(".", ""))  # .inf and .nan are Python's inf and nan


def scalar_or_text(text: str) -> Any:
    """Return the value of an unquoted scalar; a number that is too long stays a text."""
    try:
        return scalar(text)
    except ValueError:
        return text
