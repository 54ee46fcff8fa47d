"""`retinue.pins.json`: what a person has reviewed and approved, by section: tools of MCP servers, and skills."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError
from .files import replace_file

PINS = "retinue.pins.json"
COMMANDS = {"servers": "retinue pin FILE", "skills": "retinue skills pin"}  # which write the sections
MAX_FILE = 16_000_000  # bytes


def read_section(path: Path, section: str) -> dict[str, Any] | None:
    """Return the entries of a section by their names, or `None` if there is no such file or section. Raises
    `DataError`."""
    entries = _read_file(path, section).get(section)
    if isinstance(entries, dict | None):
        return entries
    raise DataError(f"{path}: {section}: want a mapping; write it with: {COMMANDS[section]}")


def write_section(path: Path, section: str, entries: Mapping[str, Any]) -> None:
    """Write a section, and leave the others as they are. The file is replaced atomically. Raises as `read_section`."""
    value = {"pins": 1} | _read_file(path, section) | {section: entries}
    try:
        replace_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error


def _read_file(path: Path, section: str) -> dict[str, Any]:
    try:
        if not path.exists():
            return {}
        if path.stat().st_size > MAX_FILE:
            raise DataError(f"{path}: the file is larger than {MAX_FILE:,} bytes")
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error})") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if isinstance(value, dict) and value.get("pins") == 1:
        return value
    raise DataError(f'{path}: want {{"pins": 1, "{section}": {{…}}}}; write it with: {COMMANDS[section]}')
