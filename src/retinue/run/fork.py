"""Forks of a run: another run begins with the beginning of its log, and goes on differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

from ..core.events import (
    ENDINGS,
    Asked,
    Called,
    Compacted,
    Event,
    Finished,
    Observed,
    Paused,
    Reported,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
    call_of,
    find_started,
)
from ..core.run_result import LIMITS, RESUMABLE, RunResult
from ..core.values import Observation
from ..errors import UsageError
from ..net.file_source import FileSource
from .recorded_effects import find_closing
from .run import Earlier, Run
from .spec import Specified

_CONSULTED = "consult_"  # begins the ids of what a strategy asks a person
_MOST_NAMED = 20  # calls


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Where a fork begins.

    Args:
        step: The last step that is kept, from 0; by default that of the observations. Without these, it is the last
            one, or the one before the answer.
        observations: Texts in place of what these calls brought, by call id. The fork begins with the next question to
            the model.
        instructions: The new system message; `None` keeps the recorded one.
        rewritten: Whether the system message is that of the agent that goes on, whatever it is.
        compacted: Whether the model is shown as much less of its prompts as it was; otherwise it is shown everything,
            as far as its window allows.
    """

    step: int | None = None
    observations: Mapping[str, str] = field(default_factory=dict)
    instructions: str | None = None
    rewritten: bool = False
    compacted: bool = True


class KeptEvent(NamedTuple):
    """An event of a fork's log, and where it was in the other log; `None` if it was not."""

    place: int | None
    event: Event


def fork(  # noqa: PLR0913 -- what may be other in a fork
    agent: Specified,
    log: RunResult[Any] | Sequence[Event],
    step: int | None = None,
    *,
    observations: Mapping[str, str] | None = None,
    instructions: str | None = None,
    compacted: bool = True,
    files: Sequence[FileSource] = (),
) -> Run[Any]:
    """Return a run of `agent` that begins with a log (of a result, or its `events`) up to the end of `step`, and goes
    on: `fork(…).finish()` runs it. The other run stays as it is.

    What was done until then stays done, and the model sees it under the prompt that `agent` has by now; so another
    model, other tools or other words are those of another `agent`. New calls have keys of their own.

    Args:
        agent: Who goes on.
        log: The run.
        step: The last step that is kept; 0 keeps only the question. By default the last one, or the one before the
            answer.
        observations: Texts in place of what calls brought, by call id; the run goes on after them.
        instructions: A new system message; by default that of the log.
        compacted: `False` undoes compactions: the model is shown the whole prompt, as far as its window allows.
        files: Those of the run, since a stored log lacks them.

    Raises `UsageError` if there is no such step or call, or if nothing would be left to decide.
    """
    events = log.events if isinstance(log, RunResult) else tuple(log)
    children = log.children if isinstance(log, RunResult) else {}
    point = ForkPoint(step, observations or {}, instructions, compacted=compacted)
    kept = [one.event for one in fork_log(events, point)]
    calls = {call_of(event) for event in kept}
    members = {path: log for path, log in children.items() if path.partition("/")[0] in calls}
    started = next(event for event in kept if isinstance(event, Started))
    run: Run[Any] = Run(agent, started.question, started.history, Earlier(kept, {}, members))
    run.regardless, run.files = True, tuple(files)
    return run


def fork_log(log: Sequence[Event], point: ForkPoint) -> list[KeptEvent]:
    """Return the log with which a fork begins.

    A person who was asked about a call without an outcome is asked again. Raises `UsageError` if there is no such step
    or call, or if nothing would be left to decide.
    """
    if find_started(log) is None:
        raise UsageError("the run has not begun, so there is nothing to fork")
    kept = [KeptEvent(at, event) for at, event in enumerate(log) if point.compacted or not isinstance(event, Compacted)]
    last = log[-1]
    if isinstance(last, Stopped) and last.reason in LIMITS:
        kept = kept[: find_closing(log)]
    kept = _edit_observations(kept, log, point) if point.observations else _cut_after_step(kept, log, point.step)
    kept = _drop_open_questions(kept)
    while kept and isinstance(kept[-1].event, Finished | Stopped | Asked | Retried | Reported | Said):  # asked again
        kept.pop()
    if point.instructions is not None or point.rewritten:
        words = None if point.rewritten else point.instructions
        kept = [
            KeptEvent(at, replace(event, instructions=words) if isinstance(event, Started) else event)
            for at, event in kept
        ]
    return kept


def find_last_step(log: Sequence[KeptEvent]) -> int:
    """Return the last step of a fork's log."""
    return max((_read_step(one.event) or 0 for one in log), default=0)


def _cut_after_step(kept: list[KeptEvent], log: Sequence[Event], step: int | None) -> list[KeptEvent]:
    """Return the events up to the end of a step."""
    steps = {number for event in log if (number := _read_step(event)) is not None}
    final, last = max(steps, default=0), log[-1]
    decided = isinstance(last, Finished) or (isinstance(last, Stopped) and last.reason not in RESUMABLE)
    if step is None and not decided:  # what the agent decided would end its fork, too
        return kept
    step = max(0, final - 1) if step is None else step
    if step and step not in steps:
        raise UsageError(f"the run has no step {step}: its last one is {final}")
    if step >= final and decided:
        raise UsageError(f"step {step} is the run's last, which ended it: fork it from step 0 to {max(0, final - 1)}")
    return list(takewhile(lambda one: (_read_step(one.event) or 0) <= step, kept))


def _edit_observations(kept: list[KeptEvent], log: Sequence[Event], point: ForkPoint) -> list[KeptEvent]:
    """Return the events up to the first question to the model after an edited observation, with the new texts."""
    texts = point.observations
    calls = {event.action.id: event.step for event in log if isinstance(event, Called | Paused)}
    calls = {call: step for call, step in calls.items() if not call.startswith(_CONSULTED)}
    for call in texts:
        if call not in calls:
            raise UsageError(f"the run has no call {call[:80]!r}{_name_calls(calls)}")
        if "/" in call:
            raise UsageError(f"the call {call} is of a member's run: fork that run")

    def find_place(call: str) -> int:
        """Return where a call was observed; else, where it was last told of."""
        places = [(isinstance(one.event, Observed), at) for at, one in enumerate(kept) if call_of(one.event) == call]
        return max(places, default=(False, -1))[1]

    first = min(texts, key=find_place)
    begins, step = find_place(first), calls[first]
    if point.step is not None and point.step != step:
        raise UsageError(f"the call {first} is of step {step}: to edit what it brought, fork the run from that step")
    later = (at for at, one in enumerate(kept) if at > begins and isinstance(one.event, Asked))
    kept = kept[: next(later, len(kept))]
    there = {call_of(one.event) for one in kept}
    for call in texts:
        if call not in there:
            anew = "what comes after an edited call is decided anew"
            raise UsageError(f"the call {call} comes after {first}, and {anew}")
    observed = {call_of(one.event) for one in kept if isinstance(one.event, Observed)}
    return [
        *(KeptEvent(at, _edit(event, texts)) for at, event in kept if not isinstance(event, ENDINGS)),
        *(
            KeptEvent(None, Observed(calls[call], Observation(call, texts[call])))
            for call in texts
            if call not in observed
        ),
    ]


def _edit(event: Event, texts: Mapping[str, str]) -> Event:
    if not isinstance(event, Observed) or event.observation.call_id not in texts:
        return event
    text = texts[event.observation.call_id]
    return replace(event, observation=replace(event.observation, text=text, outcome="result", note="", stale=False))


def _drop_open_questions(kept: Sequence[KeptEvent]) -> list[KeptEvent]:
    """Return the events without the questions to a person about calls of which no outcome is kept."""
    closed = {call_of(one.event) for one in kept if isinstance(one.event, Observed)}
    resumed = {call_of(one.event) for one in kept if isinstance(one.event, Resumed)}
    closed |= {call for call in resumed if call.startswith(_CONSULTED)}  # a strategy's question has no outcome
    return [one for one in kept if not isinstance(one.event, Paused | Resumed) or call_of(one.event) in closed]


def _read_step(event: Event) -> int | None:
    return getattr(event, "step", None)


def _name_calls(known: Iterable[str]) -> str:
    calls = [one for one in known if "/" not in one]
    more = f" and {len(calls) - _MOST_NAMED} more" if len(calls) > _MOST_NAMED else ""
    return f"; its calls are {', '.join(calls[:_MOST_NAMED])}{more}" if calls else ": it called nothing"
