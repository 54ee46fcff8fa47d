"""Finds the packages that a file's tools need, and their lock files. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..tools.packages import lock_file, requirements
from .file_check import load_spec
from .problems import fail, validate
from .registry import TOOLS
from .specs import ToolEntry, ToolFile, Tools
from .tool_files import check_tool_file, existing_path, tool_files


def dependencies(path: str | Path) -> dict[Path, tuple[str, ...]]:
    """Return the requirements of each tool that has any, by lock file. `path` is a file of agents or a folder of tool
    files. Raises `DataError` with all problems."""
    path = Path(path)
    return dict(_of_files(path) if path.is_dir() else _of_spec(path))


def _of_spec(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    spec = load_spec(path)
    yield from _of_tools(spec.tools, path.parent)
    for agent in spec.agents or ():
        yield from _of_tools(agent.params.tools, path.parent)


def _of_tools(tools: Tools | None, folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    if isinstance(tools, dict):
        yield from _of_entries(tools, folder)
        return
    for named in [tools] if isinstance(tools, str) else tools or ():
        if isinstance(named, str) and named not in TOOLS and Path(folder, named).exists():
            yield from _of_files(existing_path(folder, named))


def _of_files(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for file in tool_files(path):
        if file.suffix != ".py":
            source, problems = check_tool_file(file)
            fail(problems)
            entries, _ = validate(ToolFile, source)
            yield from _of_entries(entries or {}, file.parent)


def _of_entries(entries: Mapping[str, ToolEntry], folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for name, entry in entries.items():
        if wanted := requirements(entry.pip_dependencies or ""):
            yield lock_file(folder, name), wanted
