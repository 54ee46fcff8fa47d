"""`StoredMemory`: what memories with a state have in common. They keep it as JSON, parsed strictly, in a file that is
replaced atomically or wherever else a caller puts it; and they catch up with their turns in the background.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

from .._internal.concurrency import run_in_thread
from .._internal.processes import call_in_forked_child
from .._internal.sync_bridge import run_blocking, start_in_background
from ..core.component import Configurable
from ..errors import DataError, RetinueError, UsageError

logger = logging.getLogger(__name__)
S = TypeVar("S")
VERSION = 1
_MAX_BYTES = 16_000_000


class StoredMemory(Configurable, ABC, Generic[S]):
    """A memory with a state, a dataclass, which catches up with its turns in the background. `label` names what is
    brought up to date."""

    label: str
    _kept: StateFile[S]
    _background: Background

    def _keep(self, kept: StateFile[S]) -> None:
        self._kept = kept
        self._background = Background(self.label, self.is_due, self.catch_up)

    def with_state(self, text: str | None) -> Self:
        """Return a memory like this one with the state that `dump` returned, or a new one, in this process only. Raises
        `DataError`."""
        kind = type(self._kept.state)
        state = None if text is None else load_state(kind, text, "the state")
        other = copy.copy(self)
        other._keep(StateFile(kind, None, state))
        return other

    def dump(self) -> str:
        """Return the state as JSON."""
        return self._kept.dump()

    async def remember(self, question: str, answer: str) -> None:
        """Add a turn and save. Raises `UsageError` if the file cannot be written."""
        self.note(question, answer)
        await run_in_thread(self._kept.save)
        self._background.nudge()

    @abstractmethod
    def note(self, question: str, answer: str) -> None:
        """Add a turn, without saving."""

    @abstractmethod
    def is_due(self) -> bool:
        """Return whether there is something to catch up with."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Catch up with the turns. Raises `ModelError`."""

    async def settled_async(self) -> None:
        """Wait until all turns are dealt with, and save."""
        await self._background.settled_async()
        await run_in_thread(self._kept.save)

    def settled(self) -> None:
        """Run `settled_async` and block."""
        run_blocking(self.settled_async())


# ── work in the background ────────────────────────────────────────────────────────────────────────


class Background:
    """Runs `work` while it is `due`, one call at a time, on the process's background loop, so it outlives the caller's
    loop.

    An error is logged and stops it until the next nudge.
    """

    def __init__(self, name: str, due: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._due = due
        self._work = work
        self._begin_idle()
        call_in_forked_child(self._begin_idle)

    def _begin_idle(self) -> None:
        """Note that no work runs: a forked child's is done by its parent."""
        self._lock = threading.Lock()
        self._running: Future[None] | None = None

    def nudge(self) -> None:
        """Start if there is something to do, without waiting."""
        with self._lock:
            if self._running is None and self._due():
                self._running = start_in_background(self._run())

    async def settled_async(self) -> None:
        """Wait until there is nothing left to do, or it failed."""
        self.nudge()
        if (running := self._running) is not None:
            await asyncio.shield(asyncio.wrap_future(running))

    async def _run(self) -> None:
        try:
            while self._should_go_on():
                await self._work()
        except BaseException as error:
            with self._lock:
                self._running = None
            if not isinstance(error, Exception):
                raise
            unknown = not isinstance(error, RetinueError)
            logger.warning("%s was not brought up to date: %s", self._name, error, exc_info=unknown)

    def _should_go_on(self) -> bool:
        with self._lock:
            if not self._due():
                self._running = None
            return self._running is not None


# ── the state ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class StoredTurn:
    """A question and its answer."""

    question: str
    answer: str


class StateFile(Generic[S]):
    """The state of one memory, a dataclass, in the file at `path`, or in memory only, beginning with `state`.

    Raises `DataError` if the file exists and does not contain such a state.
    """

    def __init__(self, kind: type[S], path: str | Path | None, state: S | None = None) -> None:
        self.path = None if path is None else Path(path).expanduser()
        self._make_locks()
        call_in_forked_child(self._make_locks)
        self.state = state or (kind() if self.path is None or not self.path.exists() else _read_state(kind, self.path))

    def _make_locks(self) -> None:
        self.lock = threading.Lock()  # for reading and changing the state from any thread
        self._saving = threading.Lock()

    def save(self) -> None:
        """Write the current state, if there is a file. Raises `UsageError`."""
        if self.path is None:
            return
        with self._saving:
            _replace_file(self.path, self.dump(indent=1).encode())

    def dump(self, indent: int | None = None) -> str:
        """Return the current state as JSON."""
        with self.lock:
            return dump_state(self.state, indent)


def dump_state(state: object, indent: int | None = None) -> str:
    """Return the state of a memory as JSON, in one line or with so many spaces of indentation."""
    value = {"retinue": VERSION, "memory": type(state).__name__, **asdict(state)}  # type: ignore[call-overload]
    return json.dumps(value, indent=indent)


def _read_state(kind: type[S], path: Path) -> S:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise _make_unreadable_error(path, str(error)) from error
    return load_state(kind, content, path)


def load_state(kind: type[S], content: str | bytes, place: object) -> S:
    """Return the state that `dump` wrote as `content`; `place` says where that is. Raises `DataError`."""
    from pydantic import TypeAdapter, ValidationError

    try:
        value = json.loads(content)
        if not isinstance(value, dict) or (value.get("retinue"), value.get("memory")) != (VERSION, kind.__name__):
            raise ValueError(f"it is not a {kind.__name__} of version {VERSION}")
        state: S = TypeAdapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise _make_unreadable_error(place, f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise _make_unreadable_error(place, str(error)) from error
    return state


def _make_unreadable_error(place: object, problem: str) -> DataError:
    return DataError(f"{place} is not a readable memory: {problem} (move it away to start a new one)")


def _replace_file(path: Path, content: bytes) -> None:
    """Replace the file atomically and durably: after a crash, it has either the old or the new content."""
    beside = path.with_name(f"{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
