"""Shortens tracebacks of Retinue's own errors by removing its internal frames."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ..errors import RetinueError

E = TypeVar("E", bound=RetinueError)
_PACKAGES = (Path(__file__).parents[1], Path(asyncio.__file__).parent, Path(concurrent.futures.__file__).parent)
_OURS = tuple(str(folder) + os.sep for folder in _PACKAGES)


def shorten_traceback(error: E) -> E:
    """Remove all frames from the traceback of `error` except foreign ones, such as those of a custom model.

    These errors are self-explanatory. With `RETINUE_DEBUG` set, all frames stay.
    """
    if os.environ.get("RETINUE_DEBUG"):
        return error
    kept: TracebackType | None = None
    for one in reversed(_links(error.__traceback__)):
        if not one.tb_frame.f_code.co_filename.startswith(_OURS):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return error.with_traceback(kept)


def _links(traceback: TracebackType | None) -> list[TracebackType]:
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found
