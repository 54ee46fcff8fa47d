"""`Agent`: a model, a strategy, tools and a budget. Users construct one; each question is a run of its own."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar, Unpack, cast, overload

from ._internal.concurrency import gather_bounded
from ._internal.message_text import find_nearest, format_repr, suggest_name
from ._internal.sync_bridge import iterate_blocking, run_blocking
from ._internal.yaml_io import YamlSerializable, load_section
from .core.budgets import Budget, Limits, with_limits
from .core.events import Delta, Event, Finished, find_started
from .core.hooks import Hook, list_hooks
from .core.loop.compaction import Context, read_context
from .core.loop.effects import Human as Human
from .core.protocols import Memory, Model, Prompting, Strategy
from .core.run_context import Deps, find_among
from .core.run_result import RunResult, fold_result, pending
from .core.schema.answers import Answer, read_answer_type
from .core.tools.tool import Tool, make_tool
from .core.tools.toolbox import Toolbox
from .core.values import Decision, Message
from .errors import LogMismatch, ModelError, UsageError
from .harness.harness import Harness, read_harness
from .memory.recall import as_tuple
from .models import PromptModel
from .models.reply_limits import limit_replies
from .net.file_source import FileSource
from .run.run import Earlier, Run as Run
from .run.run_parts import DepsFunction, DynamicTools, Instruction, Instructions, read_instructions, with_approval
from .run.spec import RunSpec, check_suggested
from .strategies import STRATEGIES
from .strategies.auto import Auto
from .strategies.react import React

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .durable.agent_runs import AgentRuns, Thread

T = TypeVar("T")
Params = Mapping[str, Mapping[str, Any]]  # parameter values, by node name
History = Sequence[Message | Mapping[str, Any]]
Files = Sequence[FileSource]
GIVEN = ("deps", "user", "thread", "metadata")  # of a run's options: what its context is told


class RunOptions(TypedDict, Generic[Deps], total=False):
    """What a run may be given beside its question.

    Attributes:
        history: The conversation before it.
        params: Parameters of pipelines, as in `Agent.with_params`.
        files: Bytes, paths, or data, http or https URLs.
        key: The idempotency key that tools send to services; random if empty.
        deps: What the agent's tools and instructions need: `RunContext.deps`.
        user: For whom the run is, `thread` the conversation that it belongs to, and `metadata` what to note down of it.
        secrets: What `RunContext.secret` finds; without it, that looks in the environment.
    """

    history: History
    params: Params | None
    files: Files
    key: str
    deps: Deps
    user: str
    thread: str
    metadata: Mapping[str, str]
    secrets: Mapping[str, str]


class ResumeOptions(TypedDict, Generic[Deps], total=False):
    """What a run that goes on may be given beside its log and people's decisions.

    Attributes:
        budget: May be larger than it was.
        key: The original run's, as `children`, the logs of its members, and its `files`, which a stored log lacks.
        deps: As those of `RunOptions`, and so are `secrets`.
    """

    budget: Budget | None
    key: str
    files: Files
    children: Mapping[str, Sequence[Event]] | None
    deps: Deps
    secrets: Mapping[str, str]


class SpecField(Generic[T]):
    """An attribute of an agent that is a field of its spec. Assigning a value to it gives the agent another spec."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, agent: Agent[Any, Any] | None, owner: type) -> T:
        return cast(T, self if agent is None else getattr(agent.spec, self._name))

    def __set__(self, agent: Agent[Any, Any], value: T) -> None:
        changed: dict[str, Any] = {self._name: value}
        agent.spec = replace(agent.spec, **changed)


class Agent(YamlSerializable, Generic[Deps, Answer]):
    """Answers questions by deciding, acting and observing in a loop.

    Raises `UsageError` for unknown names, or if `PromptModel` cannot be constructed.

    Args:
        model: A `Model`, or a name that `PromptModel` accepts (`"local"`, `"openai:gpt-5-mini"`, …).
        tools: `Tool`s, functions, objects with `run`, or `dynamic_tools`. Without tools the agent just answers.
        instructions: System message before every prompt: a text, a function of the run's context that returns one, or a
            list of these. A function is called once for each run, whose log has what it returned.
        strategy: A `Strategy`, or a name in `STRATEGIES`; `auto` chooses by the engine's capabilities.
        human: Called with an action and the reason before a tool marked `approval` runs. Without it, or while
            it returns `None`, the run parks (`AWAITING_HUMAN`) until `resume`.
        require_human_feedback: Requires approval for all tools, or for those named.
        answer: What answers are: a dataclass, a pydantic model, another type that pydantic knows, or a JSON Schema. A
            result's `answer` is then of this type. An answer that does not conform stops the run as `INVALID_ANSWER`.
        deps_of: A function, sync or async, of a run's context. It returns what the code of the agent needs, if the run
            was not given it, and is called whenever a run begins or continues.
        prompt_node: A `PromptNode` instead of `model`: its model, stop words, and template as `react`'s prompt.
        memory: Memories of one conversation. Without any, the agent may serve many conversations at once.
        questions: At most 8 short texts that one may ask: people are shown them, the model is not.
        hooks: `Hook`s, in order, and objects whose method `hooks()` returns several.
        harness: What it needs for long work: files, a shell, skills, a list of what is to do, helpers. `True`: all.
        context: How its prompts stay within the model's window; `False`: they are sent as they are.
        trace: Show each run on standard error as it happens.
        store: Where its runs are kept, so that they survive their process: a file, or the URL of a PostgreSQL database
            (docs/durable.md). It needs the extra `store`.
        recover: Whether it also goes on with runs of its name that other processes left, from its first use on.
        limits: Budget limits by other frameworks' names: `max_steps`, `max_execution_time`, … (`budgets.Limits`).
    """

    spec: RunSpec
    """The frozen parts that it is made of: what its runs begin with, and what is written to files and snapshots."""
    name = SpecField[str]()
    model = SpecField[Model]()
    strategy = SpecField[Strategy]()
    tools = SpecField[Sequence[Tool]]()
    instructions = SpecField[str | tuple[Instruction[Any], ...]]()
    budget = SpecField[Budget]()
    human = SpecField[Human | None]()
    require_human_feedback = SpecField[bool | Collection[str]]()
    memories = SpecField[tuple[Memory, ...]]()
    trace = SpecField[bool]()
    prompt_node = SpecField[Prompting | None]()
    questions = SpecField[tuple[str, ...]]()
    hooks = SpecField[tuple[Hook, ...]]()

    @overload
    def __init__(
        self,
        model: Model | str = ...,
        tools: Iterable[Any] = ...,
        *,
        instructions: Instruction[Deps] | Instructions[Deps] | None = ...,
        strategy: Strategy | str = ...,
        budget: Budget = ...,
        name: str = ...,
        human: Human | None = ...,
        require_human_feedback: bool | Collection[str] = ...,
        answer: TypeForm[Answer] = ...,
        deps_of: DepsFunction[Deps] | None = ...,
        prompt_node: Prompting | None = ...,
        memory: Memory | Sequence[Memory] = ...,
        questions: Iterable[str] = ...,
        hooks: Iterable[Any] = ...,
        harness: Harness | bool | None = ...,
        context: Context | bool = ...,
        trace: bool = ...,
        store: str | Path | None = ...,
        recover: bool = ...,
        **limits: Unpack[Limits],
    ) -> None: ...
    @overload
    def __init__(self: Agent[Any, Any], *parts: Any, answer: Mapping[str, Any], **options: Any) -> None: ...
    def __init__(  # type: ignore[misc]  # noqa: PLR0913 -- the parts an agent is put together from
        self,
        model: Model | str = "local",
        tools: Iterable[Any] = (),
        *,
        instructions: Instruction[Deps] | Instructions[Deps] | None = None,
        strategy: Strategy | str = "auto",
        budget: Budget = Budget(),
        name: str = "agent",
        human: Human | None = None,
        require_human_feedback: bool | Collection[str] = False,
        answer: Any = str,
        deps_of: DepsFunction[Deps] | None = None,
        prompt_node: Prompting | None = None,
        memory: Memory | Sequence[Memory] = (),
        questions: Iterable[str] = (),
        hooks: Iterable[Any] = (),
        harness: Harness | bool | None = None,
        context: Context | bool = True,
        trace: bool = False,
        store: str | Path | None = None,
        recover: bool = False,
        **limits: Unpack[Limits],
    ) -> None:
        if isinstance(strategy, str) and strategy not in STRATEGIES:
            raise UsageError(f"no strategy {strategy!r}; {suggest_name(strategy, STRATEGIES)}")
        if unknown := [name for name in limits if name not in Limits.__annotations__]:
            known = [*inspect.signature(Agent).parameters, *Limits.__annotations__]
            raise UsageError(f"Agent takes no {unknown[0]!r}; {suggest_name(unknown[0], known)}")
        if not isinstance(tools, Iterable) or isinstance(tools, str):
            raise UsageError(f"tools: want a list of them, such as [calculator], not {tools!r:.80}")
        strategy = STRATEGIES[strategy] if isinstance(strategy, str) else strategy
        if prompt_node is not None and model != "local":
            raise UsageError("Agent: give a model or a prompt_node, which has a model of its own, and not both")
        if prompt_node is not None:
            model = limit_replies(prompt_node.model, prompt_node.stop_words, prompt_node.max_length)
            if prompt_node.default_prompt_template and isinstance(strategy, React | Auto):
                react = strategy if isinstance(strategy, React) else React()
                strategy = replace(react, prompt=prompt_node.default_prompt_template.prompt_text)
        marked = require_human_feedback
        self.spec = RunSpec(
            name=name,
            model=PromptModel(model) if isinstance(model, str) else model,
            strategy=strategy,
            tools=(),
            instructions=read_instructions(instructions),
            budget=with_limits(budget, limits),
            human=human,
            require_human_feedback={marked} if isinstance(marked, str) else marked,
            answers=None if answer is str else read_answer_type(answer),
            memories=as_tuple(memory),
            trace=trace,
            prompt_node=prompt_node,
            questions=check_suggested(questions),
            deps_of=deps_of,
            hooks=list_hooks(hooks),
            harness=read_harness(harness),
            context=read_context(context),
        )
        self.store, self.recovers = store, recover
        if recover and store is None:
            raise UsageError("recover: without a store there is nothing to go on with; say store='runs.db'")
        for tool in (*tools, *(self.spec.harness.tools if self.spec.harness else ())):
            self.add_tool(tool)

    def add_tool(self, tool: Any, something: Any = None, description: str = "", **options: Any) -> None:
        """Add a tool: `add_tool("Search", search, "useful for …")` as in Haystack's Agent proposal, PR 3925, or
        `add_tool(tool_or_function)`.

        `options` are those of `Tool`. Raises `UsageError` for an invalid or duplicate name.
        """
        if isinstance(tool, DynamicTools):
            self.spec = replace(self.spec, tool_functions=(*self.spec.tool_functions, tool))
            return
        if isinstance(tool, str) and something is None:
            near = find_nearest(tool, ("calculator", "passages"))
            hint = f"; did you mean `from retinue.tools import {near}`?" if near else ""
            raise UsageError(f"{tool!r} is only a name; a tool is a function, or anything with `run`{hint}")
        new = Tool(tool, something, description, **options) if isinstance(tool, str) else make_tool(tool, **options)
        new = with_approval(new, self.require_human_feedback)
        Toolbox([*self.tools, new])  # raises if the name is taken
        _ = new.signature  # raises for parameters that a model cannot supply
        self.tools = (*self.tools, new)

    not_done = (ModelError,)
    """Raised by a run whose model never said anything: as a tool, it has done nothing."""

    @classmethod
    def load_from_yaml(cls, path: str | Path, agent_name: str | None = None) -> Self:
        """Load an agent from a file; `agent_name` selects one of several. Raises `DataError` and `UsageError`."""
        agent: Self = load_section(path, "agents", agent_name)
        return agent

    def with_memory(self, memory: Memory | Sequence[Memory]) -> Self:
        """Return a copy for another conversation, with its own `memory`."""
        return self._copy(memories=as_tuple(memory))

    @overload
    def with_answers(self, answer: TypeForm[T]) -> Agent[Deps, T]: ...
    @overload
    def with_answers(self, answer: Mapping[str, Any]) -> Agent[Deps, Any]: ...
    def with_answers(self, answer: Any) -> Agent[Deps, Any]:
        """Return a copy whose answers are of another type, or JSON that conforms to a JSON Schema."""
        return self._copy(answers=None if answer is str else read_answer_type(answer))

    def with_params(self, params: Params) -> Self:
        """Return a copy whose pipelines run with `params`, by node: `{"Retriever": {"top_k": 3}}`.

        Raises `UsageError` if no pipeline has a node of that name.
        """
        from .pipelines.pipeline import bind_parameters  # imported here because few agents need it

        return self._copy(tools=bind_parameters(self.tools, params))

    def _copy(self, **changed: Any) -> Self:
        """Return a copy with other parts."""
        other = copy.copy(self)
        other.spec = replace(self.spec, **changed)
        return other

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the answers, or `None`."""
        return self.spec.answers.schema if self.spec.answers else None

    def __repr__(self) -> str:
        tools = [tool.name for tool in self.tools]
        return format_repr(self, self.name, model=self.model.name, strategy=self.strategy.name, tools=tools)

    def state(self) -> Any:
        """Return the settings, which may have changed since construction."""
        others = [self.model.name, self.questions, self.spec.tool_functions, [one.name for one in self.hooks]]
        others += [type(memory).__name__ for memory in self.memories]
        return [tool.name for tool in self.tools], self.strategy.name, self.instructions, self.budget, others

    def start(self, question: str, **options: Unpack[RunOptions[Deps]]) -> Run[Answer]:
        """Create a run without starting it: iterate over its `events`, `cancel` it, read its `result`.

        With a `store`, it is kept there under its `key` once it starts. Raises `UsageError` for an empty question.
        """
        if self.store is not None:
            return self.runs.start(question, options)
        params = options.get("params")
        agent = self.with_params(params) if params else self
        run: Run[Answer] = Run(agent, question, options.get("history", ()), key=options.get("key", ""))
        run.files = tuple(options.get("files", ()))
        run.given = {name: options[name] for name in GIVEN if name in options}  # type: ignore[literal-required]
        run.given |= {"find_secret": find_among(options["secrets"])} if "secrets" in options else {}
        return run

    async def run_async(self, question: str, **options: Unpack[RunOptions[Deps]]) -> RunResult[Answer]:
        """Answer `question`. How a run ends, also in an error, is in its result's `stop_reason`.

        Raises `UsageError` as `start` does, or if the model cannot see, and `ModelError` if it never says anything.
        """
        return await self.start(question, **options).finish()

    def run(self, question: str, **options: Unpack[RunOptions[Deps]]) -> RunResult[Answer]:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(question, **options))

    async def run_batch_async(self, questions: Iterable[str], *, at_once: int = 4) -> list[RunResult[Answer]]:
        """Call `run_async` for each question, at most `at_once` at a time. Results are in the order of the questions.

        If the model has replied to at least one question, those without a reply yield a result with its `error`.
        Otherwise raises as `run_async` does. Raises `UsageError` if `at_once` is below 1.
        """
        answered = False

        async def one(question: str) -> RunResult[Answer]:
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

    def run_batch(self, questions: Iterable[str], *, at_once: int = 4) -> list[RunResult[Answer]]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(questions, at_once=at_once))

    def stream_async(self, question: str, **options: Unpack[RunOptions[Deps]]) -> AsyncGenerator[Event | Delta, None]:
        """Yield the events of a run as they happen, and the model's text as `Delta`s. Raises as `run_async` does."""
        return self.start(question, **options).events()

    def stream(self, question: str, **options: Unpack[RunOptions[Deps]]) -> Iterator[Event | Delta]:
        """Iterate over `stream_async` and block."""
        return iterate_blocking(self.stream_async(question, **options))

    def stream_answers(self, question: str, **options: Unpack[RunOptions[Deps]]) -> Iterator[Any]:
        """Iterate over the `partial_answers` of a run, the last of which is its answer, and block."""
        return iterate_blocking(self.start(question, **options).partial_answers())

    @property
    def runs(self) -> AgentRuns[Answer]:
        """Its runs in its `store`. Raises `UsageError` if it has none, or without the extra."""
        if self.store is None:
            raise UsageError(f"{self.name} keeps no runs; say store='runs.db'")
        try:
            from .durable.agent_runs import AgentRuns  # above this file: decisions/051
        except ModuleNotFoundError as error:
            raise UsageError("a store of runs needs the extra 'store': pip install 'retinue[store]'") from error
        return AgentRuns(self, self.store)

    def thread(self, thread_id: str) -> Thread[Answer]:
        """Return a conversation that its `store` keeps. Raises as `runs` does."""
        return self.runs.thread(thread_id)

    async def recover_async(self, *, deps: Deps | None = None) -> list[RunResult[Answer]]:
        """Go on with the runs of its name in its `store` that nobody drives any more, since their processes died or
        stopped. Return their outcomes, oldest first; some may wait for a person. Raises as `runs` does."""
        return await self.runs.recover_async(deps=deps)

    def recover(self, *, deps: Deps | None = None) -> list[RunResult[Answer]]:
        """Run `recover_async` and block."""
        return run_blocking(self.recover_async(deps=deps))

    async def aclose(self) -> None:
        """Close its `store` on this loop; the next run opens it again. Runs under way are left to `recover`."""
        if self.store is not None:
            await self.runs.close_async()

    def close(self) -> None:
        """Run `aclose` where blocking calls run, and block."""
        run_blocking(self.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def run_spec(self) -> RunSpec:
        """Return the specification of a run created now. Raises `UsageError` if the parts do not fit together."""
        return self.spec.for_run()

    async def resume_async(
        self,
        log: Sequence[Event],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[ResumeOptions[Deps]],
    ) -> RunResult[Answer]:
        """Continue a parked, cancelled or interrupted run from the end of its `log` (a result's `events`).

        `decisions` are a person's, by call id. A `once` tool, or an agent, of whose call no outcome is recorded waits
        for a decision. Raises `LogMismatch` if this agent did not write the log, and `UsageError` for an edited input
        that does not fit the tool.
        """
        if self.store is not None:
            if not (run_id := options.get("key", "")):
                raise UsageError("this agent keeps its runs: name the one that goes on with key=result.run")
            return await self.runs.resume_async(run_id, decisions, deps=options.get("deps"))
        started, children = find_started(log), options.get("children") or {}
        if started is None:
            raise LogMismatch("a log must begin with the event 'started'")
        if isinstance(log[-1], Finished):
            logs = {path: tuple(events) for path, events in children.items()}
            return fold_result(log, children=logs, answers=self.spec.answers)
        toolbox, decided = Toolbox(self.tools), decisions or {}
        for action in pending(log):
            if action.id in decided and (wrong := toolbox.edit_problem(action, decided[action.id])):
                raise UsageError(f"decisions: {action.id}: {wrong}")
        run: Run[Answer] = Run(
            self, started.question, started.history, Earlier(log, decided, children), options.get("key", "")
        )
        run.budget, run.files = options.get("budget") or self.budget, tuple(options.get("files", ()))
        recorded = {"user": started.user, "thread": started.thread, "metadata": started.metadata}
        run.given = {"deps": options.get("deps"), **{name: one for name, one in recorded.items() if one}}
        run.given |= {"find_secret": find_among(options["secrets"])} if "secrets" in options else {}
        return await run.finish()

    def resume(
        self,
        log: Sequence[Event],
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[ResumeOptions[Deps]],
    ) -> RunResult[Answer]:
        """Run `resume_async` and block."""
        return run_blocking(self.resume_async(log, decisions, **options))
