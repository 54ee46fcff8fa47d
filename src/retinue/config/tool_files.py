"""Loads tools from tool files (OPEA's RFC on agents): a mapping of names to descriptions, callables and arguments.

A function with `env` or `pip_dependencies` runs in a separate process, with its own variables and packages. The
packages must have been installed by `retinue lock`; nothing is installed here.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from .._internal.message_text import suggestion
from ..core.signature import Argument, Signature, signature_of
from ..core.tool import Tool, tool_of
from ..errors import DataError, UsageError
from ..tools.endpoint import endpoint
from ..tools.function_loader import described_tools, function_of, load_module, pick_output, tool_of_module
from ..tools.packages import installed, lock_file, requirements
from ..tools.subprocess_tool import in_subprocess
from .callables import BuiltIn, Endpoint, FileFunction, ModuleTool, environment, existing_path, parse_callable
from .environment import resolve
from .places import Found, Problem, Source, fail
from .pydantic_errors import validate
from .registry import PYTHON_ROOTS, TOOLS
from .specs import ToolEntry, ToolFile
from .tool_checks import TYPES, check_tool_file, tool_files

PythonFor = Callable[[Path, tuple[str, ...]], Path]


@dataclass(frozen=True, slots=True)
class Loading:
    """How tools are loaded. `python_for` returns the interpreter for a tool with `pip_dependencies`, given its lock
    file; `roots` are the packages whose tools may be named; `environ` resolves `${NAME}`."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    python_for: PythonFor = installed
    roots: tuple[str, ...] = PYTHON_ROOTS


def load_tools(path: str | Path, loading: Loading | None = None) -> list[Tool]:
    """Load the tools of a tool file (`.yaml`, `.yml`), a Python file with `tools_descriptions()`, or a folder of these.

    In a folder, a Python file that a tool file refers to is only that file's code, and is not asked for tools. Raises
    `DataError` with all problems, one per line.
    """
    path, loading = Path(path), loading or Loading()
    tools: list[Tool] = []
    sources = {file: _checked(file, loading.roots) for file in tool_files(path) if file.suffix != ".py"}
    modules = _Modules()
    for file in tool_files(path):
        if file in sources:
            entries, _ = validate(ToolFile, sources[file])
            tools += entry_tools(entries or {}, file.parent, sources[file], loading, modules)
        elif file.resolve() not in _called(sources):
            tools += _described(file, modules)
    _refuse_twins(tools, path)
    return tools


def entry_tools(
    entries: Mapping[str, ToolEntry], folder: Path, source: Source, loading: Loading, modules: _Modules | None = None
) -> list[Tool]:
    """Build the tools of a validated mapping; `source` has its positions. Raises `DataError`."""
    modules, tools, problems = modules or _Modules(), [], []
    for name, entry in entries.items():
        env = resolve(entry.env or "", loading.environ)
        own = {} if env.missing else environment(env.value)
        api = resolve(entry.callable_api, {**loading.environ, **own})
        headers = resolve(entry.headers or {}, {**loading.environ, **own})
        parts = (("callable_api", api), ("env", env), ("headers", headers))
        missing = [(part, one) for part, resolved in parts for one in resolved.missing]
        problems += [source.problem(Found((name, part), f"{part}: {one.message}")) for part, one in missing]
        if missing:
            continue
        try:
            tools.append(_tool(name, entry, _Place(folder, api.value, own, headers.value), loading, modules))
        except (DataError, UsageError, ValueError) as error:
            problems.append(Problem(source.file, *source.place((name, "callable_api")), f"{name}: {error}"))
    fail(sorted(problems))
    return tools


@dataclass(frozen=True, slots=True)
class _Place:
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


def _tool(name: str, entry: ToolEntry, place: _Place, loading: Loading, modules: _Modules) -> Tool:
    described = entry.description or ""
    takes = _takes(name, entry)
    what = parse_callable(place.api, place.folder, loading.roots)
    if isinstance(what, Endpoint):
        takes = takes or signature_of(name, {"query": Argument(str, "the question")})
        call = endpoint(what.url, entry.return_output, headers=place.headers)
        return Tool(name, call, described, takes=takes, **entry.options)
    if isinstance(what, BuiltIn):
        return _named(_built_in(what, entry, place.folder), name, entry)
    if isinstance(what, ModuleTool):
        return _named(tool_of_module(what.module, what.attribute), name, entry)
    if place.env or entry.pip_dependencies:
        function = _separate(name, what, entry, place, loading)
        return Tool(name, function, described, takes=takes or signature_of(name, {}), **entry.options)
    found = function_of(modules[what.file], what.function)
    if isinstance(found, Tool):
        return _named(found, name, entry)
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
        raise UsageError(f"args_schema: {name} has no parameter {unknown[0]!r}; {suggestion(unknown[0], named)}")
    for one, parameter in named.items():
        if parameter.default is parameter.empty and one not in declared:
            raise UsageError(f"args_schema: {name} needs {one!r}, which is not declared")


def _separate(name: str, what: FileFunction, entry: ToolEntry, place: _Place, loading: Loading) -> Callable[..., Any]:
    wanted = requirements(entry.pip_dependencies or "")
    python = loading.python_for(lock_file(place.folder, name), wanted) if wanted else Path(sys.executable)
    return pick_output(in_subprocess(what.file, what.function, place.env, python), entry.return_output)


def _takes(name: str, entry: ToolEntry) -> Signature | None:
    if entry.args_schema is None:
        return None
    arguments = {
        key: Argument(TYPES[one.type], one.description, "default" not in one.model_fields_set, one.default)
        for key, one in entry.args_schema.items()
    }
    return signature_of(name, arguments)


def _built_in(what: BuiltIn, entry: ToolEntry, folder: Path) -> Tool:
    module, _, attribute = TOOLS[what.name].builder.partition(":")
    made = getattr(import_module(module), attribute)
    params = dict(entry.params or {})
    if "path" in params:
        params["path"] = existing_path(folder, params["path"])
    return tool_of(made if isinstance(made, Tool) else made(**params))


def _named(tool: Tool, name: str, entry: ToolEntry) -> Tool:
    """Return a tool that has its own description and arguments, with the file's name and options."""
    return replace(tool, name=name, description=entry.description or tool.description, **entry.options)


def _described(file: Path, modules: _Modules) -> list[Tool]:
    try:
        return [tool_of(one) for one in described_tools(modules[file.resolve()])]
    except UsageError as error:
        raise DataError(f"{file}: {error}") from error


def _checked(file: Path, roots: tuple[str, ...]) -> Source:
    source, problems = check_tool_file(file, roots)
    fail(problems)
    return source


def _called(sources: Mapping[Path, Source]) -> set[Path]:
    """Return the Python files that tool files refer to."""
    return {
        (file.parent / str(entry.get("callable_api", "")).rpartition(":")[0]).resolve()
        for file, source in sources.items()
        for entry in (source.value or {}).values()
    }


def _refuse_twins(tools: Iterable[Tool], path: Path) -> None:
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise DataError(f"{path}: two tools are called {tool.name!r}; give one of them another name")
        seen.add(tool.name)
