"""The user's cache folder, for reproducible data."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """Return `$RETINUE_CACHE`, or a folder in the system's cache location."""
    chosen = os.environ.get("RETINUE_CACHE")
    return Path(chosen) if chosen else user_cache_path("retinue", appauthor=False)
