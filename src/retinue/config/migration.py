"""Migrates older files to the current version by editing their text, so that comments are kept."""

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
    "agent": "is the configuration of one agent (RFC 003), which needs no version",
    "tools": "is a tool file, which needs no version",
    "unknown": "is not a file of agents: it has none of 'components', 'pipelines', 'agents' and 'tools'",
}
_HEAD = re.compile(r"(?:\ufeff)?(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*(?:---[ \t]*(?:\r\n|\r|\n))?")


def migrate(path: Path) -> str:
    """Upgrade the file at `path`, if it is a file of agents. Return a description of what was done. Raises
    `DataError`."""
    source = read_file(path)
    fail(source.problems)
    if not isinstance(source.value, dict | None):
        raise DataError(f"{path}:1:1: want a mapping of components, pipelines, agents and tools")
    kind = kind_of(source.value)
    if kind != "file":
        return f"{_OTHERS[kind]}; left as it is"
    if source.value and "retinue" in source.value and "version" not in source.value:
        return f"already has version {VERSION}"
    text = path.read_bytes().decode("utf-8")
    lifted = _lifted(text, source)
    wanted = {"retinue": VERSION} | {key: value for key, value in (source.value or {}).items() if key != "version"}
    after = read_text(lifted)
    if after.problems or after.value != wanted:
        raise DataError(
            f"{path}: its version cannot be changed automatically; write {_LINE!r} at its top instead of 'version'"
        )
    write_atomically(path, lifted)
    return f"now has version {VERSION}"


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
