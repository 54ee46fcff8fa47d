"""The address of an MCP server: a command to run, or a URL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .._internal.redaction import redact_excerpt, register_named_secrets, register_url_secrets
from ..core.context_templates import describe_bad_template
from ..net.ssrf_guard import SsrfGuard

_NAME = re.compile(r"[A-Za-z0-9_]{1,32}")


@dataclass(frozen=True, slots=True)
class Server:
    """A server and its address; `seconds` limits connecting and listing. A `guard` says where `url` may lead.
    `personal` are the headers with what the templates in `headers` stand for, for one user.

    Fields that may hold secrets are left out of its `repr`.
    """

    name: str
    command: str | None = None
    args: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    seconds: float = 30.0
    guard: SsrfGuard | None = field(default=None, repr=False)
    personal: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        register_named_secrets(self.env)
        register_named_secrets(self.headers)
        register_url_secrets(self.url or "")


def find_server_problems(name: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a server's settings: the parameter (`""` for all of them) and the reason. Text with a
    `${NAME}` is accepted, since it may stand for anything."""
    if not _NAME.fullmatch(name):
        yield "name", f"an MCP server's name: want at most 32 letters, digits and underscores, not {name[:40]!r}"
    if isinstance(seconds := given.get("seconds"), int | float) and seconds <= 0:
        yield "seconds", f"seconds: want more than 0, not {seconds:g}"
    if (given.get("command") is None) == (given.get("url") is None):
        yield "", "want either a 'command' to run or a 'url'"
    elif given.get("command") == "":
        yield "command", "the command is empty"
    elif (url := given.get("url")) is not None and not _is_address(url):
        yield "url", f"url: want http://… or https://…, without a user name, not {redact_excerpt(url)!r}"
    else:
        yield from _find_settings_problems(given)


def _find_settings_problems(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, other in (("args", "command"), ("env", "command"), ("headers", "url")):
        if given.get(key) and given.get(other) is None:
            yield key, f"{key!r} goes with {other!r}"
    for key in ("args", "tools"):
        if not all(isinstance(one, str) for one in given.get(key) or ()):
            yield key, f"{key}: want a list of texts"
    for key in ("env", "headers"):
        pairs = given.get(key) or {}
        if not all(isinstance(one, str) and "\n" not in f"{name}{one}" for name, one in pairs.items()):
            yield key, f"{key}: want a mapping of names to single-line texts; put numbers in quotes"
        elif problem := next(filter(None, map(describe_bad_template, pairs.values())), ""):
            yield key, f"{key}: {problem}"


def _is_address(url: str) -> bool:
    if "${" in url:
        return True
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False
