"""Inputs and outputs of a component, read from its function, its class or an explicit declaration."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict, overload

from ..errors import UsageError
from .component import DeclaredComponent, Input
from .tools.tool import Tool

_UNKNOWN = (dict, tuple, Mapping, Union, types.UnionType)


@overload
def component(something: Any, /, *, name: str | None = ...) -> DeclaredComponent: ...
@overload
def component(
    *,
    name: str | None = ...,
    output: str | None = ...,
    outputs: Mapping[str, Any] | None = ...,
    branches: int | None = ...,
) -> Callable[[Callable[..., Any]], DeclaredComponent]: ...
def component(something: Any = None, /, **declared: Any) -> Any:
    """Turn a function, or an object with `run` or `run_async`, into a `Component`. Also a decorator.

    Inputs are the parameters and their type hints. Outputs come from a `TypedDict` return type or are declared here.
    `output` names the value if the function does not return a dict of outputs. A class may declare the same as
    attributes `outputs`, `output_variable` and `outgoing_edges`.

    >>> @component(output="length")
    ... def measure(text: str) -> int:
    ...     return len(text)
    >>> measure.run(text="four")
    {'length': 4}
    """
    if something is None:
        return lambda function: _declare(as_component(function), **declared)
    return _declare(something if isinstance(something, DeclaredComponent) else as_component(something), **declared)


def _declare(
    read: DeclaredComponent,
    *,
    name: str | None = None,
    output: str | None = None,
    outputs: Mapping[str, Any] | None = None,
    branches: int | None = None,
) -> DeclaredComponent:
    changes: dict[str, Any] = {"name": name} if name is not None else {}
    if output is not None:
        hint = next(iter(read.outputs.values())) if read.outputs and read.output in read.outputs else Any
        changes |= {"output": output, "whole": True, "outputs": {output: hint}, "always": frozenset([output])}
    if outputs:
        changes["output"] = read.output if read.output in outputs else next(iter(outputs))
        changes |= {"outputs": dict(outputs), "always": frozenset() if (branches or 1) > 1 else frozenset(outputs)}
    if branches is not None:
        changes["branches"] = branches
    return replace(read, **changes)


def as_component(something: Any) -> DeclaredComponent:
    """Return `something` as a component. Raises `UsageError` if it is not one."""
    if isinstance(something, DeclaredComponent):
        return something
    if isinstance(something, Tool):
        return replace(as_component(something.something), name=something.name)
    if isinstance(something, type):
        raise UsageError(f"{something.__name__} is a class; pass an instance: {something.__name__}(…)")
    if callable(own := getattr(something, "as_component", None)):
        said = own()
        assert isinstance(said, DeclaredComponent), f"{something!r}.as_component() must return a Component"
        return said
    function = getattr(something, "run_async", None) or getattr(something, "run", None) or something
    if not callable(function):
        raise UsageError(f"{something!r} is not a component: it is not callable and has no run or run_async")
    hints = _read_hints(function)
    inputs, takes_all = _read_inputs(function, hints)
    output = str(getattr(something, "output_variable", "results"))
    outputs, always = _read_outputs(hints.get("return", Any), output)
    main = output if not outputs or output in outputs else next(iter(outputs))
    found = DeclaredComponent(_name(something), function, inputs, outputs, always, main, takes_all=takes_all)
    return found if function is something else _with_attributes(found, something)


def _name(something: Any) -> str:
    named = getattr(something, "name", None) or getattr(something, "__name__", None)
    return named.strip("<>") if isinstance(named, str) else type(something).__name__


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    for source in (function, getattr(function, "func", None), type(function).__call__):
        try:
            return get_type_hints(source)
        except (NameError, TypeError):  # names that only type checkers know; a partial or a callable object
            continue
    return {}


def _read_inputs(function: Callable[..., Any], hints: Mapping[str, Any]) -> tuple[dict[str, Input], bool]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a C function without a signature
        return {}, True
    inputs: dict[str, Input] = {}
    takes_all = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise UsageError(f"{_name(function)}: a pipeline passes inputs by name, so '{parameter}' is not supported")
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            required = parameter.default is parameter.empty
            inputs[parameter.name] = Input(hints.get(parameter.name, Any), required, parameter.default)
    return inputs, takes_all


def _read_outputs(hint: Any, output: str) -> tuple[dict[str, Any] | None, frozenset[str]]:
    """Return the outputs declared by a return type, and those that are always present."""
    if get_origin(hint) is tuple and len(get_args(hint)) == 2 and is_typeddict(get_args(hint)[0]):
        return get_type_hints(get_args(hint)[0]), frozenset()
    if is_typeddict(hint):
        return get_type_hints(hint), frozenset(hint.__required_keys__)
    kind = get_origin(hint) or hint
    if hint in (Any, object) or kind in _UNKNOWN or not isinstance(kind, type) or issubclass(kind, (dict, tuple)):
        return None, frozenset()
    return {output: hint}, frozenset([output])


def _with_attributes(read: DeclaredComponent, something: Any) -> DeclaredComponent:
    """Apply the outputs and branches declared by the object's class."""
    outputs = getattr(something, "outputs", None)
    if isinstance(outputs, Sequence) and not isinstance(outputs, str):
        outputs = dict.fromkeys(outputs, Any)
    branches = getattr(something, "outgoing_edges", None)
    return _declare(
        read,
        outputs=outputs if isinstance(outputs, Mapping) else None,
        branches=branches if isinstance(branches, int) else None,
    )
