"""A tool: a name, a description, and something to call."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, overload

from .batches import in_order
from .blocking import blocking
from .errors import UsageError
from .events import RunResult
from .schema import Document, ToolInput
from .signature import InvalidInput, Signature, read_signature, summary
from .suggestions import suggestion
from .threads import in_thread

logger = logging.getLogger(__name__)

Effects = Literal["read", "idempotent", "once"]


@dataclass(frozen=True)
class Tool:
    """Something an agent can use.

    `something` is a function (sync or async), or anything with `run_async` or `run` that takes one
    text: a component, a pipeline, another agent. A component that a model is to give more than one text has
    a `tool_function` for it. Functions without async run in a thread.

    `effects` says what a repeated call would do: `read` changes nothing, `idempotent` may be repeated,
    `once` must not be (the default for what is not labelled). `timeout` is in seconds. `approval`: a
    person must agree to each call. `polls`: calling it again with the same input makes sense, so the
    former result is not handed out instead. `return_direct`: its result is the run's answer.
    `reflections`: how often a call may be repeated with its input put in other words, when tool, input
    and result do not fit together (seed 001's self-reflection). `takes`: what a function takes, where its
    type hints do not say it (`retinue.signature.signature_of`). `output_variable`: which output of a component or
    pipeline the model is shown, of several.

    Called, it is the function that it was made of: `population("Lyon")`. `run` is what happens when a model uses it.

    Raises `UsageError` if the name is not made of letters, digits and underscores, or `something`
    cannot be called.
    """

    name: str
    something: Any
    description: str = ""
    effects: Effects = "once"
    timeout: float = 30.0
    approval: bool = False
    polls: bool = False
    return_direct: bool = False
    reflections: int = 0
    takes: Signature | None = None
    output_variable: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", self.name):
            raise UsageError(
                f"Invalid name supplied for tool: '{self.name}'. "
                "Use only letters (a-z, A-Z), digits (0-9) and underscores (_)."
                + (" At most 64 of them." if len(self.name) > 64 else "")
            )
        if not callable(self._function):
            raise UsageError(f"tool {self.name}: {self.something!r} is not callable and has no run or run_async")
        object.__setattr__(self, "description", " ".join(self.description.split()) or summary(self._function))

    @cached_property
    def signature(self) -> Signature:
        """What the tool takes; read from the function when first needed."""
        if self.takes is not None:
            return self.takes
        return read_signature(self._function if self._names_arguments else _takes_query)

    def __call__(self, *args: Any, **values: Any) -> Any:
        """What it was made of, called as it is: nothing is checked, and an `async def` gives something to await."""
        function = self.something if callable(self.something) else getattr(self.something, "run", self._function)
        return function(*args, **values)

    async def run_async(self, tool_input: ToolInput) -> str:
        """Its result as the model is shown it, for a text or for values by name, which are checked. Raises
        `UsageError` for an input that does not fit, and what the tool raises."""
        try:
            return await self.call(tool_input)
        except InvalidInput as error:
            raise UsageError(f"the input of {self.name} is not valid: {error}") from None

    def run(self, tool_input: ToolInput) -> str:
        """`run_async`, blocking."""
        return blocking(self.run_async(tool_input))

    async def run_batch_async(self, inputs: Iterable[ToolInput], *, at_once: int = 4) -> list[str]:
        """`run_async` for each input, at most `at_once` at a time; results in their order."""
        return await in_order(self.run_async, inputs, at_once)

    def run_batch(self, inputs: Iterable[ToolInput], *, at_once: int = 4) -> list[str]:
        """`run_batch_async`, blocking."""
        return blocking(self.run_batch_async(inputs, at_once=at_once))

    async def call(self, tool_input: ToolInput) -> str:
        """Run it; the result as text. Raises `InvalidInput`, `TimeoutError`, or what the tool raised."""
        arguments = self.signature.arguments(tool_input)
        call = self._function
        if not self._names_arguments and "query" not in inspect.signature(call).parameters:
            call, arguments = partial(call, *arguments.values()), {}
        async with asyncio.timeout(self.timeout):
            if self._is_async:
                value = await call(**arguments)
            else:
                value = await in_thread(partial(call, **arguments))
        return as_text(value if self._function is self.something else self._shown(value))

    @cached_property
    def _is_async(self) -> bool:
        function = self._function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        names = ("tool_function", "run_async", "run")
        given = (getattr(self.something, name, None) for name in names)
        found: Callable[..., Any] = next(filter(None, given), self.something)
        return found

    @property
    def _names_arguments(self) -> bool:
        return self._function is self.something or hasattr(self.something, "tool_function")

    def _shown(self, value: Any) -> Any:
        """Of what a component gave (outputs by name, perhaps with the branch it chose), what a model is shown."""
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], dict):
            value = value[0]
        if not isinstance(value, dict):
            return value
        if self.output_variable is not None and self.output_variable not in value:
            raise UsageError(f"there is no output {self.output_variable!r}; {suggestion(self.output_variable, value)}")
        names = (self.output_variable, getattr(self.something, "output_variable", "results"), "results", "documents")
        shown = next((value[name] for name in names if name in value), value)
        return shown[0] if isinstance(shown, list) and len(shown) == 1 else shown


def _takes_query(query: str) -> None: ...


def as_text(value: Any) -> str:
    """A tool's result as the text the model reads: documents by content, values as JSON."""
    match value:
        case str():
            return value
        case None:
            return ""
        case RunResult():
            return value.answer or str(value)
        case Document():
            return value.content
        case list() | tuple() if value and all(isinstance(item, Document) for item in value):
            return "\n".join(item.content for item in value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


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
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool: name and description from the function, schema from its type hints.

    >>> @tool(effects="read")
    ... def age(name: str) -> int:
    ...     '''The age of a person in years.'''
    ...     return 47
    >>> age.name, age.description
    ('age', 'The age of a person in years.')
    """
    if function is None:
        return lambda later: tool_of(later, **options)
    return tool_of(function)


def tool_of(something: Any, **options: Any) -> Tool:
    """`something` as a tool: itself if it is one, else named after the function or object."""
    if isinstance(something, Tool):
        return something
    name = getattr(something, "__name__", None) or getattr(something, "name", None) or type(something).__name__
    made = Tool(**({"name": name, "something": something} | options))
    if inspect.isfunction(something) and (lacking := _lacking(made, something)):
        code = something.__code__
        logger.warning("tool %s (%s:%d) has %s", made.name, code.co_filename, code.co_firstlineno, lacking)
    return made


def _lacking(made: Tool, function: Callable[..., Any]) -> str:
    """What a model is not told of a function, and should be."""
    untold = [] if made.description else ["no docstring: the model is not told what it is for"]
    parameters = inspect.signature(function).parameters.values()
    bare = [one.name for one in parameters if one.annotation is one.empty and one.kind is not one.VAR_KEYWORD]
    if bare and made.takes is None:
        untold.append(f"no type hint for {', '.join(bare)}")
    return "; ".join(untold)
