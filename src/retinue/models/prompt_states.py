"""Files with the model's state after the beginning of a prompt, so that a later process need not read that text again.

A file is named by what its state depends on and by its own SHA-256: one that was damaged, or belongs to another model,
another engine or another text, is not found. Files appear whole, under their final name, and can be deleted at any
time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from .._internal.cache import cache_folder

MOST_FILES = 16
MOST_BYTES = 512 << 20
SWITCH = "RETINUE_PROMPT_STATES"  # `off` in the environment keeps none, and reads none
_UNFINISHED = 3600.0  # seconds after which a file that is still being written has been left behind


def folder() -> Path:
    """Return the folder of all states: `$RETINUE_CACHE/states`, or a folder in the user's cache."""
    return cache_folder() / "states"


def are_kept() -> bool:
    """Return whether states are kept in files."""
    return os.environ.get(SWITCH, "").strip().lower() not in ("off", "0", "no", "false")


@dataclass(frozen=True, slots=True)
class PromptStates:
    """The states of one model. `depends` is what they depend on besides the text, such as the engine's version."""

    depends: tuple[str | int, ...]

    def find(self, text: str) -> Path | None:
        """Return the intact file with the state after `text`, if there is one. A damaged one is deleted."""
        for path in folder().glob(f"{self._key(text)}-*.state"):
            if path.stem.endswith(f"-{_digest(path)}"):
                os.utime(path)  # what was used last is kept longest
                return path
            path.unlink(missing_ok=True)
        return None

    def create(self, text: str) -> Path:
        """Return a new empty file, to write the state after `text` into. Raises `OSError`."""
        partial = folder() / f"{self._key(text)}-{secrets.token_hex(4)}.partial"
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return partial

    def complete(self, text: str, partial: Path) -> None:
        """Give the written file its final name, and delete what is too much. Raises `OSError`."""
        partial.replace(partial.with_name(f"{self._key(text)}-{_digest(partial)}.state"))
        _remove_excess()

    def _key(self, text: str) -> str:
        return hashlib.sha256(json.dumps([*self.depends, text]).encode()).hexdigest()[:32]


def made_folder() -> Path | None:
    """Return the folder, which only its user may enter, or `None` if states are not kept or it cannot be made."""
    if not are_kept():
        return None
    path = folder()
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError:
        return None
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _remove_excess() -> None:
    """Delete the files that were not used for longest, down to the limits, and what others left unfinished."""
    files: list[tuple[float, int, Path]] = []
    for path in folder().glob("*.*"):
        with contextlib.suppress(OSError):  # another process has deleted it
            found = path.stat()
            if path.suffix == ".state":
                files.append((found.st_mtime, found.st_size, path))
            elif path.suffix == ".partial" and found.st_mtime < time.time() - _UNFINISHED:
                path.unlink()
    total = 0
    for number, (_, size, path) in enumerate(sorted(files, reverse=True), 1):
        total += size
        if number > MOST_FILES or total > MOST_BYTES:
            with contextlib.suppress(OSError):
                path.unlink()
