"""Components: callables with declared inputs and outputs, from which pipelines are built. What is not declared is read
from the function or the class."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property, lru_cache, partial, wraps
from pathlib import PurePath
from typing import Any, Generic, Self, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict, overload

from .._internal.concurrency import gather_bounded, run_in_thread
from .._internal.containment import await_contained
from .._internal.sync_bridge import run_blocking
from .._internal.type_check import describe_mismatch, describe_value
from ..errors import UsageError
from .tools.tool import Tool

FIRST = "output_1"
_BRANCH = re.compile(r"output_[1-9][0-9]*")
_UNDECLARED = (dict, tuple, Mapping, Union, types.UnionType)  # return types that do not tell the outputs
Outputs = dict[str, Any]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ComponentReference:
    """Says in an `Annotated` parameter of which types a component is that a file may name there."""

    types: tuple[str, ...]

    def __init__(self, *types: str) -> None:
        object.__setattr__(self, "types", types)


class Configurable:
    """Base class of objects that a file can define. They keep the arguments with which they were made as `given`.
    `name` is not among them, since a file has a name of its own. Paths are texts. If constructors call one another, the
    arguments of the outermost are kept."""

    given: dict[str, Any]

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Keep the arguments. Wrong ones are left to the constructor, which says so."""
        self = super().__new__(cls)
        if cls.__init__ is object.__init__:
            if args or named:
                raise TypeError(f"{cls.__name__}() takes no arguments")
        elif not is_dataclass(cls):  # whose arguments are its fields
            with suppress(TypeError):
                bound = _read_signature(cls.__init__).bind(self, *args, **named)
                bound.apply_defaults()
                self.given = {}
                for key, value in list(bound.arguments.items())[1:]:
                    if bound.signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD:
                        self.given |= value
                    elif key != "name":
                        self.given[key] = str(value) if isinstance(value, PurePath) else value
        return self


@lru_cache
def _read_signature(init: Callable[..., None]) -> inspect.Signature:
    return inspect.signature(init)


class Component(Configurable):
    """Base class for custom components: define `run` or `run_async`, and the other and the batch methods follow.

    Inputs are that method's parameters and outputs its return type, as for a function (`component`). The attributes
    `name`, `output_variable`, `outputs` and `outgoing_edges` override them.

    >>> class Shout(Component):
    ...     def run(self, text: str) -> dict[str, str]:
    ...         return {"text": text.upper()}
    >>> Shout().run_batch([{"text": "a"}, {"text": "b"}])
    [{'text': 'A'}, {'text': 'B'}]
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise `UsageError` for a class that has neither `run` nor `run_async`."""
        super().__init_subclass__(**options)
        own: Mapping[str, Any] = vars(cls)
        if "run" in own and "run_async" not in own:

            @wraps(run := own["run"])
            async def run_async(self: Any, *args: Any, **values: Any) -> Any:
                return await run_in_thread(partial(run, self, *args, **values))

            cls.run_async = run_async  # type: ignore[method-assign]
        elif "run_async" in own and "run" not in own:

            @wraps(awaited := own["run_async"])
            def run_and_block(self: Any, *args: Any, **values: Any) -> Any:
                return run_blocking(awaited(self, *args, **values))

            cls.run = run_and_block  # type: ignore[method-assign]
        elif cls.run is Component.run:
            raise UsageError(f"{cls.__name__} needs a method `run` or `run_async`")

    async def run_async(self, *args: Any, **values: Any) -> Any:
        """Run `run` in a thread."""
        raise NotImplementedError

    def run(self, *args: Any, **values: Any) -> Any:
        """Run `run_async` and block."""
        raise NotImplementedError

    async def run_batch_async(self, batch: Iterable[Any], *, at_once: int = 4) -> list[Any]:
        """Call `run_async` for each item of `batch` (values by name, or a single input), at most `at_once` at a time.
        Results are in the order of the batch."""

        async def one(values: Any) -> Any:
            return await (self.run_async(**values) if isinstance(values, Mapping) else self.run_async(values))

        return await gather_bounded(one, batch, at_once)

    def run_batch(self, batch: Iterable[Any], *, at_once: int = 4) -> list[Any]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(batch, at_once=at_once))


class QueryComponent(Component, Generic[R]):
    """Base class for components that take a query: with the type of its outputs."""

    effects = "read"

    async def run_async(self, query: str) -> R:
        """Return the outputs for one query."""
        raise NotImplementedError

    def run(self, query: str) -> R:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query))


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a component: its type hint, and whether it is required."""

    kind: Any = Any
    required: bool = True
    default: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class DeclaredComponent(Component):
    """A named callable with declared inputs and outputs, made by `component(…)`.

    Args:
        function: Returns a dict of outputs, or `(dict, "output_2")` to choose a branch. Any other value becomes the
            output `output`.
        whole: A returned dict, too, becomes the output `output`.
        outputs: Types of the outputs by name, or `None` if undeclared.
        always: Outputs that must be present.
        branches: Number of branches, or `None` if undeclared.
        takes_all: Accepts every available value.
    """

    name: str
    function: Callable[..., Any]
    inputs: Mapping[str, Input]
    outputs: Mapping[str, Any] | None = None
    always: frozenset[str] = frozenset()
    output: str = "results"
    whole: bool = False
    branches: int | None = None
    takes_all: bool = False

    async def run_async(self, **values: Any) -> Outputs | tuple[Outputs, str]:
        """Return its outputs, by name; with the branch it chose, if it has several.

        Raises `UsageError` for missing, unknown or mistyped values. Also raises what the function raises, as
        `ForeignExit` if that is not an `Exception`.
        """
        self.check_names(values)
        call = partial(self.function, **self.select_arguments(values))
        outputs, branch = self.split_outcome(await (await_contained(call()) if self.is_async else run_in_thread(call)))
        return outputs if self.branches in (None, 1) and branch == FIRST else (outputs, branch)

    def run(self, **values: Any) -> Outputs | tuple[Outputs, str]:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(**values))

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is awaited; otherwise it runs in a thread."""
        function = self.function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of the required inputs."""
        return frozenset(name for name, taken in self.inputs.items() if taken.required)

    def check_names(self, values: Iterable[str]) -> None:
        """Raise `UsageError` if one of `values` is not an input of this component."""
        unknown = [] if self.takes_all else [name for name in values if name not in self.inputs]
        if unknown:
            raise UsageError(f"{self.name!r} has no input {unknown[0]!r}; it has: {_join_names(self.inputs)}")

    def select_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Select this component's inputs from `values` and check them. Raises `UsageError`."""
        taken = dict(values) if self.takes_all else {name: values[name] for name in self.inputs if name in values}
        for name in self.required:
            if name not in taken:
                raise UsageError(f"{self.name!r} needs {name!r}, which is missing (available: {_join_names(values)})")
        for name, declared in self.inputs.items():
            given = name in taken and taken[name] is not declared.default
            if given and (wrong := describe_mismatch(taken[name], declared.kind)):
                raise UsageError(f"{self.name!r}: {name!r} {wrong}")
        return taken

    def split_outcome(self, value: Any) -> tuple[Outputs, str]:
        """Split the function's return value into outputs and chosen branch. Raises `UsageError`."""
        outputs, branch = self._read(value)
        if branch != FIRST and self.branches is not None and int(branch.removeprefix("output_")) > self.branches:
            raise UsageError(f"{self.name!r} chose {branch}, but has only {self.branches} (output_1 to …)")
        for name, kind in (self.outputs or {}).items():
            if name in outputs:
                if wrong := describe_mismatch(outputs[name], kind):
                    raise UsageError(f"{self.name!r}: its output {name!r} {wrong}")
            elif name in self.always:
                raise UsageError(f"{self.name!r} declares an output {name!r} but returned: {_join_names(outputs)}")
        return outputs, branch

    def _read(self, value: Any) -> tuple[Outputs, str]:
        branch = FIRST
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise UsageError(f"{self.name!r} returned an awaitable but is not an `async def`; make it one")
        if not self.whole and isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], dict):
            value, branch = value
            if not isinstance(branch, str) or not _BRANCH.fullmatch(branch):
                raise UsageError(
                    f'{self.name!r}: branches are named "output_1", "output_2", …, not {describe_value(branch)}'
                )
        if self.whole or not isinstance(value, dict):
            return {self.output: value}, branch
        for name in value:
            if not isinstance(name, str):
                raise UsageError(f"{self.name!r}: output names must be strings, not {describe_value(name)}")
        return value, branch


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


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
    if function is something:
        return found
    declared, branches = getattr(something, "outputs", None), getattr(something, "outgoing_edges", None)
    if isinstance(declared, Sequence) and not isinstance(declared, str):
        declared = dict.fromkeys(declared, Any)
    return _declare(
        found,
        outputs=declared if isinstance(declared, Mapping) else None,
        branches=branches if isinstance(branches, int) else None,
    )


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
    if hint in (Any, object) or kind in _UNDECLARED or not isinstance(kind, type) or issubclass(kind, (dict, tuple)):
        return None, frozenset()
    return {output: hint}, frozenset([output])
