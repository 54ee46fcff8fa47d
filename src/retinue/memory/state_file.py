"""A memory's state as JSON, parsed strictly: in a file that is replaced atomically, or wherever else it is kept."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from .._internal.processes import in_forked_child
from ..errors import DataError, UsageError

S = TypeVar("S")
VERSION = 1
_MAX_BYTES = 16_000_000


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
        in_forked_child(self._make_locks)
        self.state = state or (kind() if self.path is None or not self.path.exists() else _read(kind, self.path))

    def _make_locks(self) -> None:
        self.lock = threading.Lock()  # for reading and changing the state from any thread
        self._saving = threading.Lock()

    def save(self) -> None:
        """Write the current state, if there is a file. Raises `UsageError`."""
        if self.path is None:
            return
        with self._saving:
            _put(self.path, self.dump(indent=1).encode())

    def dump(self, indent: int | None = None) -> str:
        """Return the current state as JSON."""
        with self.lock:
            return dump_state(self.state, indent)


def dump_state(state: object, indent: int | None = None) -> str:
    """Return the state of a memory as JSON, in one line or with so many spaces of indentation."""
    value = {"retinue": VERSION, "memory": type(state).__name__, **asdict(state)}  # type: ignore[call-overload]
    return json.dumps(value, indent=indent)


def _read(kind: type[S], path: Path) -> S:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
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
        raise _unreadable(place, f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(place, str(error)) from error
    return state


def _unreadable(place: object, problem: str) -> DataError:
    return DataError(f"{place} is not a readable memory: {problem} (move it away to start a new one)")


def _put(path: Path, content: bytes) -> None:
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
