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
                    case {"text": str(text), "status": str(state)} if state in _MARKS:
                        mark, ink = _MARKS[state]
                        yield f"{mark} {text}", ink
    match data:
        case {"workspace": {"changed": list(files)}}:
            yield from map(_describe_file, files[:_MOST])
            if len(files) > _MOST:
                yield f"and {len(files) - _MOST} more files", DIM


def _describe_file(file: Any) -> tuple[str, str]:
    match file:
        case {"path": str(path), "size": None}:
            return f"- {path}", ODD
        case {"path": str(path), "size": int(size), "was": int(was)}:
            return f"~ {path} ({was:,} → {size:,} bytes)", DOING
        case {"path": str(path), "size": int(size)}:
            return f"+ {path} ({size:,} bytes)", GOOD
    return "?", DIM
