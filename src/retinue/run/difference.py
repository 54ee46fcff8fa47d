"""Where a replayed run first does something else than its log says, in words for a person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import ndiff

from ..core.events import (
    Asked,
    Called,
    Compacted,
    Event,
    Finished,
    Judged,
    Observed,
    Paused,
    Replied,
    Reported,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
)
from ..core.values import AgentAction, Message

MOST = 600  # characters shown of each side
_AROUND = 80  # characters shown before and after those that differ
_LINES = 2  # lines of a diff around one that differs
_NOTHING = "(nothing more)"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a log and its replay.

    Args:
        event: The number of the recorded event; one more than the last event's if the log ends there.
        step: The step that it belongs to.
        recorded: What the log has there, shortened.
        now: What the agent does there by now, shortened.
        of_prompts: Whether the texts are parts of prompts.
    """

    event: int
    step: int
    recorded: str
    now: str
    of_prompts: bool = False

    def __str__(self) -> str:
        return "\n".join([f"event {self.event}, step {self.step}", *self.diff()])

    def diff(self) -> list[str]:
        """Return both sides as the lines of a diff: `-` was recorded, `+` comes now. Of what is alike, it has
        only what is near."""
        compared = ndiff(self.recorded.splitlines(), self.now.splitlines())
        lines = [line.rstrip() for line in compared if not line.startswith("?")]
        changed = [at for at, line in enumerate(lines) if line[:1] in "+-" and line]
        near = [at for at in range(len(lines)) if at == 0 or any(abs(at - one) <= _LINES for one in changed)]
        return [line for at in near for line in (["  …"] * (at > 0 and at - 1 not in near) + [lines[at]])]


def find_difference(event: int, step: int, recorded: Event | None, now: Event) -> Difference:
    """Return the difference between an event and what comes in its place, around the first character that differs."""
    prompts = isinstance(recorded, Asked) or isinstance(now, Asked)
    if isinstance(recorded, Asked) and isinstance(now, Asked):
        alike = _count_alike(recorded.messages, now.messages)
        flags = _format_flags(recorded), _format_flags(now)
        heads = flags if flags[0] != flags[1] else (f", message {alike + 1}",) * 2
        before = _format_request(heads[0], recorded.messages[alike:], _NOTHING)
        after = _format_request(heads[1], now.messages[alike:], _NOTHING)
    else:
        before, after = describe_event(recorded) if recorded is not None else "the end of the log", describe_event(now)
    return Difference(event, step, *cut_excerpts(before, after), prompts)


def describe_event(event: Event) -> str:
    """Return what an event says, in full."""
    match event:
        case Started(question=question):
            return f"begins: {question}"
        case Asked(messages=messages):
            return _format_request(_format_flags(event), messages)
        case Compacted():
            return event.describe()
        case Retried(model=model):
            return f"asks {model or 'the engine again'}, as the last request failed"
        case Said(text=text):
            return f"says: {text}"
        case Replied(reply=reply):
            return f"the model replies: {reply.text}{''.join(f' {_format_call(one)}' for one in reply.calls)}"
        case Finished(answer=answer):
            return f"answers: {answer}"
        case Stopped():  # `detail` may be an engine's own words, with its address
            return f"stops ({event.reason}): {event.answer or event.code or event.detail}".rstrip(": ")
    return _describe_call(event)


def _describe_call(event: Called | Paused | Resumed | Judged | Reported | Observed) -> str:
    match event:
        case Called(action=action):
            return f"calls {_format_call(action)}"
        case Paused(action=action):
            return f"asks a person about {_format_call(action)}"
        case Resumed(call_id=call_id, decision=decision):
            return f"a person decides on {call_id}: {decision.kind}"
        case Reported(text=text):
            return f"reports: {text}"
        case Judged():
            return f"the hook {event.hook} ({event.point}): {event.verdict} {event.reason}".rstrip()
        case Observed(observation=seen):
            return f"observes ({seen.outcome}): {seen.text}"


def _format_request(flags: str, messages: Sequence[Message], none: str = "") -> str:
    lines = [f"asks the model{flags}", *([] if messages else [none])]
    for one in messages:
        lines += [f"[{one.role}] {one.content}", *map(_format_call, one.calls)]
    return "\n".join(lines).rstrip()


def _format_flags(asked: Asked) -> str:
    said = [f"step {asked.step}", f"prompt {asked.prompt}"]
    said += ["closing"] * asked.closing + ["aside"] * asked.aside
    said += [f"since {asked.problem}"] * bool(asked.problem)
    return f" ({', '.join(said)})"


def _format_call(action: AgentAction) -> str:
    given = action.tool_input
    return f"{action.tool}({given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)})"


def _count_alike(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items two sequences begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def cut_excerpts(one: str, other: str) -> tuple[str, str]:
    """Return two texts, of long ones only what is near the characters that differ."""
    if len(one) <= MOST and len(other) <= MOST:
        return one, other
    alike = _count_alike(one, other)
    after = min(_count_alike(one[::-1], other[::-1]), len(one) - alike, len(other) - alike)
    start, left = max(0, alike - _AROUND), max(0, after - _AROUND)

    def cut(text: str) -> str:
        end = min(len(text) - left, start + MOST)
        return f"{'… ' * bool(start)}{text[start:end]}{' …' * (end < len(text))}"

    return cut(one), cut(other)
