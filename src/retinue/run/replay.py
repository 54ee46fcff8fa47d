"""`replay`: whether an agent still decides as a log says, without asking a model or calling a tool."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from .._internal.sync_bridge import run_blocking
from ..core.budgets import Budget
from ..core.deadline import Deadline
from ..core.delegation import is_member
from ..core.events import Called, Event, Said, Started
from ..core.grammar import Pattern, gbnf
from ..core.loop import drive
from ..core.run_result import RunResult
from ..core.toolbox import Toolbox
from ..errors import LogMismatch, ModelError
from .difference import Difference
from .recorded_effects import ComparedRun, NumberedEvent, RecordedRequest, ReplayEnd, number_events
from .spec import RunSpec, Specified

_MOST_PRINTED = 20_000  # characters of a grammar


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a log does not hold of a request to the model.

    Args:
        event: The number of the event `asked`.
        step: Its step.
        pattern: What the reply had to look like, as a grammar in GBNF; `None` if it was free.
        schema: The same as a JSON Schema, for engines that only know these.
        stop: Texts before which the reply ends.
        tools: The tools that were offered for native calls.
        max_tokens: The limit of the reply.
    """

    event: int
    step: int
    pattern: str | None
    schema: Mapping[str, Any] | None
    stop: tuple[str, ...]
    tools: tuple[str, ...]
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """How a log's run goes by now.

    Args:
        differs: The first difference, or `None`.
        requests: The requests to the model up to there.
        events: The log as it would be now, up to there.
        members: The replays of the agents that were called, by the paths of their calls.
    """

    differs: Difference | None
    requests: tuple[ModelRequest, ...]
    events: tuple[Event, ...] = ()
    members: Mapping[str, Replay] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether everything is decided as before, also in the runs of members."""
        return self.differs is None and all(one.agrees for one in self.members.values())


@dataclass(frozen=True, slots=True)
class Recording:
    """A log to replay.

    Args:
        log: Its events with their numbers.
        budget: The run's budget; `None` if it is not known, so that only the log says where it ended the run.
        instructions: The system message; `None` for that of the agent.
        accepting: Whether other prompts, or another end, are no difference.
        kept: The last step that was another run's, of which this one is a fork; -1 if it is none.
    """

    log: Sequence[NumberedEvent]
    budget: Budget | None = None
    instructions: str | None = None
    accepting: bool = False
    kept: int = -1


def replay(agent: Specified, log: RunResult | Sequence[Event], *, budget: Budget | None = None) -> Replay:
    """Run `replay_async` and block."""
    return run_blocking(replay_async(agent, log, budget=budget))


async def replay_async(agent: Specified, log: RunResult | Sequence[Event], *, budget: Budget | None = None) -> Replay:
    """Run `agent` again on a log: a result, its `events`, or what `from_json` made of JSON lines. The log answers
    everything, and what the agent asks, does and answers is compared with it.

    `budget` is the run's, if it was not the agent's. A result also has the runs of members, which are replayed, too.
    Raises `LogMismatch` if the log does not begin with `started`.
    """
    spec = agent.run_spec()
    events = log.events if isinstance(log, RunResult) else log
    children = log.children if isinstance(log, RunResult) else {}
    return await replay_team(spec, Recording(number_events(events), budget or spec.budget), children)


async def replay_team(spec: RunSpec, recording: Recording, children: Mapping[str, Sequence[Event]]) -> Replay:
    """Replay a run and those of its members, whose logs are `children`, by the paths of their calls. Raises
    `LogMismatch` if a member is no longer in the team, and as `replay_run` does."""
    found = await replay_run(spec, recording)
    members = {
        path: await replay_run(member, Recording(number_events(children[path]), accepting=recording.accepting))
        for path, member in _members_of(spec, [one.event for one in recording.log], children)
    }
    return replace(found, members=members)


def _members_of(
    spec: RunSpec, log: Sequence[Event], children: Mapping[str, Sequence[Event]], path: str = ""
) -> Generator[tuple[str, RunSpec], None, None]:
    """Yield the paths of the members' logs in `children`, each with the member. Raises `LogMismatch` for one that is
    no longer in the team."""
    tools = {tool.name: tool for tool in spec.tools}
    for event in log:
        if not isinstance(event, Called) or (call := f"{path}{event.action.id}") not in children:
            continue
        tool = tools.get(event.action.tool)
        if tool is None or not is_member(tool):
            raise LogMismatch(f"{spec.name} has no member {event.action.tool!r} any more, which has the call {call}")
        member: RunSpec = tool.something.run_spec()
        yield call, member
        yield from _members_of(member, children[call], children, f"{call}/")


async def replay_run(spec: RunSpec, recording: Recording) -> Replay:
    """Replay one run, without those of its members. Raises `LogMismatch` if the log does not begin with `started`, and
    `UsageError` if the strategy cannot begin."""
    log = [one for one in recording.log if not isinstance(one.event, Said)]
    started = log[0].event if log else None
    if not isinstance(started, Started):
        raise LogMismatch("a log must begin with the event 'started'")
    words = spec.instructions if recording.instructions is None else recording.instructions
    now, flow = spec.begin(replace(started, instructions=words))
    effects = ComparedRun(
        log,
        Toolbox(spec.tools, "replay").same,
        limited=recording.budget is not None,
        accepting=recording.accepting,
        kept=recording.kept,
    )
    budget = replace(recording.budget or _unlimited(spec.budget), seconds=None)  # the log says when time was up
    differs: Difference | None = None
    try:
        with suppress(ModelError):  # the log has it
            await drive(flow, effects, now, budget, Deadline())()
    except ReplayEnd as end:
        differs = end.difference
    printed: dict[Pattern, str] = {}
    requests = tuple(_described(one, printed) for one in effects.requests)
    return Replay(differs, requests, tuple(effects.events))


def _unlimited(budget: Budget) -> Budget:
    """Return the budget without limits: a member's share is not known any more."""
    return Budget(None, stale_steps=None, early_stopping_method=budget.early_stopping_method)


def _described(one: RecordedRequest, printed: dict[Pattern, str]) -> ModelRequest:
    request, constraint = one.request, one.request.constraint
    pattern = None
    if constraint is not None:
        pattern = printed.get(constraint.pattern) or printed.setdefault(
            constraint.pattern, _printed(constraint.pattern)
        )
    return ModelRequest(
        one.event,
        one.step,
        pattern,
        None if constraint is None else constraint.schema,
        request.stop,
        tuple(tool.name for tool in request.tools),
        request.max_tokens,
    )


def _printed(pattern: Pattern) -> str:
    text = gbnf(pattern)
    return text if len(text) <= _MOST_PRINTED else f"{text[:_MOST_PRINTED]}\n# … {len(text):,} characters in all"
