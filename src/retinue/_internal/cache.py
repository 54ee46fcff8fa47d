"""The user's folders: a cache for reproducible data, and one for what programs keep between starts."""

from __future__ import annotations

import os
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
