"""Checks a whole file and reports all problems at once, without importing or running anything of its author's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from .._internal.source_text import Found, KeyPath, Place, Problem, Source, fail
from .._internal.yaml_text import read_file
from ..errors import DataError
from .part_checks import check_agents, check_circles, check_components, check_groups, check_pipelines
from .problems import Node, validate
from .references import check_depth
from .registry import ROOTS
from .rule_of_two import check_bound, check_rule_of_two
from .specs import SECTIONS, AgentParams, FileSpec
from .tool_files import ToolFiles, resolve_existing_path

logger = logging.getLogger(__name__)
_VERSION, _NAME = "retinue", "agent_name"


def check(path: str | Path) -> list[Problem]:
    """Return all problems of the file at `path` and of the tool files it names, in order of position."""
    return _check(read_file(path))[1]


def load_spec(path: str | Path) -> FileSpec:
    """Load the file at `path`; warnings are logged. Raises `DataError` with all problems, one per line."""
    return check_spec(read_file(path))


def check_spec(source: Source) -> FileSpec:
    """Return the spec in `source`, whose paths are relative to its file's folder. Raises `DataError` with all
    problems."""
    spec, problems = _check(source)
    fail(problems)
    for problem in problems:
        logger.warning("%s", problem)
    assert spec is not None
    return spec


def list_skill_folders(path: str | Path) -> list[Path]:
    """Return the folders of skills that the agents of a file name, right or not otherwise. Raises `DataError`."""
    source = read_file(path)
    fail(source.problems)
    agents = Node(_as_whole_file(source).value).at("agents")
    named = [agent.at("params").at("harness").at("skills") for agent in agents]
    texts = [one.text for node in named for one in ([node] if node.text else node)]
    try:
        return [resolve_existing_path(Path(path).parent, one) for one in dict.fromkeys(texts)]
    except ValueError as error:
        raise DataError(f"{path}: skills: {error}") from error


def _check(source: Source) -> tuple[FileSpec | None, list[Problem]]:
    if not source.whole:
        return None, list(source.problems)
    if source.value is None:
        source = Source(source.file, {}, problems=source.problems)
    source = _as_whole_file(source)
    root, files = Node(source.value), ToolFiles(Path(source.file).parent)
    sections: dict[str, dict[str, Node]] = {section: {} for section in SECTIONS}
    for section, parts in sections.items():
        for part in root.at(section):
            if part.name:
                parts.setdefault(part.name, part)
    spec, found = validate(FileSpec, source)
    checks = chain(
        _check_names(root), check_components(root, sections, files.folder), check_pipelines(root, sections),
        check_agents(root, sections, files), check_groups(root, sections, files.folder), check_circles(root),
    )  # fmt: skip
    wrong = {one.path for one in found}  # already reported for its shape
    more = (one for one in checks if one.path not in wrong)
    warnings: Iterable[Found] = ()
    if isinstance(spec, FileSpec):
        spec._source = source
        warnings = chain(check_rule_of_two(spec), check_bound(spec), check_depth(spec))
    problems = source.locate_problems(chain(found, more, warnings)) + sorted(files.problems)
    return spec, problems


def _check_names(root: Node) -> Iterator[Found]:
    """Check that names are unique in the whole file."""
    taken: dict[str, str] = {}
    for section in SECTIONS:
        what = f"a{'n' if section == 'agents' else ''} {section[:-1]}"
        for item in root.at(section):
            place = item.at("name").path
            if item.name in ROOTS:
                yield Found(place, f"{item.name!r} is reserved for the input of pipelines; choose another name")
            if item.name in taken:
                yield Found(place, f"{item.name!r} is already the name of {taken[item.name]}")
            elif item.name:
                taken[item.name] = what


def _as_whole_file(source: Source) -> Source:
    """Return `source` as a file of agents: RFC 003's block of one agent becomes the only agent, and a tool file an
    executor."""
    given = {key: one for key, one in source.value.items() if key != _VERSION} if isinstance(source.value, dict) else {}
    if not given or any(key in given for key in SECTIONS):
        return source
    if any(key in AgentParams.model_fields or key == _NAME for key in given if key != "tools"):
        agent = {"name": given.pop(_NAME, "agent"), "params": given}
        return _with_agent(source, agent, lambda path: ("name", *path[1:]) if path[0] == _NAME else ("params", *path))
    if all(isinstance(entry, dict) and "callable_api" in entry for entry in given.values()):
        agent = {"name": "executor", "params": {"role": "executor", "tools": given}}
        return _with_agent(source, agent, lambda path: ("params", "tools", *path))
    return source


def _with_agent(source: Source, agent: Mapping[str, object], moved: Callable[[KeyPath], KeyPath]) -> Source:
    """Return a file with only this agent; `moved` says where in it the values of `source` are."""

    def move(known: Mapping[KeyPath, Place]) -> dict[KeyPath, Place]:
        places = {path: place for path, place in known.items() if path}
        return {path if path[0] == _VERSION else ("agents", 0, *moved(path)): one for path, one in places.items()}

    version = {_VERSION: source.value[_VERSION]} if _VERSION in source.value else {}
    return Source(source.file, {**version, "agents": [agent]}, move(source.keys), move(source.values), source.problems)
