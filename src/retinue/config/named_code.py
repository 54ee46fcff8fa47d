"""Code that a file of agents names by `package.module:Name`: own types of components, models and memories, and
strategies. Only an operator's file is read here, and only code of its folder, or under the roots that the operator
allowed, may be named. A check reads that code and never imports it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import isroutine
from pathlib import Path
from typing import Any, NamedTuple

from .._internal.containment import call_contained
from .._internal.message_text import suggest_name
from .._internal.redaction import redact_excerpt
from ..core.protocols import Strategy
from ..errors import UsageError
from .agent_code import OF_MODULE, list_definitions, told_by_its_line
from .registry import list_roots
from .tool_files import resolve_existing_path

_USES = {
    "run": "component",
    "reply": "model",
    "recall": "memory",
    "hooks": "guardrail",
}  # what something is for, by a method of it


class NamedCode(NamedTuple):
    """A name of a module: of a `file` in the folder of the file of agents, or of an allowed root (`None`)."""

    module: str
    name: str
    file: Path | None


def is_named_code(text: object) -> bool:
    """Whether a value of a file has the form of named code, allowed or not."""
    return isinstance(text, str) and ":" in text


def parse_named_code(text: str, folder: Path) -> NamedCode:
    """Return what `text` names in a file of `folder`, without importing it. Raises `ValueError` if that is not allowed,
    or not there."""
    found = OF_MODULE.fullmatch(text)
    if not found or any(part.startswith("_") for part in (*found[1].split("."), found[2])):
        raise ValueError(f"{redact_excerpt(text)!r} is no name of code; want package.module:Name")
    module, name = found.groups()
    place = module.replace(".", "/")
    for one in (f"{place}.py", f"{place}/__init__.py"):
        if not (folder / one).exists():
            continue
        file = resolve_existing_path(folder, one)
        try:
            defined = list(list_definitions(file))
        except SyntaxError as error:
            raise ValueError(f"{one}:{error.lineno}: {error.msg}") from error
        if name not in defined:
            raise ValueError(f"{one} defines no {name!r}; {suggest_name(name, defined)}")
        return NamedCode(module, name, file)
    if any(module == root or module.startswith(f"{root}.") for root in list_roots()):
        return NamedCode(module, name, None)
    allowed = f"nor is {module} under {' or '.join(list_roots())} (RETINUE_PYTHON_ROOTS)"
    raise ValueError(f"{text!r} is not allowed: there is no {place}.py in this file's folder, {allowed}")


def load_named_code(text: str, folder: Path) -> Any:
    """Import what `text` names, which must be defined there. Raises `ValueError` as `parse_named_code` does,
    `DataError` for errors of the code, and `UsageError` if it is something else than it seems."""
    module_name, name, file = parse_named_code(text, folder)
    if file is not None and str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    with told_by_its_line(module_name, folder.resolve()):
        module = call_contained(import_module, module_name)
    home = Path(module.__file__ or "").resolve()
    if file is not None and home != file.resolve():
        raise UsageError(f"{text}: another module is called {module_name} ({home}); rename {file.name}")
    value = getattr(module, name, None)
    foreign = (isinstance(value, type) or isroutine(value)) and getattr(value, "__module__", "") != module_name
    if value is None or foreign or name not in list_definitions(home):
        raise UsageError(f"{text}: {name} is not defined in {module_name}")
    return value


def load_strategy(text: str, folder: Path) -> Strategy:
    """Import a strategy: an object with a name that is called with a task, or a class of these. Raises as
    `load_named_code` does."""
    found = load_named_code(text, folder)
    made: Strategy = _make(text, folder, found, {}) if isinstance(found, type) else found
    if not callable(made) or not isinstance(getattr(made, "name", None), str):
        raise UsageError(f"{text} is not a strategy; want something with a name that is called with a task")
    return made


def make_component(text: str, folder: Path, params: Mapping[str, Any]) -> Any:
    """Import a type of component, and return one: a component, a model or a memory. Raises as `load_named_code` does,
    and `UsageError` if it is nothing of these."""
    maker = load_named_code(text, folder)
    if not callable(maker):
        raise UsageError(f"{text} is not a class, nor a function that makes a component")
    made = _make(text, folder, maker, params)
    if not any(callable(getattr(made, method, None)) for method in _USES):
        uses = ", ".join(f"`{method}` (a {use})" for method, use in _USES.items())
        raise UsageError(f"{text} made a {type(made).__name__}, which has none of {uses}")
    return made


def _make(text: str, folder: Path, maker: Any, params: Mapping[str, Any]) -> Any:
    with told_by_its_line(text, folder.resolve()):
        return call_contained(maker, **params)
