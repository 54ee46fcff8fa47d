"""A component: something to call, with declared inputs and outputs. Pipelines are made of these."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import Any

from .._internal.concurrency import gather_bounded
from .._internal.containment import await_contained
from .._internal.sync_bridge import run_blocking
from .._internal.thread_pool import run_in_thread
from .._internal.type_check import describe_value, mismatch
from ..errors import UsageError

FIRST = "output_1"
_BRANCH = re.compile(r"output_[1-9][0-9]*")
Outputs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a component: its type hint, and whether it must be given."""

    kind: Any = Any
    required: bool = True
    default: Any = inspect.Parameter.empty


class Component:
    """What components of your own may inherit from: define `run` or `run_async`, and you have both, and the batches.

    Inputs are that method's parameters, outputs its return type, as for a function (`component`). `name`,
    `output_variable`, `outputs` and `outgoing_edges` may be said as attributes.

    >>> class Shout(Component):
    ...     def run(self, text: str) -> dict[str, str]:
    ...         return {"text": text.upper()}
    >>> Shout().run_batch([{"text": "a"}, {"text": "b"}])
    [{'text': 'A'}, {'text': 'B'}]
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Raises `UsageError` for a class that has neither `run` nor `run_async`."""
        super().__init_subclass__(**options)
        if "run" in vars(cls) and "run_async" not in vars(cls):
            cls.run_async = _awaited(cls.run)  # type: ignore[method-assign]
        elif "run_async" in vars(cls) and "run" not in vars(cls):
            cls.run = _blocked(cls.run_async)  # type: ignore[method-assign]
        elif cls.run is Component.run:
            raise UsageError(f"{cls.__name__} needs a method `run` or `run_async`")

    async def run_async(self, *args: Any, **values: Any) -> Any:
        """`run`, in a thread."""
        raise NotImplementedError

    def run(self, *args: Any, **values: Any) -> Any:
        """`run_async`, blocking."""
        raise NotImplementedError

    async def run_batch_async(self, batch: Iterable[Any], *, at_once: int = 4) -> list[Any]:
        """`run_async` for the values of each of `batch` (by name, or the one it takes), at most `at_once` at a time;
        results in their order."""

        async def one(values: Any) -> Any:
            return await (self.run_async(**values) if isinstance(values, Mapping) else self.run_async(values))

        return await gather_bounded(one, batch, at_once)

    def run_batch(self, batch: Iterable[Any], *, at_once: int = 4) -> list[Any]:
        """`run_batch_async`, blocking."""
        return run_blocking(self.run_batch_async(batch, at_once=at_once))


def _awaited(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    async def run_async(self: Any, *args: Any, **values: Any) -> Any:
        return await run_in_thread(partial(run, self, *args, **values))

    return run_async


def _blocked(run_async: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run_async)
    def run(self: Any, *args: Any, **values: Any) -> Any:
        return run_blocking(run_async(self, *args, **values))

    return run


@dataclass(frozen=True)
class DeclaredComponent(Component):
    """Something to call by name, with what it takes and gives. Made by `component(…)`.

    `function` returns a dict of outputs, or `(dict, "output_2")` where the text names the branch it
    chose; any other value is the output `output`. `whole`: so is a dict. `outputs`: what it gives, with
    types, and `None` where that is not declared; `always`: which of these it must give. `branches`: how
    many it has, `None` where that is not declared. `takes_all`: it takes whatever is there.
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

        Raises `UsageError` for values that are missing, unknown or of a wrong type, and what it raises, if that is an
        `Exception`, else `ForeignExit`.
        """
        self.check_names(values)
        arguments = self.arguments(values)
        value = await (self._awaited(arguments) if self.is_async else run_in_thread(self._call, arguments))
        outputs, branch = self.outcome(value)
        return outputs if self.branches in (None, 1) and branch == FIRST else (outputs, branch)

    def run(self, **values: Any) -> Outputs | tuple[Outputs, str]:
        """`run_async`, blocking."""
        return run_blocking(self.run_async(**values))

    @cached_property
    def is_async(self) -> bool:
        """Whether it is awaited; if not, it runs in a thread."""
        function = self.function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of the inputs that must be given."""
        return frozenset(name for name, taken in self.inputs.items() if taken.required)

    def check_names(self, values: Iterable[str]) -> None:
        """Raise `UsageError` if one of `values` is no input of this component."""
        unknown = [] if self.takes_all else [name for name in values if name not in self.inputs]
        if unknown:
            known = ", ".join(self.inputs) or "nothing"
            raise UsageError(f"{self.name!r} takes no {unknown[0]!r}; it takes: {known}")

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What it takes of `values`, checked. Raises `UsageError`."""
        inputs = self.inputs
        taken = dict(values) if self.takes_all else {name: values[name] for name in inputs if name in values}
        for name in self.required:
            if name not in taken:
                raise UsageError(f"{self.name!r} needs {name!r}, which was not given (there is: {_listed(values)})")
        for name, declared in inputs.items():
            if name in taken and taken[name] is not declared.default:
                wrong = mismatch(taken[name], declared.kind)
                if wrong:
                    raise UsageError(f"{self.name!r}: {name!r} {wrong}")
        return taken

    def outcome(self, value: Any) -> tuple[Outputs, str]:
        """The outputs and the chosen branch in what the function returned. Raises `UsageError`."""
        outputs, branch = self._read(value)
        if branch != FIRST and self.branches is not None and int(branch.removeprefix("output_")) > self.branches:
            raise UsageError(f"{self.name!r} chose {branch}, and it has only {self.branches} (output_1 to …)")
        for name, kind in (self.outputs or {}).items():
            if name in outputs:
                wrong = mismatch(outputs[name], kind)
                if wrong:
                    raise UsageError(f"{self.name!r}: its output {name!r} {wrong}")
            elif name in self.always:
                raise UsageError(f"{self.name!r} gave no {name!r}, which it declares; it gave: {_listed(outputs)}")
        return outputs, branch

    def _read(self, value: Any) -> tuple[Outputs, str]:
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise UsageError(f"{self.name!r} returned something to await, but is no `async def`; make it one")
        if self.whole:
            return {self.output: value}, FIRST
        branch = FIRST
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], dict):
            if not isinstance(value[1], str) or not _BRANCH.fullmatch(value[1]):
                raise UsageError(
                    f'{self.name!r}: a branch is called "output_1", "output_2", …, not {describe_value(value[1])}'
                )
            value, branch = value
        if isinstance(value, dict):
            odd = [name for name in value if not isinstance(name, str)]
            if odd:
                raise UsageError(f"{self.name!r}: the names of outputs are texts, not {describe_value(odd[0])}")
            return value, branch
        return {self.output: value}, branch

    def _call(self, arguments: dict[str, Any]) -> Any:
        return self.function(**arguments)

    async def _awaited(self, arguments: dict[str, Any]) -> Any:
        return await await_contained(self.function(**arguments))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
