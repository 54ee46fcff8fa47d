"""`RunDisplay`: a run while a person watches. Its tree grows, and in a terminal, lines below it say what goes on."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Self, TextIO

from .._internal.progress import progress_to
from ..core.events import Asked, Called, Delta, Event, Observed, Paused, Replied, Resumed, Started
from ..core.prompt import Ask
from ..core.run_context import current_run, run_context
from ..core.run_result import RunResult
from ..core.schema.patterns import print_gbnf
from .run_tree import RunTree, View
from .status_lines import StatusLines
from .terminal import put

_TERMINAL = threading.Lock()  # a terminal has room for one run at a time
_BUFFERED: list[tuple[TextIO, str]] = []  # what further runs wrote, and where to


class RunDisplay:
    """Shows a run on `out` (`None`: standard error) while its `with` block drives it: a listener of the run's events.

    `key` is that of the run at the top. `asks`: while a call waits for a person, it is this one who is asked, and
    nothing else is written. Otherwise the run is another process's, which may store that a model is asked no earlier
    than its reply. While another run is shown, this one is buffered, and shown afterwards.
    """

    tree: RunTree
    _status: StatusLines

    def __init__(self, out: TextIO | None = None, view: View = View(), *, key: str = "", asks: bool = True) -> None:
        self._out = out or sys.stderr or io.StringIO()
        self._view = view
        self._key = key
        self._asks = asks
        self._asked: set[str] = set()  # the calls about which a person is asked
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        out = self._stack.enter_context(_take_turn_on(self._out))
        self._status = self._stack.enter_context(StatusLines(out))
        self.tree = RunTree(out, self._status.write, self._view)
        self._stack.enter_context(progress_to(self._status.show_progress))
        self._stack.enter_context(run_context(replace(current_run(), watch=self._show_constraint)))
        if self._asks:
            self._status.show("", "getting ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, path: str, event: Event | Delta, at: float = 0.0) -> None:
        """Show one event of the run at `path`, which happened `at` this Unix time (0: unknown)."""
        if isinstance(event, Delta):
            self.tree.show(path, event)
            self._status.show_text(path, self.tree.read_written(path))
            return
        if not isinstance(event, Asked | Called):
            self._end_activity(path, event)
        self.tree.show(path, event, at)
        self._begin_activity(path, event)

    def end(self, result: RunResult) -> None:
        """Close the tree with what the run took."""
        self.tree.end(result)

    def _show_constraint(self, run: str, request: Ask) -> None:
        """Show to what the reply is held that is requested for `run`."""
        if self._view.verbose and request.constraint is not None and run.startswith(self._key):
            grammar = print_gbnf(request.constraint.pattern).strip()
            self.tree.quote(run.removeprefix(self._key).strip("/"), "grammar of the reply", grammar)

    def _begin_activity(self, path: str, event: Event) -> None:
        """Say what is under way from now on."""
        name = self.tree.name_of(path)
        before = f"{name}: " if name else ""
        match event:
            case Asked():
                self._status.show(path, f"{before}the model works")
            case Called(action=action):
                self._status.show(f"{path}#{action.id}", f"{before}{action.tool} works")
            case Started() | Observed() if not self._asks:
                self._status.show(path, f"{name or 'the run'} goes on")
            case Paused(action=action) if not self._asks:
                self._status.show(f"{path}#{action.id}", f"{before}{action.tool} waits for a person")
            case Paused(action=action):
                self._asked.add(f"{path}#{action.id}")
                self._status.hold()

    def _end_activity(self, path: str, event: Event) -> None:
        """Say no longer what was under way until now."""
        match event:
            case Observed(observation=seen):
                self._status.hide(f"{path}#{seen.call_id}")
            case Started() if path:
                above, _, call = path.rpartition("/")
                self._status.hide(f"{above}#{call}")
            case Resumed(call_id=call):
                self._status.hide(f"{path}#{call}")
                self._note_decision(f"{path}#{call}")
            case Replied() | Started():
                self._status.hide(path)
            case Paused():
                pass
            case _:
                self._status.hide(path)
                for one in [one for one in self._asked if one.startswith(f"{path}#")]:
                    self._note_decision(one)

    def _note_decision(self, call: str) -> None:
        self._asked.discard(call)
        if not self._asked:
            self._status.release()


@contextmanager
def _take_turn_on(out: TextIO) -> Iterator[TextIO]:
    """Yield `out` if no other run is shown. Otherwise yield a buffer, whose content is shown once there is room."""
    free, buffer = _TERMINAL.acquire(blocking=False), io.StringIO()
    try:
        yield out if free else buffer
    finally:
        if free:
            _TERMINAL.release()
        else:
            _BUFFERED.append((out, buffer.getvalue()))
        while _BUFFERED and _TERMINAL.acquire(blocking=False):  # else the run that is shown does so at its end
            try:
                while _BUFFERED:
                    put(*_BUFFERED.pop(0))
            finally:
                _TERMINAL.release()
