"""The user's cache folder: what can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """`$RETINUE_CACHE`, or the place where the system keeps such things."""
    chosen = os.environ.get("RETINUE_CACHE")
    return Path(chosen) if chosen else user_cache_path("retinue", appauthor=False)
