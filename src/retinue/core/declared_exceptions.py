"""The exceptions by which a tool says that a call did not happen, as its `not_done` declares them."""

from __future__ import annotations

import builtins
from typing import Any

from ..errors import ToolError


def exceptions(said: tuple[type[BaseException], ...] | str) -> tuple[type[BaseException], ...]:
    """Return the exceptions; built-in ones and `ToolError` may be given by name. Raises `ValueError`."""
    if isinstance(said, str):
        names = [name.strip() for name in said.split(",") if name.strip()]
        given: tuple[Any, ...] = tuple(
            ToolError if name == "ToolError" else getattr(builtins, name, name) for name in names
        )
    else:
        given = said if isinstance(said, tuple) else (said,)
    found: list[type[BaseException]] = []
    for one in given:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise ValueError(f"want exceptions, such as (ValueError,) or 'ValueError, KeyError', not {one!r:.80}")
        found.append(one)
    return tuple(found)
