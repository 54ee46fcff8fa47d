"""Loads functions from Python files, and tools from modules. Imports happen when tools are built, not during checks."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from .._internal.containment import call_contained, describe_error
from ..core.tools.tool import Tool
from ..errors import DataError, ForeignExit


def load_module(file: Path) -> ModuleType:
    """Import a Python file as a module with a unique name. Raises `DataError` if that fails."""
    name = f"retinue_tools_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise DataError(f"{file} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # required by dataclasses and others
    try:
        call_contained(spec.loader.exec_module, module)
    except Exception as error:
        del sys.modules[name]
        raise DataError(f"{file.name} cannot be imported: {describe_error(error)}") from error
    return module


def find_function(module: ModuleType, name: str) -> Any:
    """Return the function or `Tool` called `name` that `module` itself defines. Raises `DataError`."""
    found = getattr(module, name, None)
    if found is None:
        raise DataError(f"{_name_module(module)} has no {name!r}")
    home = getattr(found.something if isinstance(found, Tool) else found, "__module__", None)
    if home != module.__name__ or not (callable(found) or isinstance(found, Tool)):
        raise DataError(f"{name!r} is not a function defined by {_name_module(module)}")
    return found


def find_tool(module: str, name: str) -> Tool:
    """Return the `Tool` called `name` from a module that may be imported. Raises `DataError`."""
    try:
        found = find_function(call_contained(import_module, module), name)
    except (ImportError, ForeignExit) as error:
        raise DataError(f"{module} cannot be imported: {error}") from error
    if not isinstance(found, Tool):
        raise DataError(f"{module}.{name} is not marked as a tool with @tool")
    return found


def read_described_tools(module: ModuleType) -> list[Any]:
    """Return the result of the module's `tools_descriptions()`. Raises `DataError`."""
    give = getattr(module, "tools_descriptions", None)
    if not callable(give):
        raise DataError(f"{_name_module(module)} has no function tools_descriptions()")
    try:
        given = call_contained(give)
    except Exception as error:
        raise DataError(f"{_name_module(module)}: tools_descriptions() failed: {describe_error(error)}") from error
    if not isinstance(given, list | tuple):
        raise DataError(f"{_name_module(module)}: tools_descriptions() returned a {type(given).__name__}; want a list")
    return list(given)


def pick_output(function: Callable[..., Any], output: str | None) -> Callable[..., Any]:
    """Wrap `function` so that a mapping result with the key `output` is replaced by the value under that key."""
    if output is None:
        return function

    def picked(value: Any) -> Any:
        return value[output] if isinstance(value, dict) and output in value else value

    async def picked_later(value: Awaitable[Any]) -> Any:
        return picked(await value)

    @wraps(function)
    def now(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        return picked_later(value) if inspect.isawaitable(value) else picked(value)

    return now


def _name_module(module: ModuleType) -> str:
    return Path(module.__file__).name if module.__file__ else module.__name__
