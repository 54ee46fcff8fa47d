"""`RunDisplay`: a run while a person watches. Its tree grows, and in a terminal, lines below it say what goes on."""

from __future__ import annotations

import io
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Self, TextIO

from .._internal.progress import progress_to
from ..core.events import (
    Asked,
    Called,
    Delta,
    Event,
    Observed,
    Paused,
    Replied,
    Reported,
    Resumed,
    Retried,
    Said,
    Started,
)
from ..core.prompt import Ask
from ..core.run_context import current_run, run_context
from ..core.run_result import RunResult
from ..core.schema.patterns import print_gbnf
from .run_tree import RunTree, View
from .terminal import Measure, can_write, clean, count_cells, is_seen, is_terminal, measure_height, measure_width, put

_SIGNS = "⠋⠙⠸⠴⠦⠇"
_PLAIN_SIGNS = "-\\|/"
_BLINK = 0.12  # seconds between two frames
_MOST = 8  # lines
_UP, _CLEAR = "\x1b[A", "\x1b[K"
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

    def end(self, result: RunResult[object]) -> None:
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
            case Asked() | Retried():
                self._status.show(path, f"{before}the model works")
            case Called(action=action):
                self._status.show(f"{path}#{action.id}", f"{before}{action.tool} works")
            case Reported(call_id=call, text=text) if call:
                self._status.show(f"{path}#{call}", f"{before}{text}")
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
            case Paused() | Said() | Reported():
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


# ── lines at the bottom of a terminal ────────────────────────────────────────────────────────────

_shown: list[StatusLines] = []  # those of this process that are on a terminal


@dataclass(slots=True)
class _Activity:
    what: str
    began: float = field(default_factory=time.monotonic)
    rest: str = ""


class StatusLines:
    """Lines at the bottom of a terminal, with the elapsed time or the progress of each agent and tool that works.

    What is written goes above them. Without a terminal there are no lines. Thread-safe.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = is_terminal(out)
        self._lock = threading.RLock()
        self._measure = Measure()
        self._activities: dict[str, _Activity] = {}
        self._drawn: list[int] = []  # the widths of the lines that are on the screen
        self._within = False  # whether a line that was written goes on
        self._held: list[str] | None = None  # what was written while a person is asked
        self._aside: list[tuple[str, TextIO]] = []  # whole lines for other outputs, which wait
        self._signs = itertools.cycle(_SIGNS if can_write(out, _SIGNS) else _PLAIN_SIGNS)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._live:
            _shown.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        with self._lock:
            self._activities.clear()
            self._within = False
            self._draw()
            self._flush_aside()
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._live:
            _shown.remove(self)

    def show(self, key: str, what: str) -> None:
        """Show that `what` is under way, and count its seconds from now; `key` names it."""
        if not self._live:
            return
        with self._lock:
            self._activities[key] = _Activity(what)
            self._draw()
            if self._thread is None:
                self._thread = threading.Thread(target=self._tick, name="retinue-status-lines", daemon=True)
                self._thread.start()

    def show_text(self, key: str, text: str) -> None:
        """Show the end of a growing text beside what is called `key`."""
        with self._lock:
            if key in self._activities:
                self._activities[key].rest = text

    def show_progress(self, what: str, done: int, size: int) -> None:
        """Show that `done` of `size` bytes are complete; a `Progress`."""
        if not self._live:
            return
        with self._lock:
            if "" not in self._activities or self._activities[""].what != what:
                self.show("", what)
            self._activities[""].rest = self._measure.write_bar(what, done, size) if size else ""

    def hide(self, key: str) -> None:
        """Take the line of what is called `key` away."""
        with self._lock:
            if self._activities.pop(key, None) is not None:
                self._draw()

    def write(self, text: str) -> None:
        """Write `text` above the lines."""
        with self._lock:
            if self._held is not None:
                self._held.append(text)
            elif text:
                self._within = not text.endswith("\n")
                self._draw(text)
                self._flush_aside()

    def hold(self) -> None:
        """Write nothing until `release`, since a person is asked something."""
        with self._lock:
            if self._held is None:
                self._draw(whole=False)
                self._held = []

    def release(self) -> None:
        """Write what was held back."""
        with self._lock:
            held, self._held = self._held, None
            if held:
                self.write("".join(held))
            self._flush_aside()

    def write_aside(self, text: str, out: TextIO) -> None:
        """Write whole lines to `out`, which is on the same terminal: once no line is being written, nobody is asked."""
        with self._lock:
            self._aside.append((text, out))
            self._flush_aside()

    def _flush_aside(self) -> None:
        if self._aside and not self._within and self._held is None:
            self._draw(whole=False)
            for text, out in self._aside:
                put(out, text)
            self._aside.clear()
            self._draw()

    def _tick(self) -> None:
        while not self._stopping.wait(_BLINK):
            with self._lock:
                if self._activities:
                    self._draw()

    def _draw(self, text: str = "", *, whole: bool = True) -> None:
        """Write `text` above the lines and draw them, in one piece; without `whole`, only take them away."""
        if self._held is not None:
            return
        width = max(1, measure_width(self._out))  # a terminal may be narrower by now
        above = sum(max(1, -(-one // width)) for one in self._drawn)
        lines = self._draw_lines() if whole and self._live and not self._within else []
        self._drawn = [count_cells(line) for line in lines]
        if not (text or lines or above):
            return
        erased = f"{_UP * (above - 1)}\r" if above else ""
        if text or len(lines) < above:  # one by one: clearing a whole screen would put it into the terminal's history
            erased += "\n".join([_CLEAR] * above) + f"{_UP * (above - 1)}\r" * bool(above)
        put(self._out, erased + text + "\n".join(f"{line}{_CLEAR}" for line in lines))

    def _draw_lines(self) -> list[str]:
        most = max(1, min(_MOST, measure_height(self._out) // 2))
        shown, sign = [self._activities[key] for key in sorted(self._activities)], next(self._signs)
        more = len(shown) - most
        lines = [self._draw_line(sign, one) for one in (shown[: most - 1] if more > 0 else shown)]
        return [*lines, f"  and {more + 1} more"] if more > 0 else lines

    def _draw_line(self, sign: str, activity: _Activity) -> str:
        width = measure_width(self._out) - 2
        begin = f"{sign} {clean(activity.what)}"
        while begin and count_cells(begin) > max(1, width - 8):
            begin = begin[:-1]
        begin += f" {time.monotonic() - activity.began:.0f} s"
        room = max(0, width - count_cells(begin) - 2)
        rest = clean(" ".join(activity.rest.split()))[-room:] if room > 8 else ""
        while count_cells(rest) > room:
            rest = rest[1:]
        return f"{begin}  {rest}" if rest else begin


def write_aside(text: str) -> None:
    """Write whole lines to standard error, above the status lines of the same terminal, if there are any."""
    if _shown and is_seen(sys.stderr):
        _shown[-1].write_aside(text, sys.stderr)
    elif sys.stderr is not None:
        put(sys.stderr, text)
