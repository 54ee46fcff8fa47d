"""Loads agents and pipelines from files and saves them: the core of `load_from_yaml` and `save_to_yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._internal.yaml_io import YamlSerializable
from ..core.effects import Human
from ..errors import DataError, UsageError
from .builder import Builder
from .export import file_value, write_atomically
from .file_check import load_spec
from .problems import unknown
from .references import exposed
from .specs import FileSpec
from .yaml_text import dump_value

_WORDS = {"agents": "agent_name", "pipelines": "pipeline_name"}


def load(path: str | Path, section: str, name: str | None = None, human: Human | None = None) -> Any:
    """Build the part called `name` in the file's `section` ("agents" or "pipelines"); `name` may be omitted if there is
    only one. Groups and chains are agents, too. Raises `DataError` with all problems of the file, and `UsageError` if
    the name is needed."""
    spec = load_spec(path)
    choice = chosen_agent(spec, name) if section == "agents" else chosen(spec, section, name)
    return Builder(spec, human).get(choice)


def chosen_agent(spec: FileSpec, name: str | None) -> str:
    """Return `name` if an agent, group or chain is called that; without it, the only one that a server would
    offer."""
    teams: list[str] = [one.name for one in (*(spec.groups or ()), *(spec.chains or ()))]
    if name in teams:
        return str(name)
    offered = [one.name for one in exposed(spec)]
    if name is not None or not (offered or teams):
        return chosen(spec, "agents", name)
    if len(offered) != 1:
        raise UsageError(f"{spec.source.file} has several agents; say which: {', '.join(offered or teams)}")
    return offered[0]


def chosen(spec: FileSpec, section: str, name: str | None) -> str:
    """Return `name`, or the name of the only part."""
    names: list[str] = [item.name for item in getattr(spec, section) or ()]
    if name is None:
        if not names:
            raise DataError(f"{spec.source.file}: there are no {section}")
        if len(names) > 1:
            raise UsageError(f"{spec.source.file} has several {section}; say which: {', '.join(names)}")
        return names[0]
    if name not in names:
        raise DataError(f"{spec.source.file}: {unknown(section[:-1], name, names)}")
    return name


def save(something: YamlSerializable, path: str | Path) -> None:
    """Write `something` to `path` atomically. Raises `UsageError` for what a file cannot express."""
    path = Path(path)
    text = f"{_head()}{dump_value(file_value(something, path.resolve().parent))}"
    write_atomically(path, text)


def _head() -> str:
    return "# Written by Retinue. Secrets are not included: set the variables that stand for them.\n"
