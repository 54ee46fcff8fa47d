"""The reasoning strategies, by name.

They are imported on first use, because an agent needs one of them.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from .._internal.lazy_names import lazy_names
from ..core.protocols import Strategy
from .simple import simple as simple

if TYPE_CHECKING:
    from .auto import Auto as Auto
    from .careful import Careful as Careful
    from .corrective import Corrective as Corrective
    from .parsing.actions import UnreadableReply as UnreadableReply
    from .planexec import PlanExec as PlanExec
    from .react import React as React
    from .react_json import ReactJson as ReactJson
    from .self_ask import SelfAsk as SelfAsk
    from .tool_calling import ToolCalling as ToolCalling

__getattr__, __dir__, _LAZY = lazy_names(__name__, __file__)
__all__ = ["STRATEGIES", "simple", *_LAZY]


class _Strategies(Mapping[str, Strategy]):
    """Strategies by name, each made when it is asked for."""

    def __init__(self, made: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        """`made` tells the class and the settings of each."""
        self._made = made
        self._strategy = cache(self._make)

    def __getitem__(self, name: str) -> Strategy:
        """Return the strategy `name`. Raises `KeyError`."""
        return self._strategy(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a strategy `name`, without importing it."""
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._made)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._made)

    def _make(self, name: str) -> Strategy:
        made, settings = self._made[name]
        strategy: Strategy = __getattr__(made)(**settings)
        return strategy


STRATEGIES: Mapping[str, Strategy] = _Strategies({
    "auto": ("Auto", {}),
    "react": ("React", {}),
    "react_json": ("ReactJson", {}),
    "tool_calling": ("ToolCalling", {}),
    "self_ask": ("SelfAsk", {}),
    "careful": ("Careful", {}),
    "corrective": ("Corrective", {}),
    "planexec": ("PlanExec", {}),
    "humanInLoopPlanExec": ("PlanExec", {"approve": True}),
})  # fmt: skip
