"""Checks a whole file and reports all problems at once, without importing or running anything of its author's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from .agent_checks import check_agents
from .component_checks import SECTIONS, check_components, check_names, check_pipelines, check_servers
from .group_checks import check_groups
from .problems import Found, KeyPath, Node, Place, Problem, Source, fail, validate
from .references import check_depth
from .rule_of_two import check_rule_of_two
from .specs import AgentParams, FileSpec
from .tool_files import ToolFiles
from .yaml_text import read_file

logger = logging.getLogger(__name__)
_VERSION, _NAME = "retinue", "agent_name"


def check(path: str | Path) -> list[Problem]:
    """Return all problems of the file at `path` and of the tool files it names, in order of position."""
    return _check(read_file(path), ToolFiles(Path(path).parent))[1]


def load_spec(path: str | Path) -> FileSpec:
    """Load the file at `path`; warnings are logged. Raises `DataError` with all problems, one per line."""
    return check_spec(read_file(path))


def check_spec(source: Source) -> FileSpec:
    """Return the spec in `source`, whose paths are relative to its file's folder. Raises `DataError` with all
    problems."""
    spec, problems = _check(source, ToolFiles(Path(source.file).parent))
    fail(problems)
    for problem in problems:
        logger.warning("%s", problem)
    assert spec is not None
    return spec


def _check(source: Source, files: ToolFiles) -> tuple[FileSpec | None, list[Problem]]:
    if not source.whole:
        return None, list(source.problems)
    if source.value is None:
        source = Source(source.file, {}, problems=source.problems)
    source = _as_whole_file(source)
    root = Node(source.value)
    spec, found = validate(FileSpec, source)
    parts = (
        check_components(root, files.folder), check_servers(root), check_pipelines(root), check_agents(root, files),
        check_groups(root, files.folder),
    )  # fmt: skip
    checks = chain(check_names(root), *parts)
    wrong = {one.path for one in found}  # already reported for its shape
    more = (one for one in checks if one.path not in wrong)
    warnings: Iterable[Found] = ()
    if isinstance(spec, FileSpec):
        spec._source = source
        warnings = chain(check_rule_of_two(spec), check_depth(spec))
    problems = source.locate_problems(chain(found, more, warnings)) + sorted(files.problems)
    return spec, problems


def _as_whole_file(source: Source) -> Source:
    """Return `source` as a file of agents: RFC 003's block of one agent becomes the only agent, and a tool file an
    executor."""
    given = {key: one for key, one in source.value.items() if key != _VERSION} if isinstance(source.value, dict) else {}
    if not given or any(key in given for key in SECTIONS):
        return source
    if any(key in AgentParams.model_fields or key == _NAME for key in given if key != "tools"):
        params = {key: value for key, value in given.items() if key != _NAME}
        return _with_agent(source, {"name": given.get(_NAME, "agent"), "params": params}, _move_path_to_agent)
    if all(isinstance(entry, dict) and "callable_api" in entry for entry in given.values()):
        agent = {"name": "executor", "params": {"role": "executor", "tools": given}}
        return _with_agent(source, agent, lambda path: ("params", "tools", *path))
    return source


def _move_path_to_agent(path: KeyPath) -> KeyPath:
    return ("name", *path[1:]) if path[:1] == (_NAME,) else ("params", *path)


def _with_agent(source: Source, agent: Mapping[str, Any], moved: Callable[[KeyPath], KeyPath]) -> Source:
    """Return a file with only this agent; `moved` says where in it the values of `source` are."""

    def move(known: Mapping[KeyPath, Place]) -> dict[KeyPath, Place]:
        places = {path: place for path, place in known.items() if path}
        return {path if path[0] == _VERSION else ("agents", 0, *moved(path)): one for path, one in places.items()}

    version = {_VERSION: source.value[_VERSION]} if _VERSION in source.value else {}
    return Source(source.file, {**version, "agents": [agent]}, move(source.keys), move(source.values), source.problems)
