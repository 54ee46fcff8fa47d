"""What the loop does about verdicts of hooks: it logs them, asks a person, and ends the run where nothing else can
follow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ..budgets import Meter
from ..events import Event, Judged, Paused, Point, Replied, Resumed, Stopped
from ..hooks import Judgement, edit_content, show_content
from ..values import AgentAction, Decision, StopReason

if TYPE_CHECKING:
    from ..protocols import Effects
    from .deadline import Deadline

ASKS = "consult_"  # begins the ids of what a person is asked beside calls
TRIES = 2  # of a model to give another answer in place of one that was blocked


class Halt(Exception):
    """The run ends here."""

    def __init__(self, end: Stopped) -> None:
        super().__init__(end.detail)
        self.end = end


class Judges:
    """Has the events of a run judged, at the `points` where hooks do. `asked` counts what people were asked beside
    calls, and `meter` counts what hooks used."""

    __slots__ = ("_effects", "_meter", "asked", "deadline", "points")

    def __init__(self, effects: Effects, deadline: Deadline, meter: Meter) -> None:
        self._effects = effects
        self._meter = meter
        self.deadline = deadline
        self.points = effects.points
        self.asked = 0

    async def judge(self, point: Point, event: Any, step: int) -> tuple[Any, str]:
        """Return the event as it is now, and why it is blocked; an empty text if it is not. Raises `Halt` if a person
        has not decided."""
        return await self.settle(await self.look(point, event, step))

    async def look(self, point: Point, event: Any, step: int) -> Judgement:
        """Return what hooks say of an event; that they changed it is told."""
        found = await self.deadline.wait(self._effects.judge(point, event, step))
        for one in found.verdicts:
            self._meter.add(one)
            if one is not found.end:
                await self._effects.tell(one)
        return found

    async def settle(self, found: Judgement) -> tuple[Any, str]:
        """Return what `judge` does, of an event that hooks have looked at."""
        if (end := found.end) is None:
            return found.event, ""
        await self._effects.tell(end)
        if end.verdict == "block":
            return found.event, end.reason
        self.asked += 1
        await self.pose(end, call := f"{ASKS}{self.asked}")
        decision = await self.ask_person(end, call)
        if decision is None:
            raise Halt(Stopped(StopReason.AWAITING_HUMAN, describe_waiting(end)))
        return apply_decision(end, decision)

    async def pose(self, verdict: Judged, call: str) -> None:
        """Tell that a person is asked on behalf of a hook, by the id `call`."""
        await self._effects.tell(Paused(verdict.step, *_make_question(verdict, call)))

    async def ask_person(self, verdict: Judged, call: str) -> Decision | None:
        """Return the decision on what was posed."""
        decision = await self.deadline.wait(self._effects.consult(*_make_question(verdict, call)))
        if decision is not None:
            await self._effects.tell(Resumed(verdict.step, call, decision))
        return decision


def _make_question(verdict: Judged, call: str) -> tuple[AgentAction, str]:
    """Return what a person is shown of an event, and why."""
    event: Any = verdict.about
    return AgentAction(verdict.point, show_content(event), id=call), f"{verdict.hook}: {verdict.reason}"


def describe_waiting(verdict: Judged) -> str:
    """Return for what a run waits whose hook asks a person."""
    return f"no person has decided on what the hook {verdict.hook} asks: {verdict.reason}"


def apply_decision(verdict: Judged, decision: Decision) -> tuple[Any, str]:
    """Return the event as a person leaves it, and why it is blocked."""
    said: Any = decision.tool_input if decision.kind == "edit" else decision.message
    try:
        match decision.kind:
            case "edit" if said is not None:
                return edit_content(verdict.about, said), ""
            case "respond" if verdict.point in ("after_model", "after_tool", "before_answer"):
                return edit_content(verdict.about, said), ""
            case "approve" | "edit":
                return verdict.about, ""
    except (UsageError, ValueError) as error:
        return verdict.about, f"a person edited it so that it does not fit: {error}"
    return verdict.about, f"a person refused it{f': {said}' if said else ''}"


def withhold_reply(replied: Replied) -> Replied:
    """Return what the log has of a reply that is blocked: only what it used."""
    return replace(replied, reply=replace(replied.reply, text="", calls=(), reasoning="", state=None))


def drop_unfinished(log: list[Event]) -> list[Event]:
    """Return a log without verdicts at its end, of which nothing followed: they count as not given."""
    while log and isinstance(log[-1], Judged):
        log.pop()
    return log
