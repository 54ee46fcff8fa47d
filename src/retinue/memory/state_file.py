"""A memory's state in a file: JSON, replaced atomically and parsed strictly."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

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
    """The state of one memory, a dataclass, in the file at `path`, or in memory only.

    Raises `DataError` if the file exists and does not contain such a state.
    """

    def __init__(self, kind: type[S], path: str | Path | None) -> None:
        self.path = None if path is None else Path(path).expanduser()
        self.lock = threading.Lock()  # for reading and changing the state from any thread
        self._saving = threading.Lock()
        self.state = kind() if self.path is None or not self.path.exists() else _read(kind, self.path)

    def save(self) -> None:
        """Write the current state, if there is a file. Raises `UsageError`."""
        if self.path is None:
            return
        with self._saving:
            with self.lock:
                value = {"retinue": VERSION, "memory": type(self.state).__name__, **asdict(self.state)}  # type: ignore[call-overload]
            _put(self.path, json.dumps(value, indent=1).encode())


def _read(kind: type[S], path: Path) -> S:
    from pydantic import TypeAdapter, ValidationError

    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
        content = path.read_bytes()
        value = json.loads(content)
        if not isinstance(value, dict) or (value.get("retinue"), value.get("memory")) != (VERSION, kind.__name__):
            raise ValueError(f"it is not a {kind.__name__} of version {VERSION}")
        state: S = TypeAdapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise _unreadable(path, f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    return state


def _unreadable(path: Path, problem: str) -> DataError:
    return DataError(f"{path} is not a readable memory: {problem} (move it away to start a new one)")


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
