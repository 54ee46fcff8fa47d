"""`Harness`: which of the pieces for long work an agent has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.tools.tool import Tool
from .helpers import Helpers
from .todos import write_todos


@dataclass(frozen=True, slots=True)
class Harness:
    """The pieces for long work. `Harness()` has all of them; each can be had alone.

    Args:
        workspace: Where the files of a run are: `True`, where the run is kept; a path, in this folder (only in
            process); `False`, nowhere.
        todos: Whether the model keeps a list of what is to do, which people see.
        helpers: Whether it gives tasks to helpers; `Helpers` says how many.
    """

    workspace: bool | str | Path = True
    todos: bool = True
    helpers: bool | Helpers = True

    @property
    def tools(self) -> list[Tool]:
        """The tools of its pieces."""
        helpers = Helpers() if self.helpers is True else self.helpers
        return [*([write_todos] if self.todos else []), *(helpers.tools if helpers else [])]

    @property
    def instructions(self) -> str:
        """What a model is told of its pieces, beyond the descriptions of the tools."""
        return ""


def read_harness(given: Harness | bool | None) -> Harness | None:
    """Return the harness that an agent is given; `True` is one with all pieces."""
    return (Harness() if given else None) if isinstance(given, bool) else given
