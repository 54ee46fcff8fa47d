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
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

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
    """A memory with a state, a dataclass, which catches up with its turns in the background.

    It does so on the process's background loop, which outlives the caller's, one piece of work at a time. An error is
    logged and stops it until the next turn. `label` names in the log what is brought up to date.
    """

    label: str
    _state: S

    def _open(self, kind: type[S], path: str | Path | None) -> None:
        """Begin with the state in the file at `path`, or with a new one. Raises `DataError` for another file."""
        path = None if path is None else Path(path).expanduser()
        if path is None or not path.exists():
            return self._begin(kind(), path)
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            raise _make_unreadable_error(path, error) from error
        return self._begin(_parse_state(kind, content, path), path)

    def _begin(self, state: S, path: Path | None) -> None:
        self._state, self._path = state, path
        self._make_locks()
        call_in_forked_child(self._make_locks)

    def _make_locks(self) -> None:
        """Make the locks, and note that no work runs: a forked child's is done by its parent."""
        self._lock = threading.RLock()  # for reading and changing the state and `_running` from any thread
        self._saving = threading.Lock()
        self._running: Future[None] | None = None

    def _copy(self, state: S) -> Self:
        """Return a memory like this one with another state, in this process only."""
        other = copy.copy(self)
        other._begin(state, None)
        return other

    def _parse(self, text: str) -> S:
        return _parse_state(type(self._state), text, "the state")

    def with_state(self, text: str | None) -> Self:
        """Return a memory like this one with the state that `dump` returned, or a new one, in this process only. Raises
        `DataError`."""
        return self._copy(type(self._state)() if text is None else self._parse(text))

    def dump(self, indent: int | None = None) -> str:
        """Return the state as JSON, in one line or with so many spaces of indentation."""
        with self._lock:
            given: Any = self._state
            value = {"retinue": VERSION, "memory": type(given).__name__, **asdict(given)}
        return json.dumps(value, indent=indent)

    def save(self) -> None:
        """Write the state, if there is a file. Raises `UsageError`."""
        if self._path is not None:
            with self._saving:
                _replace_file(self._path, self.dump(indent=1).encode())

    async def remember(self, question: str, answer: str) -> None:
        """Add a turn and save. Raises `UsageError` if the file cannot be written."""
        self.note(question, answer)
        await run_in_thread(self.save)
        self._start_if_due()

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
        """Wait until all turns are dealt with, or that failed, and save."""
        self._start_if_due()
        if (running := self._running) is not None:
            await asyncio.shield(asyncio.wrap_future(running))
        await run_in_thread(self.save)

    def settled(self) -> None:
        """Run `settled_async` and block."""
        run_blocking(self.settled_async())

    def _start_if_due(self) -> None:
        with self._lock:
            if self._running is None and self.is_due():
                self._running = start_in_background(self._run())

    async def _run(self) -> None:
        try:
            while True:
                with self._lock:
                    if not self.is_due():
                        self._running = None
                        return
                await self.catch_up()
        except BaseException as error:
            with self._lock:
                self._running = None
            if not isinstance(error, Exception):
                raise
            unknown = not isinstance(error, RetinueError)
            logger.warning("%s was not brought up to date: %s", self.label, error, exc_info=unknown)


def _parse_state(kind: type[S], content: str | bytes, place: object) -> S:
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
        raise _make_unreadable_error(place, error) from error
    return state


def _make_unreadable_error(place: object, problem: object) -> DataError:
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
