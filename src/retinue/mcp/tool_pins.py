"""The tools a server offers, and those that were approved (pinned): a tool is its name, description and schema."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .._internal.pin_file import read_section, write_section
from ..core.tools.tool import Effects
from ..errors import DataError
from .schema_conversion import convert_schema

MAX_TOOL = 65_536  # characters of a tool's definition
_ODD = re.compile(r"[-./ ]")
_TOOL = re.compile(r"[A-Za-z0-9_]{1,64}")
_EFFECTS = ("read", "idempotent", "once")


@dataclass(frozen=True)
class Offer:
    """A tool as its server describes it. `effects` are the server's own hints, which decide only whether calls may be
    repeated."""

    name: str
    description: str
    schema: Mapping[str, Any]
    effects: Effects = "once"

    @cached_property
    def sha256(self) -> str:
        """The hash of name, description and schema, which are what a model sees."""
        said = json.dumps([self.name, self.description, self.schema], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(said.encode()).hexdigest()

    def called(self, server: str) -> str:
        """Return the tool's name in an agent: `server_tool`."""
        return f"{server}_{_ODD.sub('_', self.name)}"


@dataclass(frozen=True)
class Malformed:
    """A listed tool that is not as MCP has it, and why."""

    name: str
    problem: str


@dataclass(frozen=True)
class Offered:
    """The usable tools of a server, by name, and the unusable ones with the reason."""

    offers: Mapping[str, Offer]
    refused: Mapping[str, str]


def split_offers(server: str, offers: Iterable[Offer | Malformed]) -> Offered:
    """Split tools into usable and unusable ones. If two would have the same name, neither is usable, since one may
    shadow the other."""
    usable: dict[str, Offer] = {}
    refused: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for offer in offers:
        if isinstance(offer, Malformed):
            refused[offer.name] = offer.problem
            continue
        called = offer.called(server)
        if problem := _find_problem(offer, called):
            refused[offer.name] = problem
        elif called in by_name:
            for twin in (offer.name, by_name[called]):
                usable.pop(twin, None)
                refused[twin] = f"two of the server's tools would be called {called}"
        else:
            usable[offer.name] = offer
            by_name[called] = offer.name
    return Offered(usable, refused)


def _find_problem(offer: Offer, called: str) -> str:
    """Return why a tool cannot be used; empty if it can."""
    if not offer.name or not _TOOL.fullmatch(called):
        return "its name has other characters than letters, digits, _ - . /, or more than 64 with its server's"
    try:
        if len(json.dumps([offer.name, offer.description, offer.schema])) > MAX_TOOL:
            return f"its description and schema are longer than {MAX_TOOL:,} characters"
        convert_schema(offer.schema)
    except (DataError, RecursionError, ValueError) as error:
        return str(error)
    for name, schema in (offer.schema.get("properties") or {}).items():
        if not isinstance(schema, Mapping | bool):
            return f"its argument {name!r:.80} is not described by a schema"
    return ""


# ── the file ─────────────────────────────────────────────────────────────────────────────────────

Pins = dict[str, dict[str, Offer]]


def read_pins(path: Path) -> Pins:
    """Read the approved tools, by server and tool; empty if there are none. Raises `DataError`."""
    servers = read_section(path, "servers") or {}
    for server, tools in servers.items():
        if not isinstance(tools, dict):
            raise DataError(f"{path}: {server}: want a mapping of tools")
    return {
        server: {name: _read_pin(f"{path}: {server}.{name}", name, one) for name, one in tools.items()}
        for server, tools in servers.items()
    }


def _read_pin(place: str, name: str, one: Any) -> Offer:
    match one:
        case {"sha256": str(sha256), "description": str(description), "schema": dict(schema), "effects": str(effects)}:
            offer = Offer(name, description, schema, effects)  # type: ignore[arg-type]
        case _:
            raise DataError(f"{place}: want sha256, description, schema and effects; write it with: retinue pin FILE")
    if offer.effects not in _EFFECTS:
        raise DataError(f"{place}: effects: want {', '.join(_EFFECTS)}")
    if offer.sha256 != sha256:
        raise DataError(f"{place}: this is not what was approved (its sha256 differs); run: retinue pin FILE")
    return offer


def write_pins(path: Path, pins: Pins) -> None:
    """Write the approved tools. Raises `DataError`."""

    def describe(offer: Offer) -> dict[str, Any]:
        names = ("sha256", "effects", "description", "schema")
        return {name: getattr(offer, name) for name in names}

    servers = {server: {one.name: describe(one) for one in tools.values()} for server, tools in pins.items()}
    write_section(path, "servers", servers)
