"""Components: callables with declared inputs and outputs, from which pipelines are built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cached_property, lru_cache, partial, wraps
from pathlib import PurePath
from typing import Any, Generic, Self, TypeVar

from .._internal.concurrency import gather_bounded, run_in_thread
from .._internal.containment import await_contained
from .._internal.sync_bridge import run_blocking
from .._internal.type_check import describe_mismatch, describe_value
from ..errors import UsageError

FIRST = "output_1"
_BRANCH = re.compile(r"output_[1-9][0-9]*")
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
    arguments of the outermost are kept.
    """

    given: dict[str, Any]

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Keep the arguments. Wrong ones are left to the constructor, which says so."""
        self = super().__new__(cls)
        if cls.__init__ is object.__init__:
            if args or named:
                raise TypeError(f"{cls.__name__}() takes no arguments")
        elif not is_dataclass(cls):  # whose arguments are its fields
            with suppress(TypeError):
                self.given = _as_given(_read_signature(cls.__init__).bind(self, *args, **named))
        return self


@lru_cache
def _read_signature(init: Callable[..., None]) -> inspect.Signature:
    return inspect.signature(init)


def _as_given(bound: inspect.BoundArguments) -> dict[str, Any]:
    bound.apply_defaults()
    given: dict[str, Any] = {}
    for key, value in list(bound.arguments.items())[1:]:
        if bound.signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD:
            given |= value
        elif key != "name":
            given[key] = str(value) if isinstance(value, PurePath) else value
    return given


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a component: its type hint, and whether it is required."""

    kind: Any = Any
    required: bool = True
    default: Any = inspect.Parameter.empty


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
        if "run" in vars(cls) and "run_async" not in vars(cls):
            cls.run_async = _make_async_run(cls.run)  # type: ignore[method-assign]
        elif "run_async" in vars(cls) and "run" not in vars(cls):
            cls.run = _make_blocking_run(cls.run_async)  # type: ignore[method-assign]
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
        Results are in the order of the batch.
        """

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
        """The outputs for one query."""
        raise NotImplementedError

    def run(self, query: str) -> R:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query))


def _make_async_run(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    async def run_async(self: Any, *args: Any, **values: Any) -> Any:
        return await run_in_thread(partial(run, self, *args, **values))

    return run_async


def _make_blocking_run(run_async: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run_async)
    def run(self: Any, *args: Any, **values: Any) -> Any:
        return run_blocking(run_async(self, *args, **values))

    return run


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
        """Its outputs, by name; with the branch it chose, if it has several.

        Raises `UsageError` for missing, unknown or mistyped values. Also raises what the function raises, as
        `ForeignExit` if that is not an `Exception`.
        """
        self.check_names(values)
        arguments = self.select_arguments(values)
        value = await (self._await_function(arguments) if self.is_async else run_in_thread(self._call, arguments))
        outputs, branch = self.split_outcome(value)
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
            known = ", ".join(self.inputs) or "nothing"
            raise UsageError(f"{self.name!r} has no input {unknown[0]!r}; it has: {known}")

    def select_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Select this component's inputs from `values` and check them. Raises `UsageError`."""
        inputs = self.inputs
        taken = dict(values) if self.takes_all else {name: values[name] for name in inputs if name in values}
        for name in self.required:
            if name not in taken:
                raise UsageError(f"{self.name!r} needs {name!r}, which is missing (available: {_join_names(values)})")
        for name, declared in inputs.items():
            if name in taken and taken[name] is not declared.default:
                wrong = describe_mismatch(taken[name], declared.kind)
                if wrong:
                    raise UsageError(f"{self.name!r}: {name!r} {wrong}")
        return taken

    def split_outcome(self, value: Any) -> tuple[Outputs, str]:
        """Split the function's return value into outputs and chosen branch. Raises `UsageError`."""
        outputs, branch = self._read(value)
        if branch != FIRST and self.branches is not None and int(branch.removeprefix("output_")) > self.branches:
            raise UsageError(f"{self.name!r} chose {branch}, but has only {self.branches} (output_1 to …)")
        for name, kind in (self.outputs or {}).items():
            if name in outputs:
                wrong = describe_mismatch(outputs[name], kind)
                if wrong:
                    raise UsageError(f"{self.name!r}: its output {name!r} {wrong}")
            elif name in self.always:
                raise UsageError(f"{self.name!r} declares an output {name!r} but returned: {_join_names(outputs)}")
        return outputs, branch

    def _read(self, value: Any) -> tuple[Outputs, str]:
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise UsageError(f"{self.name!r} returned an awaitable but is not an `async def`; make it one")
        if self.whole:
            return {self.output: value}, FIRST
        branch = FIRST
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], dict):
            if not isinstance(value[1], str) or not _BRANCH.fullmatch(value[1]):
                raise UsageError(
                    f'{self.name!r}: branches are named "output_1", "output_2", …, not {describe_value(value[1])}'
                )
            value, branch = value
        if isinstance(value, dict):
            odd = [name for name in value if not isinstance(name, str)]
            if odd:
                raise UsageError(f"{self.name!r}: output names must be strings, not {describe_value(odd[0])}")
            return value, branch
        return {self.output: value}, branch

    def _call(self, arguments: dict[str, Any]) -> Any:
        return self.function(**arguments)

    async def _await_function(self, arguments: dict[str, Any]) -> Any:
        return await await_contained(self.function(**arguments))


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
