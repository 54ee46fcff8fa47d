"""Tool files (OPEA's RFC on agents): a mapping of names to descriptions, callables and arguments; checked and loaded.

A function with `env` or `pip_dependencies` runs in a separate process, with its own variables and packages. The
packages must have been installed by `retinue lock`; nothing is installed here.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from .._internal.message_text import find_nearest, suggest_name
from .._internal.redaction import redact_excerpt
from .._internal.source_text import Found, KeyPath, Problem, Source, fail
from .._internal.yaml_text import read_file
from ..core.context_templates import describe_bad_template
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
from .environment import Resolved, resolve
from .problems import Node, describe_unknown, find_invalid, format_value, validate
from .registry import TOOLS, TypeEntry, fits, list_roots
from .specs import ToolEntry, ToolFile

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TYPES: Mapping[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_RESERVED = re.compile(
    r"_.*|model_(config|fields|computed_fields|extra|fields_set|dump.*|copy|construct|json_.*|para.*|post_init|rebuild|validate.*)"
)


class Target(NamedTuple):
    """What a `callable_api` means: the `name` of a `url` that the operator configured, of a function in a `file` under
    the tool file's folder, of a tool in a `module` under one of the allowed roots, or of a `built-in` tool."""

    kind: Literal["url", "file", "module", "built-in"]
    name: str
    file: Path = Path()


def parse_callable(text: str, folder: Path) -> Target:
    """Return what `callable_api: text` means in a file of `folder`. Raises `ValueError` if it is not allowed."""
    if text.startswith(("http://", "https://")):
        try:
            address = urlsplit(text.replace("${", "").replace("}", ""))
            whole = bool(address.hostname) and address.port != 0
        except ValueError:
            whole = False
        if (not whole and "${" not in text) or any(not c.isprintable() or c.isspace() for c in text):
            raise ValueError(f"{redact_excerpt(text)!r} is not a URL (want http://host:port/path)")
        return Target("url", text)
    if ".py:" in text:
        file, _, function = text.rpartition(":")
        if not function.isidentifier() or function.startswith("__"):
            raise ValueError(f"{function[:60]!r} is not the name of a function")
        return Target("file", function, resolve_existing_path(folder, file))
    if text in TOOLS:
        return Target("built-in", text)
    module = text.rpartition(".")[0]
    public = all(part.isidentifier() and not part.startswith("_") for part in text.split("."))
    if public and any(module == root or module.startswith(f"{root}.") for root in list_roots()):
        return Target("module", text)
    near = find_nearest(text, TOOLS)
    others = f"a tool under {' or '.join(list_roots())}, or one of {', '.join(TOOLS)}"
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
            raise ValueError("want NAME=value,NAME=value; a value may not contain a comma")  # which may be a secret
        values[name.strip()] = value.strip()
    return values


def check_entries(entries: Node, folder: Path) -> Iterator[Found]:
    """Check the entries of a tool file beyond their shape."""
    for entry in entries:
        name = str(entry.path[-1])
        if not _NAME.fullmatch(name):
            allowed = "only letters (a-z, A-Z), digits (0-9) and underscores (_), at most 64 of them"
            yield Found(entry.path, f"a tool's name: want {allowed}, not {format_value(name)}", at_key=True)
        yield from _check_callable(entry, folder)
        yield from find_invalid(entry.at("env"), parse_environment)
        yield from find_invalid(entry.at("pip_dependencies"), parse_requirements)
        for argument in entry.at("args_schema"):
            yield from _check_argument(argument)


def _check_callable(entry: Node, folder: Path) -> Iterator[Found]:
    api, params = entry.at("callable_api"), entry.at("params")
    if not api.text:
        return
    try:
        what = parse_callable(api.text, folder)
    except ValueError as error:
        yield Found(api.path, f"callable_api: {error}")
        return
    if what.kind == "url" and not entry.at("description").text:
        yield Found(entry.path, "needs 'description': the model chooses tools by it", at_key=True)
    if what.kind == "built-in":
        yield from check_params(entry, TOOLS[what.name], what.name)
        yield from find_invalid(params.at("path"), lambda text: resolve_existing_path(folder, text))
    elif params.value:
        yield Found(params.path, "params: only for built-in tools", at_key=True)
    for key, kinds, those in (
        ("pip_dependencies", ["file"], "functions of files"),
        ("env", ["file", "url"], "functions of files, and for URLs"),
        ("headers", ["url"], "URLs"),
    ):
        if entry.at(key).value and what.kind not in kinds:
            yield Found(entry.at(key).path, f"{key}: only for {those}", at_key=True)
    yield from _check_address(api, entry.at("headers"))


def _check_address(api: Node, headers: Node) -> Iterator[Found]:
    for header in headers:
        for problem in find_header_problems({str(header.path[-1]): header.text}):
            yield Found(header.path, problem)
    if problem := describe_bad_template(api.text):
        yield Found(api.path, f"callable_api: {problem}")


def check_params(entry: Node, known: TypeEntry, what: str) -> Iterator[Found]:
    """Check the names and types of the `params` of a component or built-in tool."""
    params = entry.at("params")
    if not isinstance(params.value, dict | None):
        return
    place, within = (params, "") if params.value else (entry, " in its 'params'")
    for name in known.required:
        if params.at(name).value is None:
            yield Found(place.path, f"{what} needs {name!r}{within}")
    for param in params:
        name = str(param.path[-1])
        parameter = known.parameters.get(name)
        if parameter is None:
            yield Found(param.path, describe_unknown(f"parameter of {what}", name, known.parameters), at_key=True)
        elif param.value is not None and not fits(param.value, parameter.kind):
            wanted = f"want a {parameter.kind}, not {format_value(param.value)}".replace("a true", "true")
            yield Found(param.path, f"{name}: {wanted}")
        elif parameter.choices:
            for one in param if parameter.kind == "list" else [param]:
                if "${" not in one.text and one.text not in parameter.choices:
                    yield Found(one.path, f"{name}: {describe_unknown(name, one.text, parameter.choices)}")


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


def read_tool_file(path: Path) -> tuple[ToolFile, Source]:
    """Return the entries of a tool file. Raises `DataError` with all problems."""
    source, problems = check_tool_file(path)
    fail(problems)
    entries: ToolFile | None = validate(ToolFile, source)[0]
    return entries or {}, source


def list_tool_files(path: Path) -> list[Path]:
    """Return the files that a `tools` path stands for: the file itself, or the files directly in the folder, sorted.
    Other file types, hidden files, and links that lead out of the folder are skipped."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for child in sorted(path.iterdir()):
        if child.suffix in (".yaml", ".yml", ".py") and not child.name.startswith("."):
            with suppress(ValueError):
                found += [child] if resolve_path_within(path, child.name).is_file() else []
    return found


class ToolFiles:
    """The tool files that a file names, each read once; `problems` collects all their problems. `unnamed` is set if
    there are tools whose names are unknown without importing or starting something, or reading an invalid file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unnamed = False
        self.problems: list[Problem] = []
        self._names: dict[Path, tuple[str, ...]] = {}

    def list_names(self, text: str) -> list[str]:
        """Return the names of the tools at the path `text`, as far as they are known without importing. Raises
        `ValueError` for an invalid path."""
        path = resolve_existing_path(self.folder, text)
        if path.is_file() and path.suffix not in (".yaml", ".yml", ".py"):
            raise ValueError(f"{text[:60]!r}: want a .yaml, .yml or .py file, or a folder of them")
        names: list[str] = []
        for file in list_tool_files(path):
            if file.suffix == ".py":
                self.unnamed = True
                continue
            if file not in self._names:
                source, problems = check_tool_file(file)
                shown_as = self.folder / text / file.relative_to(path)
                self.problems += [problem._replace(file=str(shown_as)) for problem in problems]
                self.unnamed |= not source.whole
                self._names[file] = tuple(map(str, source.value)) if isinstance(source.value, dict) else ()
            names += self._names[file]
        return names


def load_tools(path: str | Path) -> list[Tool]:
    """Load the tools of a tool file (`.yaml`, `.yml`), a Python file with `tools_descriptions()`, or a folder of these.

    In a folder, a Python file that a tool file refers to is only that file's code, and is not asked for tools. Raises
    `DataError` with all problems, one per line.
    """
    path, load, tools = Path(path), cache(load_module), list[Tool]()
    files = list_tool_files(path)
    read = {file: read_tool_file(file) for file in files if file.suffix != ".py"}
    called = {
        (file.parent / entry.callable_api.rpartition(":")[0]).resolve()
        for file, (entries, _) in read.items()
        for entry in entries.values()
    }
    for file in files:
        if file in read:
            entries, source = read[file]
            tools += build_entry_tools(entries, source, load=load)
        elif file.resolve() not in called:
            try:
                tools += [make_tool(one) for one in read_described_tools(load(file.resolve()))]
            except UsageError as error:
                raise DataError(f"{file}: {error}") from error
    names = [tool.name for tool in tools]
    if twice := next((name for at, name in enumerate(names) if name in names[:at]), ""):
        raise DataError(f"{path}: two tools are called {twice!r}; give one of them another name")
    return tools


def build_entry_tools(
    entries: Mapping[str, ToolEntry],
    source: Source,
    path: KeyPath = (),
    load: Callable[[Path], ModuleType] = load_module,
) -> list[Tool]:
    """Build the tools of a validated mapping, which is at `path` in `source`. Raises `DataError`."""
    tools: list[Tool] = []
    problems: list[Found] = []
    for name, entry in entries.items():
        try:
            env = resolve(entry.env or "")
            own = {} if env.missing else parse_environment(env.value)
            address, mark, query = entry.callable_api.partition("?")
            there, asked = (resolve(one, {**os.environ, **own}, at) for one, at in ((address, ()), (query, ("query",))))
            api = Resolved(f"{there.value}{mark}{asked.value}", (*there.missing, *asked.missing))
            headers = resolve(entry.headers or {}, {**os.environ, **own}, ("headers",))
            resolved = {"callable_api": api, "env": env, "headers": headers}
            missing = [(key, one) for key, part in resolved.items() for one in part.missing]
            problems += [Found((*path, name, key), f"{key}: {one.message}") for key, one in missing]
            if not missing:
                given = entry.model_copy(update={key: part.value for key, part in resolved.items()})
                tools.append(_build_tool(name, given, own, Path(source.file).parent, load))
        except (DataError, UsageError, ValueError) as error:
            problems.append(Found((*path, name, "callable_api"), f"{name}: {error}"))
    fail(sorted(map(source.locate_problem, problems)))
    return tools


def _build_tool(
    name: str, entry: ToolEntry, env: Mapping[str, str], folder: Path, load: Callable[[Path], ModuleType]
) -> Tool:
    """Build a tool from an entry without variables, and the environment `env` of its process."""
    takes: Signature | None = None
    if entry.args_schema is not None:
        arguments = {
            key: Argument(TYPES[one.type], one.description, "default" not in one.model_fields_set, one.default)
            for key, one in entry.args_schema.items()
        }
        takes = build_signature(name, arguments)
    function: Any
    what = parse_callable(entry.callable_api, folder)
    match what.kind:
        case "url":
            takes = takes or build_signature(name, {"query": Argument(str, "the question")})
            function = make_endpoint(what.name, entry.return_output, headers=entry.headers or {})
        case "built-in":
            function = _build_built_in_tool(what.name, entry.params or {}, folder)
        case "module":
            module, _, attribute = what.name.rpartition(".")
            function = find_tool(module, attribute)
        case "file" if env or entry.pip_dependencies:
            wanted = parse_requirements(entry.pip_dependencies or "")
            python = find_installed(lock_file(folder, name), wanted) if wanted else Path(sys.executable)
            takes = takes or build_signature(name, {})
            started = make_subprocess_function(what.file, what.name, env, python)
            function = pick_output(started, entry.return_output)
        case "file":
            function = find_function(load(what.file), what.name)
            if not isinstance(function, Tool):
                if takes is not None:
                    _check_arguments(what.name, function, takes)
                function = pick_output(function, entry.return_output)
    if isinstance(function, Tool):  # with its own description and arguments
        return replace(function, name=name, description=entry.description or function.description, **entry.options)
    return Tool(name, function, entry.description or "", takes=takes, **entry.options)


def _build_built_in_tool(name: str, params: Mapping[str, Any], folder: Path) -> Tool:
    made = TOOLS[name].constructor
    given = {key: resolve_existing_path(folder, one) if key == "path" else one for key, one in params.items()}
    return make_tool(made if isinstance(made, Tool) else made(**given))


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
