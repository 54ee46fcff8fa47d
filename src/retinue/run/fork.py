"""Forks of a run: another run begins with the beginning of its log, and goes on differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from ..core.events import (
    ENDINGS,
    Asked,
    Called,
    Event,
    Finished,
    Observed,
    Paused,
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

_CONSULTED = "consult_"  # begins the ids of what a strategy asks a person; there is no outcome of these
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
    """

    step: int | None = None
    observations: Mapping[str, str] = field(default_factory=dict)
    instructions: str | None = None
    rewritten: bool = False


class KeptEvent(NamedTuple):
    """An event of a fork's log, and where it was in the other log; `None` if it was not."""

    place: int | None
    event: Event


def fork(
    agent: Specified,
    log: RunResult | Sequence[Event],
    step: int | None = None,
    *,
    observations: Mapping[str, str] | None = None,
    instructions: str | None = None,
    files: Sequence[FileSource] = (),
) -> Run:
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
        files: Those of the run, since a stored log lacks them.

    Raises `UsageError` if there is no such step or call, or if nothing would be left to decide.
    """
    events = log.events if isinstance(log, RunResult) else tuple(log)
    children = log.children if isinstance(log, RunResult) else {}
    kept = [one.event for one in fork_log(events, ForkPoint(step, observations or {}, instructions))]
    calls = {call_of(event) for event in kept}
    members = {path: log for path, log in children.items() if path.partition("/")[0] in calls}
    started = next(event for event in kept if isinstance(event, Started))
    run = Run(agent, started.question, started.history, Earlier(kept, {}, members))
    run.regardless, run.files = True, tuple(files)
    return run


def fork_log(log: Sequence[Event], point: ForkPoint) -> list[KeptEvent]:
    """Return the log with which a fork begins.

    A person who was asked about a call without an outcome is asked again. Raises `UsageError` if there is no such step
    or call, or if nothing would be left to decide.
    """
    if find_started(log) is None:
        raise UsageError("the run has not begun, so there is nothing to fork")
    kept = [KeptEvent(at, event) for at, event in enumerate(log)]
    last = log[-1]
    if isinstance(last, Stopped) and last.reason in LIMITS:
        kept = kept[: find_closing(log)]
    kept = _edit_observations(kept, log, point) if point.observations else _cut_after_step(kept, log, point.step)
    kept = _drop_open_questions(kept)
    while kept and isinstance(kept[-1].event, Finished | Stopped | Asked | Retried | Said):  # asked again
        kept.pop()
    if point.instructions is not None or point.rewritten:
        kept = [KeptEvent(at, _change_instructions(event, point)) for at, event in kept]
    return kept


def find_last_step(log: Sequence[KeptEvent]) -> int:
    """Return the last step of a fork's log."""
    return max((_read_step(one.event) or 0 for one in log), default=0)


def _cut_after_step(kept: list[KeptEvent], log: Sequence[Event], step: int | None) -> list[KeptEvent]:
    """Return the events up to the end of a step."""
    steps = {number for event in log if (number := _read_step(event)) is not None}
    final = max(steps, default=0)
    if step is None and not _is_decided(log[-1]):
        return kept
    step = max(0, final - 1) if step is None else step
    if step and step not in steps:
        raise UsageError(f"the run has no step {step}: its last one is {final}")
    if step >= final and _is_decided(log[-1]):
        raise UsageError(f"step {step} is the run's last, which ended it: fork it from step 0 to {max(0, final - 1)}")
    return list(takewhile(lambda one: (_read_step(one.event) or 0) <= step, kept))


def _edit_observations(kept: list[KeptEvent], log: Sequence[Event], point: ForkPoint) -> list[KeptEvent]:
    """Return the events up to the first question to the model after an edited observation, with the new texts."""
    calls = {event.action.id: event.step for event in log if isinstance(event, Called | Paused)}
    calls = {call: step for call, step in calls.items() if not call.startswith(_CONSULTED)}
    for call in point.observations:
        if call not in calls:
            raise UsageError(
                f"the run has no call {call[:80]!r}{_name_calls([one for one in calls if '/' not in one])}"
            )
        if "/" in call:
            raise UsageError(f"the call {call} is of a member's run: fork that run")
    first = min(point.observations, key=lambda call: _find_call(kept, call))
    if point.step is not None and point.step != calls[first]:
        raise UsageError(
            f"the call {first} is of step {calls[first]}: to edit what it brought, fork the run from that step"
        )
    begins = _find_call(kept, first)
    later = (at for at, one in enumerate(kept) if at > begins and isinstance(one.event, Asked))
    kept = kept[: next(later, len(kept))]
    there = {call_of(one.event) for one in kept}
    for call in point.observations:
        if call not in there:
            raise UsageError(
                f"the call {call} comes after {first}, and what comes after an edited call is decided anew"
            )
    return _replace_texts(kept, point.observations, calls)


def _replace_texts(kept: Sequence[KeptEvent], texts: Mapping[str, str], calls: Mapping[str, int]) -> list[KeptEvent]:
    found: list[KeptEvent] = []
    for at, event in kept:
        if isinstance(event, Observed) and (text := texts.get(event.observation.call_id)) is not None:
            seen = replace(event.observation, text=text, outcome="result", note="", stale=False)
            found.append(KeptEvent(at, Observed(event.step, seen)))
        elif not isinstance(event, ENDINGS):
            found.append(KeptEvent(at, event))
    there = {call_of(one.event) for one in found if isinstance(one.event, Observed)}
    more = [Observed(calls[call], Observation(call, text)) for call, text in texts.items() if call not in there]
    return [*found, *(KeptEvent(None, event) for event in more)]


def _drop_open_questions(kept: Sequence[KeptEvent]) -> list[KeptEvent]:
    """Return the events without the questions to a person about calls of which no outcome is kept."""
    closed = {call_of(one.event) for one in kept if isinstance(one.event, Observed)}
    closed |= {
        call for one in kept if isinstance(one.event, Resumed) and (call := call_of(one.event))[:8] == _CONSULTED
    }
    return [one for one in kept if not isinstance(one.event, Paused | Resumed) or call_of(one.event) in closed]


def _change_instructions(event: Event, point: ForkPoint) -> Event:
    if not isinstance(event, Started):
        return event
    return replace(event, instructions=None if point.rewritten else point.instructions)


def _find_call(kept: Sequence[KeptEvent], call: str) -> int:
    """Return where a call was observed; else, where it was last told of."""
    places = [(isinstance(one.event, Observed), at) for at, one in enumerate(kept) if call_of(one.event) == call]
    return max(places, default=(False, -1))[1]


def _is_decided(event: Event) -> bool:
    """Whether the run ended by what the agent decided, which would end its fork, too."""
    return isinstance(event, Finished) or (isinstance(event, Stopped) and event.reason not in RESUMABLE)


def _read_step(event: Event) -> int | None:
    return getattr(event, "step", None)


def _name_calls(calls: Sequence[str]) -> str:
    if not calls:
        return ": it called nothing"
    more = f" and {len(calls) - _MOST_NAMED} more" if len(calls) > _MOST_NAMED else ""
    return f"; its calls are {', '.join(calls[:_MOST_NAMED])}{more}"
