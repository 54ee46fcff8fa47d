"""Tool files (OPEA's RFC on agents): a mapping of names to descriptions, callables and arguments; checked and loaded.

A function with `env` or `pip_dependencies` runs in a separate process, with its own variables and packages. The
packages must have been installed by `retinue lock`; nothing is installed here.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from .._internal.message_text import find_nearest, suggest_name
from .._internal.redaction import redact_excerpt
from ..core.tools.signature import Argument, Signature, build_signature
from ..core.tools.tool import Tool, make_tool
from ..errors import DataError, UsageError
from ..tools.endpoint import find_header_problems, make_endpoint
from ..tools.function_loader import (
    find_function,
    find_tool,
    load_module,
    make_subprocess_function,
    pick_output,
    read_described_tools,
)
from ..tools.packages import find_installed, lock_file, parse_requirements
from .environment import resolve
from .problems import Found, Node, Problem, Source, describe_unknown, fail, format_value, validate
from .registry import PYTHON_ROOTS, TOOLS, TypeEntry, fits
from .specs import ToolEntry, ToolFile
from .yaml_text import read_file

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TYPES: Mapping[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_RESERVED = re.compile(
    r"_.*|model_(config|fields|computed_fields|extra|fields_set|dump.*|copy|construct|json_.*|para.*|post_init|rebuild|validate.*)"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An HTTP endpoint configured by the operator."""

    url: str


@dataclass(frozen=True, slots=True)
class FileFunction:
    """A function in a Python file under the tool file's folder."""

    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class ModuleTool:
    """A tool in a module under one of the allowed roots."""

    module: str
    attribute: str


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A built-in tool, by its name in `registry.TOOLS`."""

    name: str


Target = Endpoint | FileFunction | ModuleTool | BuiltIn


def parse_callable(text: str, folder: Path) -> Target:
    """Return what `callable_api: text` means in a file of `folder`. Raises `ValueError` if it is not allowed."""
    if text.startswith(("http://", "https://")):
        return Endpoint(_check_url(text))
    if ".py:" in text:
        file, _, function = text.rpartition(":")
        if not function.isidentifier() or function.startswith("__"):
            raise ValueError(f"{function[:60]!r} is not the name of a function")
        return FileFunction(resolve_existing_path(folder, file), function)
    if text in TOOLS:
        return BuiltIn(text)
    module, _, attribute = text.rpartition(".")
    parts = text.split(".")
    if any(module == root or module.startswith(f"{root}.") for root in PYTHON_ROOTS) and all(map(_is_public, parts)):
        return ModuleTool(module, attribute)
    near = find_nearest(text, TOOLS)
    others = f"a tool under {' or '.join(PYTHON_ROOTS)}, or one of {', '.join(TOOLS)}"
    hint = f"did you mean {near!r}?" if near else f"want http://…, https://…, file.py:function, {others}"
    raise ValueError(f"{redact_excerpt(text)!r} is not allowed; {hint}")


def resolve_existing_path(folder: Path, name: str) -> Path:
    """Return the file or folder `name` under `folder`. Raises `ValueError` if it does not exist or leads out of the
    folder."""
    found = resolve_path_within(folder, name)
    if not found.exists():
        raise ValueError(f"{name!r} does not exist here")
    return found


def resolve_path_within(folder: Path, name: str) -> Path:
    """Return the path `name` under `folder`, with links resolved. Raises `ValueError` if it leads out of the folder."""
    path = PurePosixPath(name)
    if not name.strip() or not name.isprintable() or "\\" in name or path.is_absolute() or name.startswith("~"):
        raise ValueError(f"{name[:60]!r} is not a path relative to this file's folder")
    root = folder.resolve()
    try:
        found = (root / path).resolve()
    except (OSError, RuntimeError) as error:  # circular links
        raise ValueError(f"{name[:60]!r} is a circular link") from error
    if ".." in path.parts or not found.is_relative_to(root):
        raise ValueError(f"{name[:60]!r} leads out of this file's folder")
    return found


def parse_environment(text: str) -> dict[str, str]:
    """Parse `env: NAME=value,NAME=value` to a dict. Raises `ValueError`."""
    values = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, sign, value = part.partition("=")
        if not sign or not _VARIABLE.fullmatch(name.strip()):
            raise ValueError(
                "want NAME=value,NAME=value; a value may not contain a comma"
            )  # not shown, since it may be part of a secret
        values[name.strip()] = value.strip()
    return values


def _check_url(text: str) -> str:
    try:
        address = urlsplit(text.replace("${", "").replace("}", ""))
        whole = bool(address.hostname) and address.port != 0
    except ValueError:
        whole = False
    if (not whole and "${" not in text) or any(not c.isprintable() or c.isspace() for c in text):
        raise ValueError(f"{redact_excerpt(text)!r} is not a URL (want http://host:port/path)")
    return text


def _is_public(part: str) -> bool:
    return part.isidentifier() and not part.startswith("_")


_LISTS: Mapping[str, Callable[[str], Any]] = {"env": parse_environment, "pip_dependencies": parse_requirements}


def check_entries(entries: Node, folder: Path) -> Iterator[Found]:
    """Check the entries of a tool file beyond their shape."""
    for entry in entries:
        name = str(entry.path[-1])
        if not _NAME.fullmatch(name):
            allowed = "only letters (a-z, A-Z), digits (0-9) and underscores (_), at most 64 of them"
            yield Found(entry.path, f"a tool's name: want {allowed}, not {format_value(name)}", at_key=True)
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
                resolve_existing_path(folder, path)
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
        for problem in find_header_problems({str(header.path[-1]): header.text}):
            yield Found(header.path, problem)


def check_params(entry: Node, known: TypeEntry, what: str) -> Iterator[Found]:
    """Check the names and types of the `params` of a component or built-in tool."""
    params = entry.at("params")
    if params.value is not None and not isinstance(params.value, dict):
        return
    for name in known.required:
        if params.at(name).value is None:
            yield Found((params if params.value else entry).path, f"{what} needs {name!r}" + _name_place(params))
    for param in params:
        yield from _check_param(param, known, what)


def _check_param(param: Node, known: TypeEntry, what: str) -> Iterator[Found]:
    name = str(param.path[-1])
    parameter = known.parameters.get(name)
    if parameter is None:
        yield Found(param.path, describe_unknown(f"parameter of {what}", name, known.parameters), at_key=True)
        return
    if param.value is not None and not fits(param.value, parameter.kind):
        wanted = f"want a {parameter.kind}, not {format_value(param.value)}".replace("a true", "true")
        yield Found(param.path, f"{name}: {wanted}")
        return
    for one in param if parameter.kind == "list" else [param]:
        if parameter.choices and one.text not in parameter.choices and "${" not in one.text:
            yield Found(one.path, f"{name}: {describe_unknown(name, one.text, parameter.choices)}")


def _name_place(params: Node) -> str:
    return "" if params.value else " in its 'params'"


def _check_argument(argument: Node) -> Iterator[Found]:
    name = str(argument.path[-1])
    if not name.isidentifier() or _RESERVED.fullmatch(name):
        yield Found(argument.path, f"an argument cannot be called {format_value(name)}", at_key=True)
    default, type_ = argument.at("default"), TYPES.get(argument.at("type").text)
    if default.value is None or type_ is None:
        return
    right = isinstance(default.value, (int, float) if type_ is float else type_)
    if not right or isinstance(default.value, bool) != (type_ is bool):
        yield Found(default.path, f"default: want {argument.at('type').text}, not {format_value(default.value)}")


def check_tool_file(path: Path) -> tuple[Source, list[Problem]]:
    """Read a tool file. Return it with all its problems, in order of position."""
    source = read_file(path)
    if not source.whole or source.value is None:
        return source, list(source.problems)
    _, found = validate(ToolFile, source)
    return source, source.locate_problems([*found, *check_entries(Node(source.value), path.parent)])


def list_tool_files(path: Path) -> list[Path]:
    """Return the files that a `tools` path stands for: the file itself, or the files directly in the folder, sorted.
    Other file types, hidden files, and links that lead out of the folder are skipped."""
    if not path.is_dir():
        return [path]
    names = sorted(child.name for child in path.iterdir() if child.suffix in (".yaml", ".yml", ".py"))
    return [path / name for name in names if not name.startswith(".") and _is_inside(path, name)]


def _is_inside(folder: Path, name: str) -> bool:
    try:
        return resolve_path_within(folder, name).is_file()
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

    def list_names(self, text: str) -> tuple[str, ...]:
        """Return the names of the tools at the path `text`, as far as they are known without importing. Raises
        `ValueError` for an invalid path."""
        path = resolve_existing_path(self.folder, text)
        if path.is_file() and path.suffix not in (".yaml", ".yml", ".py"):
            raise ValueError(f"{text[:60]!r}: want a .yaml, .yml or .py file, or a folder of them")
        return tuple(name for file in list_tool_files(path) for name in self._list_file_names(file, Path(text), path))

    def _list_file_names(self, file: Path, text: Path, path: Path) -> tuple[str, ...]:
        if file.suffix == ".py":
            self.unnamed = True
            return ()
        if file not in self._names:
            source, problems = check_tool_file(file)
            shown_as = self.folder / text / file.relative_to(path)
            self.problems += [problem._replace(file=str(shown_as)) for problem in problems]
            self._names[file] = tuple(map(str, source.value)) if isinstance(source.value, dict) else ()
        return self._names[file]


def load_tools(path: str | Path) -> list[Tool]:
    """Load the tools of a tool file (`.yaml`, `.yml`), a Python file with `tools_descriptions()`, or a folder of these.

    In a folder, a Python file that a tool file refers to is only that file's code, and is not asked for tools. Raises
    `DataError` with all problems, one per line.
    """
    path = Path(path)
    tools: list[Tool] = []
    sources = {file: _read_checked_source(file) for file in list_tool_files(path) if file.suffix != ".py"}
    modules = _Modules()
    for file in list_tool_files(path):
        if file in sources:
            entries, _ = validate(ToolFile, sources[file])
            tools += build_entry_tools(entries or {}, file.parent, sources[file], modules)
        elif file.resolve() not in _list_called_files(sources):
            tools += _build_module_tools(file, modules)
    _check_names(tools, path)
    return tools


def build_entry_tools(
    entries: Mapping[str, ToolEntry], folder: Path, source: Source, modules: _Modules | None = None
) -> list[Tool]:
    """Build the tools of a validated mapping; `source` has its positions. Raises `DataError`."""
    modules, tools, problems = modules or _Modules(), [], []
    for name, entry in entries.items():
        env = resolve(entry.env or "")
        own = {} if env.missing else parse_environment(env.value)
        api = resolve(entry.callable_api, {**os.environ, **own})
        headers = resolve(entry.headers or {}, {**os.environ, **own})
        parts = (("callable_api", api), ("env", env), ("headers", headers))
        missing = [(part, one) for part, resolved in parts for one in resolved.missing]
        problems += [source.locate_problem(Found((name, part), f"{part}: {one.message}")) for part, one in missing]
        if missing:
            continue
        try:
            tools.append(_build_tool(name, entry, _Call(folder, api.value, own, headers.value), modules))
        except (DataError, UsageError, ValueError) as error:
            problems.append(Problem(source.file, *source.place((name, "callable_api")), f"{name}: {error}"))
    fail(sorted(problems))
    return tools


@dataclass(frozen=True, slots=True)
class _Call:
    """An entry's folder, callable and headers, with environment variables resolved."""

    folder: Path
    api: str
    env: Mapping[str, str]
    headers: Mapping[str, str]


class _Modules(dict[Path, ModuleType]):
    """The Python files imported so far."""

    def __missing__(self, file: Path) -> ModuleType:
        self[file] = load_module(file)
        return self[file]


def _build_tool(name: str, entry: ToolEntry, place: _Call, modules: _Modules) -> Tool:
    described = entry.description or ""
    takes = _read_signature(name, entry)
    what = parse_callable(place.api, place.folder)
    if isinstance(what, Endpoint):
        takes = takes or build_signature(name, {"query": Argument(str, "the question")})
        call = make_endpoint(what.url, entry.return_output, headers=place.headers)
        return Tool(name, call, described, takes=takes, **entry.options)
    if isinstance(what, BuiltIn):
        return _with_options(_build_built_in_tool(what, entry, place.folder), name, entry)
    if isinstance(what, ModuleTool):
        return _with_options(find_tool(what.module, what.attribute), name, entry)
    if place.env or entry.pip_dependencies:
        function = _build_process_function(name, what, entry, place)
        return Tool(name, function, described, takes=takes or build_signature(name, {}), **entry.options)
    found = find_function(modules[what.file], what.function)
    if isinstance(found, Tool):
        return _with_options(found, name, entry)
    if takes is not None:
        _check_arguments(what.function, found, takes)
    return Tool(name, pick_output(found, entry.return_output), described, takes=takes, **entry.options)


def _check_arguments(name: str, function: Callable[..., Any], takes: Signature) -> None:
    """Raise `UsageError` if the function cannot be called with the declared arguments."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # as of some built-in functions
        return
    declared = takes.parameters["properties"]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {one: parameter for one, parameter in parameters.items() if parameter.kind not in variable}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    if unknown := [one for one in declared if one not in named and not takes_all]:
        raise UsageError(f"args_schema: {name} has no parameter {unknown[0]!r}; {suggest_name(unknown[0], named)}")
    for one, parameter in named.items():
        if parameter.default is parameter.empty and one not in declared:
            raise UsageError(f"args_schema: {name} needs {one!r}, which is not declared")


def _build_process_function(name: str, what: FileFunction, entry: ToolEntry, place: _Call) -> Callable[..., Any]:
    wanted = parse_requirements(entry.pip_dependencies or "")
    python = find_installed(lock_file(place.folder, name), wanted) if wanted else Path(sys.executable)
    return pick_output(make_subprocess_function(what.file, what.function, place.env, python), entry.return_output)


def _read_signature(name: str, entry: ToolEntry) -> Signature | None:
    if entry.args_schema is None:
        return None
    arguments = {
        key: Argument(TYPES[one.type], one.description, "default" not in one.model_fields_set, one.default)
        for key, one in entry.args_schema.items()
    }
    return build_signature(name, arguments)


def _build_built_in_tool(what: BuiltIn, entry: ToolEntry, folder: Path) -> Tool:
    made = TOOLS[what.name].constructor
    params = dict(entry.params or {})
    if "path" in params:
        params["path"] = resolve_existing_path(folder, params["path"])
    return make_tool(made if isinstance(made, Tool) else made(**params))


def _with_options(tool: Tool, name: str, entry: ToolEntry) -> Tool:
    """Return a tool that has its own description and arguments, with the file's name and options."""
    return replace(tool, name=name, description=entry.description or tool.description, **entry.options)


def _build_module_tools(file: Path, modules: _Modules) -> list[Tool]:
    try:
        return [make_tool(one) for one in read_described_tools(modules[file.resolve()])]
    except UsageError as error:
        raise DataError(f"{file}: {error}") from error


def _read_checked_source(file: Path) -> Source:
    source, problems = check_tool_file(file)
    fail(problems)
    return source


def _list_called_files(sources: Mapping[Path, Source]) -> set[Path]:
    """Return the Python files that tool files refer to."""
    return {
        (file.parent / str(entry.get("callable_api", "")).rpartition(":")[0]).resolve()
        for file, source in sources.items()
        for entry in (source.value or {}).values()
    }


def _check_names(tools: Iterable[Tool], path: Path) -> None:
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise DataError(f"{path}: two tools are called {tool.name!r}; give one of them another name")
        seen.add(tool.name)
