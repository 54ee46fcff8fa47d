"""Tools: a name, a description, a callable, and worked examples of its use, which strategies show to a model."""

from __future__ import annotations

import inspect
import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, cast, get_args, overload

from ..._internal.concurrency import gather_bounded, run_in_thread
from ..._internal.containment import await_isolated, call_contained
from ..._internal.message_text import format_repr, suggest_name
from ..._internal.sync_bridge import run_blocking
from ...errors import ForeignExit, NotDone, ToolError, UsageError
from ..run_context import check_fresh, current_run
from ..run_result import RunResult
from ..values import ToolInput
from .result import as_text, exhaust, finish, format_result, is_unfinished
from .signature import (
    InvalidInput,
    Signature,
    find_context_parameter,
    find_documented_function,
    find_method_owner,
    list_parameters,
    needs_names_around,
    read_exceptions,
    read_signature,
    summarize_docstring,
)


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call in a worked example: the thought before it, the tool's input, and what was observed."""

    thought: str
    tool_input: ToolInput
    observation: str


@dataclass(frozen=True, slots=True)
class ToolExample:
    """A worked example of one tool's use.

    Invent the facts: a small model may take them for true, or its own question for the example's.

    Args:
        question: What is asked.
        calls: The tool's calls that lead to the answer, at least one.
        answer: The answer.
        thought: The thought before the answer; by default that the answer is known.
        follow_up: The question as it is asked after another one that has found a part of the first call's input, for
            example `What is half of that number?`. The examples of two tools then become one of both.
    """

    question: str
    calls: tuple[ExampleCall, ...]
    answer: str
    thought: str = ""
    follow_up: str = ""

    @classmethod
    def of(cls, value: ToolExample | Mapping[str, Any]) -> ToolExample:
        """Return an example, also one that a file has as mappings. Raises `TypeError` for missing or unknown keys."""
        if isinstance(value, ToolExample):
            return value
        calls = tuple(ExampleCall(**call) for call in value.get("calls", ()))
        return cls(**{**value, "calls": calls})


logger = logging.getLogger(__name__)
Effects = Literal["read", "idempotent", "once"]
_UNSAID = cast(Effects, "")
_SECONDS = 30.0  # of a call; the calls of an agent are limited by its budget
_UNTIMED = math.nan


@dataclass(frozen=True)
class Tool:
    """Something an agent can use.

    `something` is a function (sync or async), or an object with `run_async` or `run` that takes one text: a component,
    a pipeline, another agent. A component with more than one text parameter for the model provides a `tool_function`.
    Functions that are not async run in a thread.

    A parameter annotated as a `RunContext` is given that of the run; a model is not told of it.

    Calling the tool calls the original function: `population("Lyon")`. `run` does what happens when a model uses it.

    Args:
        effects: Effect of a repeated call: `read` changes nothing, `idempotent` may be repeated, `once` must not be.
            Defaults to the attribute `effects` of `something`, which components have, or else to `once`.
        effects_of: The effects of one call, by its checked arguments, where calls differ; `effects` is then the worst.
        timeout: In seconds; by default 30, or none for an agent, which has a budget.
        approval: A person must approve each call.
        polls: Repeating a call makes sense, so an earlier result is not reused.
        return_direct: Its result is the run's answer.
        reflections: How often a call may be repeated with a reworded input if tool, input and result do not match.
            A `once` call that may have happened is not repeated.
        takes: The arguments of a function whose type hints do not declare them.
        not_done: Exceptions, or names of built-in ones with commas, that mean, like `NotDone`, that a call did not
            happen. After any other, and after a timeout, the outcome of a `once` call is unknown, and it is not
            repeated unless a person says so.
        output_variable: The output of a component or pipeline that the model is shown, if there are several.
        max_result: How many characters of a result are kept.
        examples: Worked examples, of which strategies show the first ones to models that are held to a pattern.
            Defaults to the attribute `tool_examples` of `something`.
        keeps_last: What it returned last holds until the next call, so that is never cleared from the prompt.
        declared: The description, `parameters` and `strict` of a function as its owner declared it. Engines that call
            tools natively are sent these as they are.

    Raises `UsageError` if `something` cannot be called, an option is invalid, or the name is not of A-Z, a-z, 0-9, _.
    """

    name: str
    something: Any
    description: str = ""
    effects: Effects = _UNSAID
    timeout: float = _UNTIMED
    approval: bool = False
    polls: bool = False
    return_direct: bool = False
    reflections: int = 0
    takes: Signature | None = None
    not_done: tuple[type[BaseException], ...] | str = ()
    output_variable: str | None = None
    max_result: int = 8_000
    examples: tuple[ToolExample, ...] = ()
    declared: Mapping[str, Any] | None = None
    keeps_last: bool = False
    effects_of: Callable[[Mapping[str, Any]], Effects] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", self.name):
            raise UsageError(
                f"Invalid name supplied for tool: '{self.name}'. "
                "Use only letters (a-z, A-Z), digits (0-9) and underscores (_)."
                + (" At most 64 of them." if len(self.name) > 64 else "")
            )
        if isinstance(self.something, classmethod):
            raise UsageError(f"tool {self.name}: a classmethod is no function yet; make a tool of Class.{self.name}")
        if not callable(self._function):
            raise UsageError(f"tool {self.name}: {self.something!r} is not callable and has no run or run_async")
        if self.takes is None and self._names_arguments:
            list_parameters(self._function)  # raises for those that a model cannot set
            if needs_names_around(self._function):
                with suppress(UsageError):  # said when it is read again
                    object.__setattr__(self, "takes", read_signature(self._function))
        own = self.something
        defaults = {
            "effects": self.effects or getattr(own, "effects", None) or "once",
            "timeout": (math.inf if hasattr(own, "run_spec") else _SECONDS)
            if self.timeout is _UNTIMED
            else self.timeout,
            "examples": tuple(self.examples or getattr(own, "tool_examples", ())),
            "description": " ".join(self.description.split()) or summarize_docstring(self._function),
        }
        for name, value in defaults.items():
            object.__setattr__(self, name, value)
        for problem in self._find_problems():
            raise UsageError(f"tool {self.name}: {problem}")

    def _find_problems(self) -> Iterator[str]:
        """Yield what is wrong with the options."""
        if self.effects not in (known := get_args(Effects)):
            yield f"effects: want {', '.join(known)}, not {self.effects!r}"
        if not isinstance(self.timeout, int | float) or not self.timeout > 0:
            yield f"timeout: want a number of seconds above 0, not {self.timeout!r}"
        if not isinstance(self.reflections, int) or self.reflections < 0:
            yield f"reflections: want a count of 0 or more, not {self.reflections!r}"
        if wrong := [one for one in self.examples if not (isinstance(one, ToolExample) and one.calls)]:
            yield f"examples: want a ToolExample with calls, not {wrong[0]!r:.80}"
        try:
            read_exceptions(self.not_done)
        except ValueError as error:
            yield f"not_done: {error}"

    def __repr__(self) -> str:
        return format_repr(self, self.name, self.description, effects=self.effects)

    def __get__(self, instance: Any, owner: type) -> Tool:
        """Bind the tool of a method, as a method is bound: `Weather("key").forecast` is a tool without `self`."""
        named = {one.__name__ for one in owner.__mro__}
        if instance is None or find_method_owner(self.something).rpartition(".")[2] not in named:
            return self
        return replace(self, something=self.something.__get__(instance, owner))

    @cached_property
    def signature(self) -> Signature:
        """The tool's signature, read from the function on first use."""
        if self.takes is not None:
            return self.takes
        if owner := find_method_owner(self.something):
            raise UsageError(f"tool {self.name}: it is a method; use that of an object: {owner}(…).{self.name}")
        return read_signature(self._function if self._names_arguments else _declare_query)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        given = (getattr(self.something, name, None) for name in ("tool_function", "run_async", "run"))
        found: Callable[..., Any] = next(filter(None, given), self.something)
        return found

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter] | None:
        """The function's parameters; `None` of some built-in functions, whose arguments were declared."""
        try:
            return inspect.signature(self._function).parameters
        except (TypeError, ValueError):
            return None

    @cached_property
    def _context(self) -> str:
        """The parameter that is given the run's context; empty if there is none."""
        return (self.takes and self.takes.context) or find_context_parameter(self._function)

    @property
    def _names_arguments(self) -> bool:
        return self._function is self.something or hasattr(self.something, "tool_function")

    def __call__(self, *args: Any, **values: Any) -> Any:
        """Call the original function without checks; an `async def` returns an awaitable."""
        function = self.something if callable(self.something) else getattr(self.something, "run", self._function)
        return function(*args, **values)

    async def run_async(self, tool_input: ToolInput) -> str:
        """Return the result as the model sees it. Raises `UsageError` for invalid input, and what the tool raises."""
        try:
            return await self.call(tool_input)
        except InvalidInput as error:
            raise UsageError(f"the input of {self.name} is not valid: {error}") from None

    def run(self, tool_input: ToolInput) -> str:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(tool_input))

    async def run_batch_async(self, inputs: Iterable[ToolInput], *, at_once: int = 4) -> list[str]:
        """Call `run_async` for each input, at most `at_once` at a time. Results are in the order of the inputs."""
        return await gather_bounded(self.run_async, inputs, at_once)

    def run_batch(self, inputs: Iterable[ToolInput], *, at_once: int = 4) -> list[str]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(inputs, at_once=at_once))

    async def call(self, tool_input: ToolInput) -> str:
        """Run the tool; return its result as text. Raises `InvalidInput`, `TimeoutError`, or what the tool raised."""
        return await self.invoke(self.signature.arguments(tool_input))

    async def invoke(self, arguments: Mapping[str, Any]) -> str:
        """Run with checked arguments. Raises `TimedOut` on a timeout, `StaleCall` if the call was not begun, and an
        `Exception` for what the tool raises."""
        bound, function, end = self._bind(arguments), self._function, time.monotonic() + self.timeout

        def call() -> Any:
            check_fresh()  # as late as can be: a process may be frozen at any point
            return bound()

        def call_in_thread() -> Any:
            value = call()
            return value if is_unfinished(value) else self._format_value(value, end)

        async def produce() -> str:
            awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
            value = call() if awaited else await run_in_thread(call_in_thread)
            while is_unfinished(value):
                value = await finish(value, self.max_result)
            if isinstance(value, Iterator):  # whose code may block
                return await run_in_thread(self._format_value, value, end)
            return self._format_value(value, end)

        return await await_isolated(produce(), self.timeout)

    def _bind(self, arguments: Mapping[str, Any]) -> Callable[[], Any]:
        """Return the call of the function with these arguments. Passed by position are those before `/`, and the one
        that `singledispatch` goes by."""
        function, named, parameters = self._function, dict(arguments), self._parameters
        if parameters is None:
            return partial(function, **named)
        if not self._names_arguments:
            first = [] if "query" in parameters else list(named)
        elif hasattr(function, "dispatch") and hasattr(function, "registry"):
            first = list(parameters)[:1]
        else:
            first = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_ONLY]
        if self._context:
            named[self._context] = current_run()
        given = [named.pop(name) for name in first if name in named]
        return partial(function, *given, **named)

    def _format_value(self, value: Any, end: float) -> str:
        if isinstance(value, Iterator):
            value = exhaust(value, self.max_result, end)
        if isinstance(value, RunResult) and hasattr(self.something, "run_spec") and not value.answered:
            raise ToolError(str(value))  # called outside of an agent, which runs it as a member
        return format_result(value if self._function is self.something else self._select_main_output(value))

    def _select_main_output(self, value: Any) -> Any:
        """Select what the model is shown from a component's outputs, with or without the branch it chose."""
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], dict):
            value = value[0]
        if not isinstance(value, dict):
            return value
        if self.output_variable is None:
            ends = [name for name in getattr(self.something, "output_variables", ()) if name in value]
            if len(ends) > 1:  # a pipeline that ends at several nodes
                return {name: as_text(_take_only(value[name])) for name in ends}
        elif self.output_variable not in value:
            raise UsageError(
                f"there is no output {self.output_variable!r}; {suggest_name(self.output_variable, value)}"
            )
        names = (self.output_variable, getattr(self.something, "output_variable", "results"), "results", "documents")
        return _take_only(next((value[name] for name in names if name in value), value))

    def find_effects(self, tool_input: ToolInput) -> Effects:
        """Return the effects of a call with this input; of an input that is not valid, those of the tool."""
        if self.effects_of is not None:
            with suppress(Exception):  # a check may raise anything
                return call_contained(self.effects_of, call_contained(self.signature.arguments, tool_input))
        return self.effects

    def was_not_done(self, error: BaseException) -> bool:
        """Return whether `error`, raised by the tool, means that the call did not happen."""
        raised = error.__cause__ if isinstance(error, ForeignExit) and error.__cause__ else error
        declared = (*read_exceptions(self.not_done), *getattr(self.something, "not_done", ()))
        elsewhere = error.kinds if isinstance(error, ToolError) else ()
        return isinstance(raised, (NotDone, *declared)) or any(one.__name__ in elsewhere for one in declared)


def _declare_query(query: str) -> None: ...
def _take_only(value: Any) -> Any:
    """Return the only item of a one-item list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = ...,
    description: str = ...,
    effects: Effects = ...,
    timeout: float = ...,
    approval: bool = ...,
    polls: bool = ...,
    return_direct: bool = ...,
    reflections: int = ...,
    not_done: tuple[type[BaseException], ...] | str = ...,
    max_result: int = ...,
    examples: tuple[ToolExample, ...] = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turn a function into a tool: name and description from the function, schema from its type hints.

    >>> @tool(effects="read")
    ... def age(name: str) -> int:
    ...     '''The age of a person in years.'''
    ...     return 47
    >>> age.name, age.description
    ('age', 'The age of a person in years.')
    """
    if function is None:
        return lambda later: make_tool(later, **options)
    return make_tool(function)


def make_tool(something: Any, **options: Any) -> Tool:
    """Return `something` as a tool: with these options if it is one, otherwise named after the function or object."""
    if isinstance(something, Tool):
        return replace(something, **options) if options else something
    if isinstance(wrapped := getattr(something, "__wrapped__", None), Tool):  # decorated after it was made a tool
        return replace(wrapped, **({"something": something, "takes": wrapped.signature} | options))
    name = (
        getattr(find_documented_function(something), "__name__", None)
        or getattr(something, "name", None)
        or type(something).__name__
    )
    made = Tool(**({"name": name, "something": something} | options))
    if not inspect.isfunction(something):
        return made
    lacking = [] if made.description else ["no docstring: the model is not told what it is for"]
    parameters = inspect.signature(something).parameters.values()
    bare = [one.name for one in parameters if one.annotation is one.empty and one.kind is not one.VAR_KEYWORD]
    if bare and made.takes is None:
        lacking.append(f"no type hint for {', '.join(bare)}")
    if "effects" not in options and not getattr(something, "effects", None):
        lacking.append(
            "no effects: after a failure an equal call waits for a person (say effects='read' if it only looks)"
        )
    if lacking:
        place = something.__code__
        logger.warning("tool %s (%s:%d) has %s", made.name, place.co_filename, place.co_firstlineno, "; ".join(lacking))
    return made
