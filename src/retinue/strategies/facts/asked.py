"""How the parts of `careful` ask the model."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Protocol, TypeVar

from ...core.grammar import Constraint
from ...core.protocols import Request, Sent

T = TypeVar("T")
Part = Generator[Request, Sent, T]


class Say(Protocol):
    """Asks for a reply of that shape. `news` is the part of the text that is new, `aside`: it is not shown."""

    def __call__(
        self, text: str, news: str, shape: Constraint, *, aside: bool = False, options: Mapping[str, Any] = ...
    ) -> Part[str]:
        """Return the reply's text."""
        ...
