"""Older files as files of the current version: their text is edited, so comments stay."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import DataError
from .export import write_atomically
from .origins import VERSION
from .places import Source, fail
from .roles import kind_of
from .yaml_reader import read_file, read_text

_LINE = f"retinue: {VERSION}"
_OTHERS = {
    "agent": "is one agent's configuration (RFC 003), which loads as it is and has no version",
    "tools": "is a file of tools, which a file of agents names and which has no version",
    "unknown": "is no file of agents: it has none of 'components', 'pipelines', 'agents' and 'tools'",
}
_HEAD = re.compile(r"(?:\ufeff)?(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*(?:---[ \t]*(?:\r\n|\r|\n))?")


def migrate(path: Path) -> str:
    """Lift the file at `path`, unless it is no file of agents; what was done, in words. Raises `DataError`."""
    source = read_file(path)
    fail(source.problems)
    if not isinstance(source.value, dict | None):
        raise DataError(f"{path}:1:1: want a mapping of components, pipelines, agents and tools")
    kind = kind_of(source.value)
    if kind != "file":
        return f"{_OTHERS[kind]}; left as it is"
    if source.value and "retinue" in source.value and "version" not in source.value:
        return f"is of version {VERSION} already"
    text = path.read_bytes().decode("utf-8")
    lifted = _lifted(text, source)
    wanted = {"retinue": VERSION} | {key: value for key, value in (source.value or {}).items() if key != "version"}
    after = read_text(lifted)
    if after.problems or after.value != wanted:
        raise DataError(f"{path}: its version cannot be changed here; write {_LINE!r} at its top instead of 'version'")
    write_atomically(path, lifted)
    return f"is of version {VERSION} now"


def _lifted(text: str, source: Source) -> str:
    lines = text.splitlines(keepends=True)
    place = source.keys.get(("version",))
    if place is not None:
        line = lines[place.line - 1]
        end = line[len(line.rstrip("\r\n")) :]
        comment = re.search(r"\s#.*", line.rstrip("\r\n"))
        new = "" if "retinue" in source.value else f"{_LINE}{comment[0] if comment else ''}{end}"
        lines[place.line - 1] = new
        return "".join(lines)
    head = _HEAD.match(text)
    at = head.end() if head else 0
    return f"{text[:at]}{_LINE}\n{text[at:]}"
