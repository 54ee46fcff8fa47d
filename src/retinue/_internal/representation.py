"""One-line representations of objects for prompts, debuggers and errors."""

from __future__ import annotations

from typing import Any

from .redaction import redact

_MOST = 80  # characters of a value


def one_line_repr(something: Any, *given: Any, **named: Any) -> str:
    """Return `Kind(value, name=value)` for `__repr__`, without empty values and secrets."""
    parts = [_short(value) for value in given if value not in ("", None)]
    parts += [f"{name}={_short(value)}" for name, value in named.items() if value not in ("", None, [], ())]
    return f"{type(something).__name__}({', '.join(parts)})"


def _short(value: Any) -> str:
    text = redact(repr(value))
    return text if len(text) <= _MOST else f"{text[: _MOST - 2]} …"
