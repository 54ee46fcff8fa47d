"""RFC 003's role blocks: converts one agent's configuration, or an executor's tools, to a whole file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from .places import Path, Place, Source
from .specs import AgentParams, FileSpec

Kind = Literal["file", "agent", "tools", "unknown"]
_VERSION = "retinue"
_SECTIONS = ("components", "pipelines", "agents", "groups", "chains")
_NAME = "agent_name"


def kind_of(value: Any) -> Kind:
    """Return what a file's value holds: a file of agents, one agent's parameters, a tool file's tools, or none of
    these."""
    given = {key: one for key, one in value.items() if key != _VERSION} if isinstance(value, dict) else {}
    if not given or any(key in given for key in _SECTIONS):
        return "file"
    if any(key in AgentParams.model_fields or key == _NAME for key in given if key != "tools"):
        return "agent"
    if all(isinstance(entry, dict) and "callable_api" in entry for entry in given.values()):
        return "tools"
    return "file" if any(key in FileSpec.model_fields for key in value) else "unknown"


def lifted(source: Source) -> Source:
    """Return `source` as a file of agents. An agent's block becomes its only agent, a tool file an executor."""
    kind = kind_of(source.value)
    if kind == "agent":
        params = {key: value for key, value in source.value.items() if key not in (_NAME, _VERSION)}
        name = source.value.get(_NAME, "agent")
        return _moved(source, {"name": name, "params": params}, _in_agent)
    if kind == "tools":
        tools = {key: value for key, value in source.value.items() if key != _VERSION}
        params = {"role": "executor", "tools": tools}
        return _moved(source, {"name": "executor", "params": params}, lambda path: ("params", "tools", *path))
    return source


def _in_agent(path: Path) -> Path:
    return ("name", *path[1:]) if path[:1] == (_NAME,) else ("params", *path)


def _moved(source: Source, agent: Mapping[str, Any], where: Callable[[Path], Path]) -> Source:
    def places(known: Mapping[Path, Place]) -> dict[Path, Place]:
        return {
            path if path[0] == _VERSION else ("agents", 0, *where(path)): place for path, place in known.items() if path
        }

    version = {_VERSION: source.value[_VERSION]} if _VERSION in source.value else {}
    return Source(
        source.file, {**version, "agents": [agent]}, places(source.keys), places(source.values), source.problems
    )
