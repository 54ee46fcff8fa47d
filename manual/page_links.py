"""Links that lead out of `docs`, as they are within the site."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

_LINK = re.compile(r"\]\((?P<up>(?:\.\./)+)(?P<file>[\w./-]+)(?P<anchor>#[\w-]+)?\)")


def on_site(text: str, place: Path) -> str:
    """The text of a page of `docs` at `place` there, with its links to other folders led to pages of the site."""

    def moved(found: re.Match[str]) -> str:
        depth = len(place.parts) - 1
        if found["up"].count("../") <= depth:
            return found[0]
        target = page_of(found["file"], found["anchor"] or "")
        return f"]({'../' * depth}{target})" if target else found[0]

    return _LINK.sub(moved, text)


def page_of(file: str, anchor: str = "") -> str | None:
    """The page that shows a `file` of the repository; none, if there is none."""
    path = PurePosixPath(file)
    match path.parts:
        case ("bench", "RESULTS.md"):
            return f"benchmarks.md{anchor}"
        case ("bench", name) if name.endswith(".svg"):
            return f"assets/{name}"
        case ("examples", name) if name.endswith(".py"):
            return f"examples.md#{path.stem.replace('_', '-')}"
        case ("examples", _):
            return "examples.md"
        case ("examples", name, _):
            return f"examples.md#{name.replace('_', '-')}"
        case ("deploy", *_) | ("src", *_):
            return f"examples.md#{slug(file)}"
    return None


def slug(file: str) -> str:
    """The anchor of a file that is shown."""
    return re.sub(r"[^a-z0-9]+", "-", file.lower()).strip("-")
