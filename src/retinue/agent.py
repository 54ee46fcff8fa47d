"""`Agent`: model + strategy + tools + budget. What users construct; each call is a run of its own."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

from ._internal.concurrency import gather_bounded
from ._internal.representation import one_line_repr
from ._internal.suggestions import nearest, suggestion
from ._internal.sync_bridge import iterate_blocking, run_blocking
from ._internal.tracebacks import install_excepthook
from ._internal.yaml_io import YamlSerializable, load_section
from .agent_run import Run as Run
from .core.answer_schema import schema_of
from .core.budgets import Budget, Limits, with_limits
from .core.effects import Human as Human
from .core.events import Delta, Event, Finished, RunResult, Started, result
from .core.protocols import Memory, Model, Prompting, Strategy
from .core.tool import Tool, tool_of
from .core.toolbox import Toolbox
from .core.values import Decision, Message
from .display.live_trace import run_watched
from .errors import LogMismatch, ModelError, UsageError
from .memory.recall import as_tuple
from .models import PromptModel
from .models.reply_limits import limited
from .run_spec import RunSpec
from .strategies import STRATEGIES
from .strategies.auto import Auto
from .strategies.react import React

Params = Mapping[str, Mapping[str, Any]]  # values for parameters, by node
_BUNDLED = ("calculator", "passages")  # tools that come along


class Agent(YamlSerializable):
    """Answers questions by deciding, acting and observing in a loop.

    `model` is a `Model` or what `PromptModel` takes (`"local"`, `"openai:gpt-5-mini"`, …). `tools` may
    be `Tool`s, functions, or anything with `run`; without any, it just answers. `strategy` is a `Strategy` or a name
    in `STRATEGIES`; `auto` chooses by what the engine can do when a run begins. `instructions` stand before every
    prompt, as its system message: who it is, and how it is to answer.
    `human` is asked, with an action and the reason, before a tool marked `approval` runs; without it,
    or while it returns `None`, such a run parks (`AWAITING_HUMAN`) and `resume` goes on with it.
    `require_human_feedback`: mark all tools so, or those of these names. `answer_schema`, a pydantic model
    or a JSON Schema: the answer is JSON that conforms (parsed, in `return_values["answer"]`), or the
    run stops as `INVALID_ANSWER`. `prompt_node`, in place of `model`, is a `PromptNode`: its model, its stop
    words, its template as `react`'s prompt. `memory`: one conversation's memory, or several of them; without
    it, an agent keeps nothing of its runs, and may be used for many conversations at once. `trace`: show on standard
    error what a run thinks, does and sees, as it happens; if `None`, `run` and `resume` do in an interactive terminal.
    `limits` are parts of the budget by other frameworks' names: `max_steps`, `max_iterations`, `max_execution_time`, …
    (`budgets.Limits`).

    Raises `UsageError` for unknown names, and for what keeps `PromptModel` from being made.
    """

    def __init__(  # noqa: PLR0913 -- the parts an agent is put together from
        self,
        model: Model | str = "local",
        tools: Iterable[Any] = (),
        *,
        instructions: str | None = None,
        strategy: Strategy | str = "auto",
        budget: Budget = Budget(),
        name: str = "agent",
        human: Human | None = None,
        require_human_feedback: bool | Collection[str] = False,
        answer_schema: type | Mapping[str, Any] | None = None,
        prompt_node: Prompting | None = None,
        memory: Memory | Sequence[Memory] = (),
        trace: bool | None = None,
        **limits: Unpack[Limits],
    ) -> None:
        install_excepthook()
        if isinstance(strategy, str) and strategy not in STRATEGIES:
            raise UsageError(f"no strategy {strategy!r}; {suggestion(strategy, STRATEGIES)}")
        _check_names(limits)
        self.name = name
        self.instructions = (instructions or "").strip()
        self.strategy = STRATEGIES[strategy] if isinstance(strategy, str) else strategy
        self.prompt_node = prompt_node
        self.model: Model
        if prompt_node is not None:
            self.model = limited(prompt_node.model, prompt_node.stop_words, prompt_node.max_length)
            if prompt_node.default_prompt_template and isinstance(self.strategy, React | Auto):
                react = self.strategy if isinstance(self.strategy, React) else React()
                self.strategy = replace(react, prompt=prompt_node.default_prompt_template.prompt_text)
        else:
            self.model = PromptModel(model) if isinstance(model, str) else model
        self.budget = with_limits(budget, limits)
        self.human = human
        marked = require_human_feedback
        self.require_human_feedback = {marked} if isinstance(marked, str) else marked
        self._answer_schema = None if answer_schema is None else schema_of(answer_schema)
        self.memories = as_tuple(memory)
        self.trace = trace
        self.tools: list[Tool] = []
        if not isinstance(tools, Iterable) or isinstance(tools, str):
            raise UsageError(f"tools: want a list of them, such as [calculator], not {tools!r:.80}")
        for tool in tools:
            self.add_tool(tool)

    def add_tool(self, tool: Any, something: Any = None, description: str = "", **options: Any) -> None:
        """`add_tool("Search", search, "useful for …")` as in Haystack's Agent proposal, PR 3925, or
        `add_tool(tool_or_function)`.

        `options` are those of `Tool`. Raises `UsageError` for a name that is not valid or is taken.
        """
        if isinstance(tool, str) and something is None:
            raise UsageError(f"{tool!r} is only a name; a tool is a function, or anything with `run`{_bundled(tool)}")
        new = Tool(tool, something, description, **options) if isinstance(tool, str) else tool_of(tool, **options)
        if self.require_human_feedback is True or new.name in (self.require_human_feedback or ()):
            new = replace(new, approval=True)
        Toolbox([*self.tools, new])  # refuses a name that is taken,
        _ = new.signature  # and this, arguments that a model cannot give
        self.tools.append(new)

    not_done = (ModelError,)
    """Raised by a run whose model never said anything: as a tool, it has done nothing."""

    @classmethod
    def load_from_yaml(cls, path: str | Path, agent_name: str | None = None) -> Self:
        """The agent in a file; of several, the one called `agent_name`. Raises `DataError` and `UsageError`."""
        agent: Self = load_section(path, "agents", agent_name)
        return agent

    def with_memory(self, memory: Memory | Sequence[Memory]) -> Self:
        """The same agent in another conversation, which `memory` has."""
        other = self._copy()
        other.memories = as_tuple(memory)
        return other

    def with_answers(self, schema: type | Mapping[str, Any]) -> Self:
        """The same agent, whose answers are JSON that conforms to `schema`."""
        other = self._copy()
        other._answer_schema = schema_of(schema)
        return other

    def with_params(self, params: Params) -> Self:
        """The same agent, whose pipelines run with `params`, by node: `{"Retriever": {"top_k": 3}}`. Raises
        `UsageError` for a node that none of them has."""
        from .pipelines.bound_parameters import bind_parameters  # few agents need it

        other = self._copy()
        other.tools = bind_parameters(self.tools, params)
        return other

    def _copy(self) -> Self:
        """An equal one, whose tools are its own."""
        other = copy.copy(self)
        other.tools = list(self.tools)
        return other

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of its answers, if they have one."""
        return self._answer_schema[0] if self._answer_schema else None

    def __repr__(self) -> str:
        tools = [tool.name for tool in self.tools]
        return one_line_repr(self, self.name, model=self.model.name, strategy=self.strategy.name, tools=tools)

    def state(self) -> Any:
        """What may have changed since it was made."""
        memories = [type(memory).__name__ for memory in self.memories]
        parts = self.strategy.name, self.instructions, self.budget, self.model.name
        return [tool.name for tool in self.tools], parts, memories

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def start(
        self, question: str, *, history: Sequence[Message] = (), params: Params | None = None, key: str = ""
    ) -> Run:
        """A run that has not begun: iterate over its `events`, `cancel` it, read its `result`.

        `params`: for the nodes of its pipelines, as of `with_params`. `key`: under which services that its tools ask
        know the run; a random one if empty. Raises `UsageError` for an empty question.
        """
        return Run(self.with_params(params) if params else self, question, history, key=key)

    async def run_async(
        self, question: str, *, history: Sequence[Message] = (), params: Params | None = None
    ) -> RunResult:
        """Answer `question`. How a run ends, also in an error, is in its result's `stop_reason`.

        Raises `UsageError` as `start` does, and `ModelError` if the model never says anything.
        """
        return await self.start(question, history=history, params=params).finish()

    def run(self, question: str, *, history: Sequence[Message] = (), params: Params | None = None) -> RunResult:
        """`run_async`, blocking, and shown in an interactive terminal (see `trace`)."""
        return run_blocking(run_watched(self.run_async, question, history=history, params=params))

    async def run_batch_async(self, questions: Iterable[str], *, at_once: int = 4) -> list[RunResult]:
        """`run_async` for each question, at most `at_once` of them at a time; results in their order.

        Once the model has answered one of them, one that it never answers is a result with its `error`.
        Raises as `run_async` does otherwise, and `UsageError` for an `at_once` below 1.
        """
        answered = False

        async def one(question: str) -> RunResult:
            nonlocal answered
            run = self.start(question)
            try:
                result = await run.finish()
            except ModelError:
                if not (answered and run.log):
                    raise
                return run.result
            answered = True
            return result

        return await gather_bounded(one, questions, at_once)

    def run_batch(self, questions: Iterable[str], *, at_once: int = 4) -> list[RunResult]:
        """`run_batch_async`, blocking."""
        return run_blocking(self.run_batch_async(questions, at_once=at_once))

    def stream_async(
        self, question: str, *, history: Sequence[Message] = (), params: Params | None = None
    ) -> AsyncGenerator[Event | Delta, None]:
        """The events of a run as they happen, and the model's text as `Delta`s. Raises as `run_async` does."""
        return self.start(question, history=history, params=params).events()

    def stream(
        self, question: str, *, history: Sequence[Message] = (), params: Params | None = None
    ) -> Iterator[Event | Delta]:
        """`stream_async`, blocking."""
        return iterate_blocking(self.stream_async(question, history=history, params=params))

    def run_spec(self) -> RunSpec:
        """What a run that is made now goes by. Raises `UsageError` if its parts do not fit each other."""
        return RunSpec(
            self.name,
            self.model,
            self.strategy,
            tuple(self.tools),
            self.instructions,
            self.budget,
            self.human,
            self.require_human_feedback,
            self._answer_schema,
            self.memories,
            self.trace,
        )

    async def resume_async(
        self,
        log: Sequence[Event],
        decisions: Mapping[str, Decision] | None = None,
        *,
        budget: Budget | None = None,
        key: str = "",
    ) -> RunResult:
        """Go on with a run where its `log` (a result's `events`) ends: parked, cancelled, cut short, or out of
        its budget (then with a larger `budget`).

        `decisions` are a person's, by call id; `key` is the one the run had. What is recorded is not done again;
        a `once` tool whose outcome is not recorded waits for a decision. Raises `LogMismatch` if this agent did
        not write it.
        """
        started = log[0] if log else None
        if not isinstance(started, Started):
            raise LogMismatch("a log begins with the event 'started'")
        if isinstance(log[-1], Finished):
            return result(log)
        run = Run(self, started.question, started.history, log, decisions, key)
        run.budget = budget or self.budget
        return await run.finish()

    def resume(
        self,
        log: Sequence[Event],
        decisions: Mapping[str, Decision] | None = None,
        *,
        budget: Budget | None = None,
        key: str = "",
    ) -> RunResult:
        """`resume_async`, blocking, and shown in an interactive terminal."""
        return run_blocking(run_watched(self.resume_async, log, decisions, budget=budget, key=key))


def _check_names(limits: Mapping[str, Any]) -> None:
    if unknown := [name for name in limits if name not in Limits.__annotations__]:
        known = [*inspect.signature(Agent).parameters, *Limits.__annotations__]
        raise UsageError(f"Agent takes no {unknown[0]!r}; {suggestion(unknown[0], known)}")


def _bundled(name: str) -> str:
    """Where the tool that comes along and may be meant is found."""
    near = nearest(name, _BUNDLED)
    return f"; did you mean `from retinue.tools import {near}`?" if near else ""
