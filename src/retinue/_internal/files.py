"""Files: the user's folders, for reproducible data and for what programs keep between starts; and atomic writing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from platformdirs import user_cache_path, user_state_path


def cache_folder() -> Path:
    """Return `$RETINUE_CACHE`, or a folder in the system's cache location."""
    chosen = os.environ.get("RETINUE_CACHE")
    return Path(chosen) if chosen else user_cache_path("retinue", appauthor=False)


def find_state_folder() -> Path:
    """Return `$RETINUE_CACHE`, or a folder in the system's location for the state of programs."""
    chosen = os.environ.get("RETINUE_CACHE")
    return Path(chosen) if chosen else user_state_path("retinue", appauthor=False)


def replace_file(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write a file atomically and durably: after a crash, it has either the old or the new content. Raises `OSError`.

    Its folder must exist. A `private` file is for its user only; any other keeps its mode, or is readable by all.
    """
    mode = 0o600 if private else path.stat().st_mode & 0o777 if path.exists() else 0o644
    number, name = tempfile.mkstemp(".tmp", f"{path.name}.", path.parent)
    written = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(number)
        written.chmod(mode)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
