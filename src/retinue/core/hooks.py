"""Hooks: functions that look at what a run is about to do, and may change it, block it, or ask a person.

A hook is called with an event and the run's context, and returns a verdict: `None` lets the event pass, `Change` puts
another in its place, `Block` refuses it, and `AskPerson` leaves it to a person. Several are called in order: each sees
what those before it changed, and the first that blocks or asks is the last.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from .._internal.containment import TimedOut, await_isolated, call_contained, describe_error
from .._internal.message_text import suggest_name
from .._internal.redaction import redact
from ..errors import UsageError
from .events import Asked, Called, Finished, Judged, Observed, Point, Replied, Started, Stopped, call_of
from .run_context import RunContext, ToolCall, run_context
from .values import UNUSED, AgentAction, Observation, Reply

logger = logging.getLogger(__name__)
Judgeable: TypeAlias = Started | Asked | Replied | Called | Observed | Finished | Stopped
POINTS: tuple[Point, ...] = get_args(Point)
SECONDS = 60.0  # that an async hook may take


@dataclass(frozen=True, slots=True)
class Change:
    """The verdict that `event` takes the place of the one judged. It is of the same kind, and about the same."""

    event: Judgeable
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """The verdict that this may not be, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class AskPerson:
    """The verdict that a person has to decide, with the reason."""

    reason: str


Verdict: TypeAlias = Change | Block | AskPerson | None
Judge: TypeAlias = Callable[[Any, RunContext[Any]], Verdict | Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that judges what is at a point of a run.

    The points, and what is judged there: `before_run` `Started` · `before_model` `Asked` · `after_model` `Replied` ·
    `before_tool` `Called` · `after_tool` `Observed` · `before_answer` `Finished` · `after_run` `Finished` or `Stopped`,
    whose verdict counts for nothing.

    Args:
        point: Where it is called.
        function: Is called with the event and the context. If it is not async, it runs where the run does, and must not
            wait for anything.
        name: What the log calls it; by default the function's name.
        on_error: What it means if the function raises, takes too long, or returns no verdict: `block` or `pass`.
        seconds: How long an async function may take.
        replays: Whether a replay calls it, too. One that asks a model or counts something should not be.
    """

    point: Point
    function: Judge
    name: str = ""
    on_error: Literal["block", "pass"] = "block"
    seconds: float = SECONDS
    replays: bool = True
    source: Any = field(default=None, repr=False, compare=False)  # the object that brought it

    def __post_init__(self) -> None:
        if self.point not in POINTS:
            raise UsageError(f"no point {self.point!r} for hooks; {suggest_name(str(self.point), POINTS)}")
        if not callable(self.function):
            raise UsageError(f"a hook is a function of an event and a context, not {self.function!r:.80}")
        if self.on_error not in ("block", "pass"):
            raise UsageError(f"on_error of a hook is 'block' or 'pass', not {self.on_error!r:.80}")
        if not self.name:
            named = getattr(self.function, "__name__", None) or type(self.function).__name__
            object.__setattr__(self, "name", str(named))

    def __call__(self, event: Any, context: RunContext[Any]) -> Verdict | Awaitable[Verdict]:
        """Call the function."""
        return self.function(event, context)


def hook(
    point: Point,
    *,
    name: str = "",
    on_error: Literal["block", "pass"] = "block",
    seconds: float = SECONDS,
    replays: bool = True,
) -> Callable[[Judge], Hook]:
    """Make a function a `Hook`: `@hook("before_tool")`. The options are those of `Hook`."""
    return lambda function: Hook(point, function, name, on_error, seconds, replays)


def list_hooks(given: Iterable[Any]) -> tuple[Hook, ...]:
    """Return the hooks among `given`, and those of objects with a method `hooks`. Raises `UsageError`."""
    wanted = "want a list of hooks, such as [my_hook] with @hook('before_tool') above its function"
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"hooks: {wanted}, not {given!r:.80}")
    found: list[Hook] = []
    for at, one in enumerate(given):
        several = getattr(one, "hooks", None)
        if isinstance(one, Hook):
            found.append(one)
        elif callable(several) and not inspect.isclass(one):
            found += [replace(each, source=each.source or one) for each in list_hooks(several())]
        else:
            raise UsageError(f"hooks[{at}]: {wanted}, not {one!r:.80}")
    return tuple(found)


# ── what hooks say of an event ───────────────────────────────────────────────────────────────────

_MAY_CHANGE: Mapping[type, tuple[str, ...]] = {
    Started: ("question", "history", "instructions", "files"),
    Asked: ("messages",),
    Reply: ("text", "calls", "reasoning", "state"),
    AgentAction: ("tool_input",),
    Observation: ("text", "note", "files", "direct"),
    Finished: ("answer", "return_values"),
}
_PARTS: Mapping[type, str] = {Replied: "reply", Called: "action", Observed: "observation"}
_TEXTS = ("question", "text", "note", "answer")


class Judgement(NamedTuple):
    """What hooks say: the event as they changed it, and their verdicts, without those that let it pass."""

    event: Any
    verdicts: tuple[Judged, ...] = ()

    @property
    def end(self) -> Judged | None:
        """The verdict that ended the chain, if it was blocked or a person is asked."""
        return self.verdicts[-1] if self.verdicts and self.verdicts[-1].verdict in ("block", "ask") else None


def group_hooks(hooks: Iterable[Hook]) -> dict[Point, tuple[Hook, ...]]:
    """Return the hooks by their points, in order."""
    found: dict[Point, tuple[Hook, ...]] = {}
    for one in hooks:
        found[one.point] = (*found.get(one.point, ()), one)
    return found


async def run_hooks(hooks: Sequence[Hook], event: Judgeable, step: int, context: RunContext[Any]) -> Judgement:
    """Call `hooks`, all of one point, and return what they say of `event`. One that fails blocks it, unless it says
    otherwise. What a hook used of models is told with its verdict, also if it lets the event pass."""
    verdicts: list[Judged] = []
    for one in hooks:
        call: ToolCall | None = None
        try:
            verdict: Any = call_contained(one.function, event, context)
            if verdict is None:
                continue
            if inspect.isawaitable(verdict):
                call = ToolCall("", one.name)
                with run_context(replace(context, call=call)):
                    verdict = await await_isolated(verdict, one.seconds)
            kind, why = _read_verdict(event, verdict)
            event = _complete_change(event, verdict.event) if kind == "change" else event
        except Exception as error:
            said = f"it took longer than {one.seconds:g} s" if isinstance(error, TimedOut) else describe_error(error)
            logger.warning("the hook %s (%s) failed: %s", one.name, one.point, redact(said), exc_info=error)
            kind, why = ("pass", "") if one.on_error == "pass" else ("block", f"the hook {one.name} failed: {said}")
        used = UNUSED if call is None else call.usage
        if kind == "pass" and not used:
            continue
        about = None if kind != "ask" or isinstance(event, Stopped) else event
        verdicts.append(Judged(step, one.point, one.name, kind, redact(why), call_of(event), about, used))
        if kind in ("block", "ask"):
            break
    return Judgement(event, tuple(verdicts))


def _read_verdict(event: Judgeable, verdict: Any) -> tuple[Literal["pass", "change", "block", "ask"], str]:
    """Return the kind of a verdict and its reason. Raises `UsageError` for what is none."""
    match verdict:
        case None:
            return "pass", ""
        case Change(event=changed, reason=reason):
            if flaw := _find_flaw(event, changed):
                raise UsageError(flaw)
            return "change", str(reason)
        case Block(reason=reason):
            return "block", str(reason) or "no reason given"
        case AskPerson(reason=reason):
            return "ask", str(reason) or "no reason given"
    raise UsageError(f"it returned {verdict!r:.80}; want None, Change(event), Block(reason) or AskPerson(reason)")


def _find_flaw(before: Any, after: Any) -> str:
    """Return what a hook must not have changed, or an empty string."""
    if type(after) is not type(before):
        return f"it changed a {type(before).__name__} into a {type(after).__name__}"
    if (part := _PARTS.get(type(before))) is not None:
        former, changed = getattr(before, part), getattr(after, part)
        other = replace(after, **{part: former}) != before
        return f"it may change only the {part}" if other else _find_flaw(former, changed)
    names = _MAY_CHANGE.get(type(before), ())
    if replace(after, **{name: getattr(before, name) for name in names}) != before:
        return f"of a {type(before).__name__} it may change only {', '.join(names) or 'nothing'}"
    if wrong := [name for name in _TEXTS if name in names and not isinstance(getattr(after, name), str)]:
        return f"{wrong[0]} is no text any more"
    if isinstance(before, Asked):
        heads = [[(one.role, one.call_id) for one in asked.messages] for asked in (before, after)]
        return "" if heads[0] == heads[1] else "it may change messages, but not their number, order or roles"
    return "it took the question away" if isinstance(after, Started) and not after.question.strip() else ""


def _complete_change(before: Any, after: Any) -> Any:
    """Return a changed event, in which what follows from the change is changed, too. Raises `ValueError` if an answer
    with a schema is no JSON any more."""
    if isinstance(after, Replied):  # a vendor's own record of the reply has it as it was
        return replace(after, reply=replace(after.reply, state=None))
    if isinstance(after, Finished) and after.answer != before.answer:
        values = {**after.return_values, "output": after.answer}
        if "answer" in values and values["answer"] == before.return_values.get("answer"):
            values["answer"] = json.loads(after.answer)
        return replace(after, return_values=values)
    return after


# ── what a person is shown, and may edit ─────────────────────────────────────────────────────────


def show_content(event: Judgeable) -> dict[str, Any]:
    """Return what an event says, by names under which a person may edit it."""
    if isinstance(event, Asked):  # the system message is the operator's
        return {"messages": [one.content for one in event.messages if one.role != "system"]}
    part = getattr(event, _PARTS.get(type(event), ""), event)
    shown = {name: getattr(part, name) for name in _MAY_CHANGE.get(type(part), ())[:1]}
    if isinstance(part, Reply) and part.calls:
        shown["calls"] = [{"tool": one.tool, "tool_input": one.tool_input} for one in part.calls]
    return shown


def edit_content(event: Any, given: Any) -> Any:
    """Return `event` with what a person wrote in place of its content. Raises `UsageError` if it does not fit."""
    shown = show_content(event)
    name = next(iter(shown))
    said = given if isinstance(given, str) else given.get(name)
    if isinstance(event, Asked):
        number = len(shown["messages"])
        if not isinstance(said, list) or [*map(type, said)] != [str] * number:
            raise UsageError(f"an edit has {number} texts under 'messages'")
        texts = iter(said)
        edited = [one if one.role == "system" else replace(one, content=next(texts)) for one in event.messages]
        return replace(event, messages=tuple(edited))
    if not isinstance(said, str):
        raise UsageError(f"an edit has a text under {name!r}")
    part = _PARTS.get(type(event))
    edit = {name: said} if part is None else {part: replace(getattr(event, part), **{name: said})}
    changed = replace(event, **edit)
    if flaw := _find_flaw(event, changed):
        raise UsageError(flaw)
    return _complete_change(event, changed)
