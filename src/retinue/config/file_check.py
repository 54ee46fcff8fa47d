"""Checks a whole file and reports all problems at once, without importing or running anything."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from .agent_checks import check_agents
from .component_checks import check_components, check_names, check_pipelines
from .group_checks import check_groups
from .mcp_checks import check_servers
from .places import Found, Node, Problem, Source, fail
from .pydantic_errors import validate
from .references import check_depth
from .roles import lifted
from .rule_of_two import check_rule_of_two
from .specs import FileSpec
from .tool_checks import ToolFiles
from .yaml_reader import read_file

logger = logging.getLogger(__name__)


def check(path: str | Path) -> list[Problem]:
    """Return all problems of the file at `path` and of the tool files it names, in order of position."""
    return _check(read_file(path), ToolFiles(Path(path).parent))[1]


def load_spec(path: str | Path) -> FileSpec:
    """Load the file at `path`; warnings are logged. Raises `DataError` with all problems, one per line."""
    return spec_of(read_file(path))


def spec_of(source: Source) -> FileSpec:
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
    source = lifted(source)
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
    problems = source.placed(chain(found, more, warnings)) + sorted(files.problems)
    return spec, problems
