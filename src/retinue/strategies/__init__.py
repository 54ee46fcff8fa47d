"""The reasoning strategies, by name.

They are imported on first use, because an agent needs one of them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

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
    """Strategies by name. Each is imported and made when it is asked for."""

    def __init__(self, makers: Mapping[str, str]) -> None:
        """`makers` has the class or function that makes each, with its module."""
        self._makers = makers
        self._made: dict[str, Strategy] = {}

    def __getitem__(self, name: str) -> Strategy:
        """Return the strategy `name`. Raises `KeyError`."""
        if name not in self._made:
            module, _, maker = self._makers[name].partition(".")
            self._made[name] = getattr(import_module(f".{module}", __name__), maker)()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a strategy `name`, without importing it."""
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._makers)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._makers)


STRATEGIES: Mapping[str, Strategy] = _Strategies({
    "auto": "auto.Auto",
    "react": "react.React",
    "react_json": "react_json.ReactJson",
    "tool_calling": "tool_calling.ToolCalling",
    "self_ask": "self_ask.SelfAsk",
    "careful": "careful.Careful",
    "corrective": "corrective.Corrective",
    "planexec": "planexec.PlanExec",
    "humanInLoopPlanExec": "planexec.human_in_loop",
})  # fmt: skip
