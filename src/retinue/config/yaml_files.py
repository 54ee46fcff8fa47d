"""Loads agents and pipelines from files and saves them: the core of `load_from_yaml` and `save_to_yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .._internal.yaml_io import YamlSerializable
from ..core.loop.effects import Human
from ..errors import DataError, UsageError
from ..tools.packages import lock_file, parse_requirements
from .builder import Builder
from .export import write_atomically, write_file_value
from .file_check import load_spec
from .problems import describe_unknown, fail, validate
from .references import list_exposed
from .registry import TOOLS
from .specs import FileSpec, ToolEntry, ToolFile, Tools
from .tool_files import check_tool_file, list_tool_files, resolve_existing_path
from .yaml_text import dump_value

_HEAD = "# Written by Retinue. Secrets are not included: set the variables that stand for them.\n"


def load(path: str | Path, section: str, name: str | None = None, human: Human | None = None) -> Any:
    """Build the part called `name` in the file's `section` ("agents" or "pipelines"); `name` may be omitted if there is
    only one. Groups and chains are agents, too. Raises `DataError` with all problems of the file, and `UsageError` if
    the name is needed."""
    spec = load_spec(path)
    choice = select_agent(spec, name) if section == "agents" else select_part(spec, section, name)
    return Builder(spec, human).get(choice)


def select_agent(spec: FileSpec, name: str | None) -> str:
    """Return `name` if an agent, group or chain is called that; without it, the only one that a server would
    offer."""
    teams: list[str] = [one.name for one in (*(spec.groups or ()), *(spec.chains or ()))]
    if name in teams:
        return str(name)
    offered = [one.name for one in list_exposed(spec)]
    if name is not None or not (offered or teams):
        return select_part(spec, "agents", name)
    if len(offered) != 1:
        raise UsageError(f"{spec.source.file} has several agents; say which: {', '.join(offered or teams)}")
    return offered[0]


def select_part(spec: FileSpec, section: str, name: str | None) -> str:
    """Return `name`, or the name of the only part."""
    names: list[str] = [item.name for item in getattr(spec, section) or ()]
    if name is None:
        if not names:
            raise DataError(f"{spec.source.file}: there are no {section}")
        if len(names) > 1:
            raise UsageError(f"{spec.source.file} has several {section}; say which: {', '.join(names)}")
        return names[0]
    if name not in names:
        raise DataError(f"{spec.source.file}: {describe_unknown(section[:-1], name, names)}")
    return name


def save(something: YamlSerializable, path: str | Path) -> None:
    """Write `something` to `path` atomically. Raises `UsageError` for what a file cannot express."""
    path = Path(path)
    text = f"{_HEAD}{dump_value(write_file_value(something, path.resolve().parent))}"
    write_atomically(path, text)


def list_dependencies(path: str | Path) -> dict[Path, tuple[str, ...]]:
    """Return the requirements of each tool that has any, by lock file. `path` is a file of agents or a folder of tool
    files. Raises `DataError` with all problems."""
    path = Path(path)
    return dict(_list_file_packages(path) if path.is_dir() else _list_spec_packages(path))


def _list_spec_packages(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    spec = load_spec(path)
    yield from _list_tool_packages(spec.tools, path.parent)
    for agent in spec.agents or ():
        yield from _list_tool_packages(agent.params.tools, path.parent)


def _list_tool_packages(tools: Tools | None, folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    if isinstance(tools, dict):
        yield from _list_entry_packages(tools, folder)
        return
    for named in [tools] if isinstance(tools, str) else tools or ():
        if isinstance(named, str) and named not in TOOLS and Path(folder, named).exists():
            yield from _list_file_packages(resolve_existing_path(folder, named))


def _list_file_packages(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for file in list_tool_files(path):
        if file.suffix != ".py":
            source, problems = check_tool_file(file)
            fail(problems)
            entries, _ = validate(ToolFile, source)
            yield from _list_entry_packages(entries or {}, file.parent)


def _list_entry_packages(entries: Mapping[str, ToolEntry], folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for name, entry in entries.items():
        if wanted := parse_requirements(entry.pip_dependencies or ""):
            yield lock_file(folder, name), wanted
