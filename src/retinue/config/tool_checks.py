"""Checks of tools in files: entries of tool files, paths, and duplicate names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..tools.endpoint import header_problems
from ..tools.packages import requirements
from .callables import BuiltIn, Endpoint, FileFunction, environment, existing_path, parse_callable, path_within
from .places import Found, Node, Problem, Source, shown, unknown
from .pydantic_errors import validate
from .registry import TOOLS, TypeEntry, fits
from .specs import ToolFile
from .yaml_reader import read_file

TYPES: Mapping[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
_LISTS: Mapping[str, Callable[[str], Any]] = {"env": environment, "pip_dependencies": requirements}
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_RESERVED = re.compile(
    r"_.*|model_(config|fields|computed_fields|extra|fields_set|dump.*|copy|construct|json_.*|para.*|post_init|rebuild|validate.*)"
)


def check_entries(entries: Node, folder: Path) -> Iterator[Found]:
    """Check the entries of a tool file beyond their shape."""
    for entry in entries:
        name = str(entry.path[-1])
        if not _NAME.fullmatch(name):
            allowed = "only letters (a-z, A-Z), digits (0-9) and underscores (_), at most 64 of them"
            yield Found(entry.path, f"a tool's name: want {allowed}, not {shown(name)}", at_key=True)
        yield from _check_callable(entry, folder)
        for key, read in _LISTS.items():
            try:
                read(entry.at(key).text)
            except ValueError as error:
                yield Found(entry.at(key).path, f"{key}: {error}")
        for argument in entry.at("args_schema"):
            yield from _check_argument(argument)


def _check_callable(entry: Node, folder: Path) -> Iterator[Found]:
    api = entry.at("callable_api")
    if not api.text:
        return
    try:
        what = parse_callable(api.text, folder)
    except ValueError as error:
        yield Found(api.path, f"callable_api: {error}")
        return
    if isinstance(what, Endpoint) and not entry.at("description").text:
        yield Found(entry.path, "needs 'description': the model chooses tools by it", at_key=True)
    if isinstance(what, BuiltIn):
        yield from check_params(entry, TOOLS[what.name], what.name)
        if path := entry.at("params").at("path").text:
            try:
                existing_path(folder, path)
            except ValueError as error:
                yield Found(entry.at("params").at("path").path, f"path: {error}")
    elif entry.at("params").value:
        yield Found(entry.at("params").path, "params: only for built-in tools", at_key=True)
    if entry.at("pip_dependencies").text and not isinstance(what, FileFunction):
        yield Found(entry.at("pip_dependencies").path, "pip_dependencies: only for functions of files", at_key=True)
    if entry.at("env").text and not isinstance(what, FileFunction | Endpoint):
        yield Found(entry.at("env").path, "env: only for functions of files, and for URLs", at_key=True)
    yield from _check_headers(entry.at("headers"), what)


def _check_headers(headers: Node, what: object) -> Iterator[Found]:
    if headers.value and not isinstance(what, Endpoint):
        yield Found(headers.path, "headers: only for URLs", at_key=True)
    for header in headers:
        for problem in header_problems({str(header.path[-1]): header.text}):
            yield Found(header.path, problem)


def check_params(entry: Node, known: TypeEntry, what: str) -> Iterator[Found]:
    """Check the names and types of the `params` of a component or built-in tool."""
    params = entry.at("params")
    if params.value is not None and not isinstance(params.value, dict):
        return
    for name in known.required:
        if params.at(name).value is None:
            yield Found((params if params.value else entry).path, f"{what} needs {name!r}" + _under(params))
    for param in params:
        name = str(param.path[-1])
        if name not in known.parameters:
            yield Found(param.path, unknown(f"parameter of {what}", name, known.parameters), at_key=True)
        elif param.value is not None and not fits(param.value, kind := known.parameters[name].kind):
            yield Found(param.path, f"{name}: want a {kind}, not {shown(param.value)}".replace("a true", "true"))
        elif choices := known.parameters[name].choices:
            for one in param if known.parameters[name].kind == "list" else [param]:
                if one.text not in choices and "${" not in one.text:
                    yield Found(one.path, f"{name}: {unknown(name, one.text, choices)}")


def _under(params: Node) -> str:
    return "" if params.value else " in its 'params'"


def _check_argument(argument: Node) -> Iterator[Found]:
    name = str(argument.path[-1])
    if not name.isidentifier() or _RESERVED.fullmatch(name):
        yield Found(argument.path, f"an argument cannot be called {shown(name)}", at_key=True)
    default, type_ = argument.at("default"), TYPES.get(argument.at("type").text)
    if default.value is None or type_ is None:
        return
    right = isinstance(default.value, (int, float) if type_ is float else type_)
    if not right or isinstance(default.value, bool) != (type_ is bool):
        yield Found(default.path, f"default: want {argument.at('type').text}, not {shown(default.value)}")


def check_tool_file(path: Path) -> tuple[Source, list[Problem]]:
    """Read a tool file. Return it with all its problems, in order of position."""
    source = read_file(path)
    if not source.whole or source.value is None:
        return source, list(source.problems)
    _, found = validate(ToolFile, source)
    return source, source.placed([*found, *check_entries(Node(source.value), path.parent)])


def tool_files(path: Path) -> list[Path]:
    """Return the files that a `tools` path stands for: the file itself, or the files directly in the folder, sorted.
    Other file types, hidden files, and links that lead out of the folder are skipped."""
    if not path.is_dir():
        return [path]
    names = sorted(child.name for child in path.iterdir() if child.suffix in (".yaml", ".yml", ".py"))
    return [path / name for name in names if not name.startswith(".") and _is_inside(path, name)]


def _is_inside(folder: Path, name: str) -> bool:
    try:
        return path_within(folder, name).is_file()
    except ValueError:
        return False


class ToolFiles:
    """The tool files that a file names, each read once; `problems` collects all their problems. `unnamed` is set if
    there is a Python file or an MCP server, whose tool names are unknown without importing or starting it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unnamed = False
        self.problems: list[Problem] = []
        self._names: dict[Path, tuple[str, ...]] = {}

    def names(self, text: str) -> tuple[str, ...]:
        """Return the names of the tools at the path `text`, as far as they are known without importing. Raises
        `ValueError` for an invalid path."""
        path = existing_path(self.folder, text)
        if path.is_file() and path.suffix not in (".yaml", ".yml", ".py"):
            raise ValueError(f"{text[:60]!r}: want a .yaml, .yml or .py file, or a folder of them")
        return tuple(name for file in tool_files(path) for name in self._of(file, Path(text), path))

    def _of(self, file: Path, text: Path, path: Path) -> tuple[str, ...]:
        if file.suffix == ".py":
            self.unnamed = True
            return ()
        if file not in self._names:
            source, problems = check_tool_file(file)
            shown_as = self.folder / text / file.relative_to(path)
            self.problems += [problem._replace(file=str(shown_as)) for problem in problems]
            self._names[file] = tuple(map(str, source.value)) if isinstance(source.value, dict) else ()
        return self._names[file]
