"""Resolves a tool's `callable_api` from its text and folder alone, without importing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from .._internal.message_text import nearest
from .._internal.redaction import redacted_excerpt
from .registry import PYTHON_ROOTS, TOOLS

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An HTTP endpoint configured by the operator."""

    url: str


@dataclass(frozen=True, slots=True)
class FileFunction:
    """A function in a Python file under the tool file's folder."""

    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class ModuleTool:
    """A tool in a module under one of the allowed roots."""

    module: str
    attribute: str


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A built-in tool, by its name in `registry.TOOLS`."""

    name: str


Target = Endpoint | FileFunction | ModuleTool | BuiltIn


def parse_callable(text: str, folder: Path, roots: Iterable[str] = PYTHON_ROOTS) -> Target:
    """Return what `callable_api: text` means in a file of `folder`. Raises `ValueError` if it is not allowed."""
    if text.startswith(("http://", "https://")):
        return Endpoint(_url(text))
    if ".py:" in text:
        file, _, function = text.rpartition(":")
        if not function.isidentifier() or function.startswith("__"):
            raise ValueError(f"{function[:60]!r} is not the name of a function")
        return FileFunction(existing_path(folder, file), function)
    if text in TOOLS:
        return BuiltIn(text)
    module, _, attribute = text.rpartition(".")
    parts = text.split(".")
    if any(module == root or module.startswith(f"{root}.") for root in roots) and all(map(_is_public, parts)):
        return ModuleTool(module, attribute)
    near = nearest(text, TOOLS)
    raise ValueError(
        f"{redacted_excerpt(text)!r} is not allowed; "
        + (f"did you mean {near!r}?" if near else f"want http://…, https://…, file.py:function, {_names(roots)}")
    )


def existing_path(folder: Path, name: str) -> Path:
    """Return the file or folder `name` under `folder`. Raises `ValueError` if it does not exist or leads out of the
    folder."""
    found = path_within(folder, name)
    if not found.exists():
        raise ValueError(f"{name!r} does not exist here")
    return found


def path_within(folder: Path, name: str) -> Path:
    """Return the path `name` under `folder`, with links resolved. Raises `ValueError` if it leads out of the folder."""
    path = PurePosixPath(name)
    if not name.strip() or not name.isprintable() or "\\" in name or path.is_absolute() or name.startswith("~"):
        raise ValueError(f"{name[:60]!r} is not a path relative to this file's folder")
    root = folder.resolve()
    try:
        found = (root / path).resolve()
    except (OSError, RuntimeError) as error:  # circular links
        raise ValueError(f"{name[:60]!r} is a circular link") from error
    if ".." in path.parts or not found.is_relative_to(root):
        raise ValueError(f"{name[:60]!r} leads out of this file's folder")
    return found


def environment(text: str) -> dict[str, str]:
    """Parse `env: NAME=value,NAME=value` to a dict. Raises `ValueError`."""
    values = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, sign, value = part.partition("=")
        if not sign or not _VARIABLE.fullmatch(name.strip()):
            raise ValueError(
                "want NAME=value,NAME=value; a value may not contain a comma"
            )  # not shown, since it may be part of a secret
        values[name.strip()] = value.strip()
    return values


def _url(text: str) -> str:
    try:
        address = urlsplit(text.replace("${", "").replace("}", ""))
        whole = bool(address.hostname) and address.port != 0
    except ValueError:
        whole = False
    if (not whole and "${" not in text) or any(not c.isprintable() or c.isspace() for c in text):
        raise ValueError(f"{redacted_excerpt(text)!r} is not a URL (want http://host:port/path)")
    return text


def _is_public(part: str) -> bool:
    return part.isidentifier() and not part.startswith("_")


def _names(roots: Iterable[str]) -> str:
    return f"a tool under {' or '.join(roots)}, or one of {', '.join(TOOLS)}"
