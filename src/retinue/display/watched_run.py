"""A run while a person watches: its tree grows, and lines below it say what is under way."""

from __future__ import annotations

from typing import TextIO

from ..core.events import Asked, Called, Delta, Event, Observed, Paused, Replied, Resumed, Started
from ..core.prompt import Ask
from .event_texts import constraint_text
from .run_tree import RunTree, View
from .status_lines import StatusLines


class WatchedRun:
    """A run that a person watches: its tree, and the lines that say what is under way.

    `asks`: while a call waits for a person, it is this one who is asked, and nothing else is written. Otherwise the run
    is another process's, which may store that a model is asked no earlier than its reply.
    """

    def __init__(self, out: TextIO, status: StatusLines, view: View, *, asks: bool = True) -> None:
        self._asks = asks
        self.status = status
        self.tree = RunTree(out, status.write, view)
        self._view = view
        self._asked: set[str] = set()  # the calls about which a person is asked

    def show(self, path: str, event: Event | Delta, at: float = 0.0) -> None:
        """Show one event of the run at `path`, which happened `at` this Unix time (0: unknown)."""
        if isinstance(event, Delta):
            self.tree.show(path, event)
            self.status.text(path, self.tree.written(path))
            return
        if not isinstance(event, Asked | Called):
            self._finish(path, event)
        self.tree.show(path, event, at)
        self._start(path, event)

    def requested(self, key: str, run: str, request: Ask) -> None:
        """Show to what the reply is held that is requested for `run`; that of `key` is at the top."""
        if self._view.verbose and request.constraint is not None and run.startswith(key):
            self.tree.quote(run.removeprefix(key).strip("/"), *constraint_text(request.constraint))

    def _start(self, path: str, event: Event) -> None:
        """Say what is under way from now on."""
        name = self.tree.name_of(path)
        before = f"{name}: " if name else ""
        match event:
            case Asked():
                self.status.show(path, f"{before}the model works")
            case Called(action=action):
                self.status.show(f"{path}#{action.id}", f"{before}{action.tool} works")
            case Started() | Observed() if not self._asks:
                self.status.show(path, f"{name or 'the run'} goes on")
            case Paused(action=action) if not self._asks:
                self.status.show(f"{path}#{action.id}", f"{before}{action.tool} waits for a person")
            case Paused(action=action):
                self._asked.add(f"{path}#{action.id}")
                self.status.hold()

    def _finish(self, path: str, event: Event) -> None:
        """Say no longer what was under way until now."""
        match event:
            case Observed(observation=seen):
                self.status.hide(f"{path}#{seen.call_id}")
            case Started() if path:
                self.status.hide("#".join(_above(path)))
            case Resumed(call_id=call):
                self.status.hide(f"{path}#{call}")
                self._decided(f"{path}#{call}")
            case Replied() | Started():
                self.status.hide(path)
            case Paused():
                pass
            case _:
                self.status.hide(path)
                for one in [one for one in self._asked if one.startswith(f"{path}#")]:
                    self._decided(one)

    def _decided(self, call: str) -> None:
        self._asked.discard(call)
        if not self._asked:
            self.status.release()


def _above(path: str) -> tuple[str, str]:
    """Return the path of the caller, and the call."""
    above, _, call = path.rpartition("/")
    return above, call
