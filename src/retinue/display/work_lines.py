"""What a call did for long work, as lines for a person: the list of what is to do, and the files that changed.

It is read from the `data` of the call's observation, which may be any tool's: what has another form is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .terminal import DIM, DOING, GOOD, ODD

_MARKS = {"completed": ("[x]", DIM), "in_progress": ("[>]", DOING), "pending": ("[ ]", "")}
_MOST = 30  # files


def list_work_lines(data: Any) -> Iterator[tuple[str, str]]:
    """Yield lines with their colours."""
    match data:
        case {"todos": list(items)}:
            for item in items:
                match item:
                    case {"text": str(text), "status": "completed" | "in_progress" | "pending" as state}:
                        yield f"{_MARKS[state][0]} {text}", _MARKS[state][1]
        case {"workspace": {"changed": list(files)}}:
            for file in files[:_MOST]:
                match file:
                    case {"path": str(path), "size": None}:
                        yield f"- {path}", ODD
                    case {"path": str(path), "size": int(size), "was": int(was)}:
                        yield f"~ {path} ({was:,} → {size:,} bytes)", DOING
                    case {"path": str(path), "size": int(size)}:
                        yield f"+ {path} ({size:,} bytes)", GOOD
            if len(files) > _MOST:
                yield f"and {len(files) - _MOST} more files", DIM
