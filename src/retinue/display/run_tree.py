"""A run shown as a tree: agents and the members that they call, their steps, calls, outcomes and costs.

A tree is derived from events. It reads the same live and afterwards: members that work side by side are shown one after
the other, each where it was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

from ..core.events import ENDINGS, Called, Delta, Event
from ..core.run_result import RunResult
from ..core.values import StopReason
from .branch import Branch, View
from .event_texts import counted, tokens_text
from .sections import Section
from .tree_page import DIM, Page


class RunTree:
    """Writes the events of a run and of its members with `write`, for the place `out`.

    Paths of call ids name the members' runs (`call_1_0/call_2_0`); that of the run itself is empty.
    """

    def __init__(self, out: TextIO, write: Callable[[str], None], view: View = View()) -> None:
        self._page = Page(out)
        self._view = view
        self._section = Section(write)
        self._branches = {"": Branch(self._page, view, self._section)}

    def show(self, path: str, event: Event | Delta, at: float = 0.0) -> None:
        """Show one event of the run at `path`, which happened `at` this Unix time (0: unknown)."""
        branch = self._branch(path)
        branch.show(event, at)
        if path and isinstance(event, ENDINGS):
            above, _, call = path.rpartition("/")
            self._branch(above).calls.answered(call, branch.answer)

    def head(self, title: str) -> None:
        """Write a line above the tree, unless it is empty."""
        if title:
            self._section.write(self._page.lines("", "", (title, DIM)))

    def quote(self, path: str, title: str, text: str) -> None:
        """Show a text word for word, set off from the rest."""
        self._branch(path).quote(title, text)

    def name_of(self, path: str) -> str:
        """Return the name of the member at `path`, after those of its callers."""
        ends = [at for at, one in enumerate(path) if one == "/"] + [len(path)] * bool(path)
        return " › ".join(self._branch(path[:end]).name or "member" for end in ends)

    def written(self, path: str) -> str:
        """Return what the model of the run at `path` has written of its current reply, or else thought."""
        return self._branch(path).written or self._branch(path).reasoning

    def end(self, result: RunResult) -> None:
        """Close the tree with what the run took."""
        for path in sorted(self._branches, key=len, reverse=True):
            self._branches[path].end(*(_totals(result) if not path else []))
        self._section.close()

    def show_result(self, result: RunResult) -> None:
        """Show a whole run."""
        for path, event in _in_order(result.events, result.children):
            self.show(path, event)
        self.end(result)

    def _branch(self, path: str) -> Branch:
        if path not in self._branches:
            above, _, call = path.rpartition("/")
            section, prefix = self._branch(above).calls.place(call)
            self._branches[path] = Branch(self._page, self._view.of_members(), section, prefix, top=False)
        return self._branches[path]


def _totals(result: RunResult) -> list[str]:
    """Return the line of what the run took; none if its only step says it."""
    count, usage = len(result.steps), result.usage
    if usage.requests == 1 and result.stop_reason is StopReason.ANSWER and not count:
        return []
    words = [counted(usage.requests, "reply", "replies")] + [counted(count, "tool step")] * bool(count)
    return [", ".join([*words, f"{result.seconds:.1f} s", tokens_text(usage)])]


def _in_order(
    log: Sequence[Event], children: Mapping[str, Sequence[Event]], path: str = ""
) -> Iterator[tuple[str, Event]]:
    """Yield the events of a run and of its members with their paths, a member's where it was called."""
    for event in log:
        yield path, event
        if isinstance(event, Called):
            below = f"{path}/{event.action.id}" if path else event.action.id
            yield from _in_order(children.get(below, ()), children, below)
