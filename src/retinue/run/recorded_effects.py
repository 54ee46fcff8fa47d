"""Effects that a log answers. The loop handles a recorded run like any other, and knows nothing of replay.

`RecordedEffects` is the cursor over a log. There are two policies at its end, and where the run differs from it:
`ContinuedRun` goes on with the outside world, and `ComparedRun` (`replay.py`) ends the replay and says what differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple

from ..core.budgets import Budget
from ..core.events import (
    EARLIER,
    Asked,
    Called,
    Compacted,
    Delta,
    Event,
    Finished,
    Judged,
    Observed,
    Paused,
    Point,
    Replied,
    Reported,
    Resumed,
    Retried,
    Said,
    Started,
    Stopped,
    call_of,
)
from ..core.hooks import Judgement
from ..core.loop.effects import LibraryEffects
from ..core.loop.event_stream import tell
from ..core.loop.judging import ASKS
from ..core.prompt import Ask
from ..core.protocols import Chunks, Model, Retry, Summary, SummaryTask
from ..core.run_result import LIMITS
from ..core.run_texts import MOST_KEPT
from ..core.tools.helpers import RunHelpers
from ..core.values import AgentAction, Decision, Message, Observation, StopReason, sum_usages
from ..errors import LogMismatch, WindowExceeded
from .summaries import ask_for_summary, read_summary, without_state, write_request

_ALL = 2**31  # steps
_OfACall = Called | Observed | Paused | Resumed | Judged


class NumberedEvent(NamedTuple):
    """An event with its number in a log."""

    number: int
    event: Event


def number_events(log: Sequence[Event]) -> list[NumberedEvent]:
    """Return the events with their numbers in `log`, from 1."""
    return [NumberedEvent(number, event) for number, event in enumerate(log, 1)]


class PromptNumbers:
    """Numbers the prompts of a log that goes on in other words than it began with. A prompt whose beginning the log has
    in other words is logged as a whole, under a number of its own."""

    def __init__(self) -> None:
        self._logged: defaultdict[int, list[Message]] = defaultdict(list)  # by numbers in the log
        self._sent: defaultdict[int, list[Message]] = defaultdict(list)  # by the loop's numbers
        self._numbers: dict[int, int] = {}  # the loop's in the log
        self._checked: set[int] = set()

    def skip(self, logged: Asked, sent: Asked) -> None:
        """Note a request of the log, and what the loop would have sent."""
        self._logged[logged.prompt] += logged.messages
        self._sent[sent.prompt] += sent.messages
        self._numbers[sent.prompt] = logged.prompt
        self._checked.discard(sent.prompt)

    def find_number(self, prompt: int) -> tuple[int, bool]:
        """Return the number in the log of a prompt of the loop, and whether the log has what it begins with."""
        number = self._numbers.get(prompt)
        if number is not None and (prompt in self._checked or self._logged[number] == self._sent[prompt]):
            return number, True
        return (prompt if prompt not in self._logged else max(self._logged) + 1), False

    def translate(self, asked: Asked) -> Asked:
        """Return a request of the loop as the log should have it."""
        messages = asked.messages
        number, is_there = self.find_number(asked.prompt)
        if not is_there:
            messages = (*self._sent[asked.prompt], *messages)
        self._checked.add(asked.prompt)
        self._numbers[asked.prompt] = number
        self._logged[number] += messages
        self._sent[asked.prompt] += asked.messages
        return replace(asked, prompt=number, messages=messages)


class RecordedEffects:
    """Answers from a log, event by event, until it ends.

    Not repeated are the endings of earlier drives (parked, cancelled, timed out), and the closing question of a run
    that reached a limit: it goes on if the budget is larger now. Requests up to the step `kept` may have had other
    words; so may those of a log in which a former version shortened prompts.
    """

    __slots__ = ("_at", "_kept", "_limit", "_log", "_prompts", "helpers", "points")

    def __init__(self, log: Sequence[NumberedEvent], kept: int, points: Iterable[Point] = ()) -> None:
        self._log = _select_repeated(log)
        judged = [one.event.point for one in self._log if isinstance(one.event, Judged)]
        self.points = frozenset((*points, *judged))
        self.helpers = RunHelpers({})  # none: the log has what became of them
        self._at = 0
        asked = [one.event for one in self._log if isinstance(one.event, Asked)]
        self._kept = max(kept, asked[-1].step) if any(one.shortened for one in asked) else kept
        self._prompts: PromptNumbers | None = None  # once the log has other words
        self._limit: StopReason | None = None  # that the closing questions of the log are about, if it is known

    @property
    def _next(self) -> Event | None:
        """The next event of the log, or `None` at its end."""
        return self._log[self._at].event if self._at < len(self._log) else None

    @property
    def _coming(self) -> Event | None:
        """The next event that is no verdict; what a person was asked about counts as it."""
        for at in range(self._at, len(self._log)):
            event = self._log[at].event
            if not isinstance(event, Judged) or event.about is not None:
                return event.about if isinstance(event, Judged) else event
        return None

    def _read_verdicts(self, point: Point) -> tuple[Judged, ...]:
        """Return the verdicts that come next in the log. Those on the first event are around it."""
        found: list[Judged] = []
        for at in range(self._at, len(self._log)):
            event = self._log[at].event
            if isinstance(event, Judged) and event.point == point:
                found.append(event)
            elif point != "before_run" or not isinstance(event, Started):
                break
        return tuple(found)

    def _skip_verdicts(self) -> bool:
        """Skip the verdicts on the next request, and what people decided on it. Return whether it is in the log."""
        while self._next is not None and not isinstance(self._next, Asked):
            self._at += 1
        return self._next is not None

    def _recall(self, event: Any, verdicts: tuple[Judged, ...]) -> Judgement:
        """Return what hooks said of an event according to the log."""
        last = verdicts[-1] if verdicts else None
        if last is not None and last.about is not None:
            return Judgement(last.about, verdicts)
        coming = self._coming
        if isinstance(event, Asked) and isinstance(coming, Asked) and verdicts:
            return Judgement(replace(event, messages=coming.messages), verdicts)
        return Judgement(coming if isinstance(event, Replied) and isinstance(coming, Replied) else event, verdicts)

    def _skip_request(self, asked: Asked) -> bool:
        """Whether the next event is a request that may have other words than `asked`."""
        recorded = self._next
        if not isinstance(recorded, Asked) or recorded.step > self._kept:
            return False
        self._prompts = self._prompts or PromptNumbers()
        self._prompts.skip(recorded, asked)
        return True

    def _translate(self, event: Asked | Compacted) -> Asked | Compacted:
        """Return an event about a prompt of the loop as the log should have it."""
        if self._prompts is None:
            return event
        if isinstance(event, Asked):
            return self._prompts.translate(event)
        return event if event.prompt == EARLIER else replace(event, prompt=self._prompts.find_number(event.prompt)[0])

    async def ask(self, request: Ask) -> Chunks:
        """Stream the recorded reply. Raises `WindowExceeded` where the log shows that the prompt was shortened and sent
        again."""
        while isinstance(recorded := self._next, Retried):
            request = replace(request, model=recorded.model or request.model)
            yield Retry(recorded.problem, recorded.seconds, recorded.usage, recorded.model)
        match self._coming:
            case Replied(reply=reply):
                yield reply
            case Asked() | Compacted():
                raise WindowExceeded("the prompt was too long")
            case _:
                async with aclosing(self._ask_further(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk

    def _ask_further(self, request: Ask) -> Chunks:
        """Stream a reply that the log does not have."""
        raise NotImplementedError

    async def consult(self, action: AgentAction, problem: str, asker: str = "") -> Decision | None:
        """Return the recorded decision, if there is one."""
        recorded = self._next
        return recorded.decision if isinstance(recorded, Resumed) and recorded.call_id == action.id else None

    def past(self, actions: Iterable[AgentAction]) -> Iterator[Event]:
        """Yield what the log has on the calls of these actions."""
        calls = {action.id for action in actions}
        while isinstance(event := self._next, _OfACall) and call_of(event).removeprefix(ASKS) in calls:
            yield event
            self._at += 1

    def limit(self, nearest: StopReason | None, *, closes: bool) -> StopReason | None:
        """Return the recorded limit, since it may have depended on the clock."""
        recorded = self._coming
        if not isinstance(recorded, Asked):
            return nearest if closes else None
        return (self._limit or nearest or StopReason.MAX_EXECUTION_TIME_EXCEEDED) if recorded.closing else None

    async def compaction(self, prompt: int, make: Callable[[], Awaitable[Compacted | None]]) -> Compacted | None:
        """Return what the log has, since it depended on the engine's token counts, and on a model."""
        recorded = self._next
        if not isinstance(recorded, Compacted) or (recorded.prompt == EARLIER) != (prompt == EARLIER):
            return None
        return replace(recorded, prompt=prompt)

    async def summarize(self, task: SummaryTask) -> Summary:
        """Return nothing: no model is asked."""
        return Summary()

    def result_limit(self, tool: str) -> int:
        """Return that no result is cut."""
        return MOST_KEPT

    @property
    def elapsed(self) -> float:
        """The seconds that models and tools took according to the log."""
        log = [one.event for one in self._log]
        models = sum(event.reply.seconds for event in log if isinstance(event, Replied))
        return models + sum(event.observation.seconds for event in log if isinstance(event, Observed))


class ContinuedRun(RecordedEffects):
    """Goes on with `world` where the log ends. Recorded events are not emitted again; they must be equal.

    With `regardless`, requests are compared by their kind only. The `summarizer` tells long conversations.
    """

    __slots__ = ("_regardless", "_summarizer", "_toolbox", "_world")

    def __init__(
        self, world: LibraryEffects, log: Sequence[Event], *, regardless: bool = False, summarizer: Model | None = None
    ) -> None:
        super().__init__(number_events(log), _ALL if regardless else -1, world.hooks)
        self._world = world
        self._summarizer = summarizer
        self._regardless = regardless
        self._toolbox = world.toolbox
        self.helpers = world.toolbox.helpers

    def call(self, action: AgentAction, share: Callable[[], Budget]) -> Coroutine[Any, Any, Observation]:
        """Run `action`; gives its observation."""
        return self._toolbox.run(action, share)

    async def compaction(self, prompt: int, make: Callable[[], Awaitable[Compacted | None]]) -> Compacted | None:
        """Return what the log has, or at its end what `make` makes."""
        return await make() if self._next is None else await super().compaction(prompt, make)

    async def summarize(self, task: SummaryTask) -> Summary:
        """Have the summarizer summarize what hooks let it see, and them judge what it says."""
        if self._summarizer is None:
            return Summary()
        asked = Asked(task.step, EARLIER, write_request(task), aside=True)
        found = await self._world.judge("before_model", asked, task.step)
        used = sum_usages(one.usage for one in found.verdicts)
        if found.end is not None:
            return Summary(usage=used)
        reply, more = await ask_for_summary(self._summarizer, task, found.event.messages)
        used += more
        if reply is None:
            return Summary(usage=used)
        judged = await self._world.judge("after_model", Replied(task.step, without_state(reply)), task.step)
        used += sum_usages(one.usage for one in judged.verdicts)
        return Summary(usage=used) if judged.end is not None else read_summary(task, judged.event.reply, used)

    def result_limit(self, tool: str) -> int:
        """Return how many characters of the tool's result a model is shown at once."""
        return self._toolbox.limit(tool)

    def must_ask(self, action: AgentAction, *, begun: bool) -> str:
        """Return why a person must approve this action, or an empty string."""
        return self._toolbox.needs_human(action, begun=begun)

    def same(self, one: AgentAction, other: AgentAction) -> bool:
        """Return whether the two are equal calls."""
        return self._toolbox.same(one, other)

    def restore(self, action: AgentAction, observation: Observation | None) -> None:
        """Restore a call begun in an earlier drive."""
        self._toolbox.restore(action, observation)

    def recall(self, action: AgentAction, observation: Observation) -> None:
        """Note an observation, live or recorded."""
        self._toolbox.remember(action, observation)

    async def judge(self, point: Point, event: Any, step: int) -> Judgement:
        """Return what hooks said of an event that the log has, or say now of another. A request that has other words
        than in the log is judged anew, and was let through."""
        if self._next is None or point in ("before_tool", "after_tool", "after_run"):
            return await self._world.judge(point, event, step)
        if point == "before_run":
            return await self._judge_start(event)
        if point == "before_model" and self._regardless and self._skip_verdicts():
            return Judgement((await self._world.judge(point, event, step)).event)
        return self._recall(event, self._read_verdicts(point))

    async def _judge_start(self, event: Started) -> Judgement:
        """Return what hooks say of the first event of the log, in which it is as they changed it."""
        verdicts = self._read_verdicts("before_run")
        if len(self._log) == self._at + len(verdicts) + 1 and isinstance(self._log[-1].event, Started):
            end = (await self._world.judge("before_run", event, 0)).end
            verdicts += () if end is None else (end,)
        asks = [replace(one, about=event) if one.about is not None else one for one in verdicts]
        return Judgement(event, tuple(asks))

    async def tell(self, event: Event | Delta) -> None:
        """Emit `event` unless it is recorded. Raises `LogMismatch` if the log has a different one."""
        recorded = self._next
        if recorded is not None and self._is_recorded(recorded, event):
            self._at += 1
            return
        await tell(self._translate(event) if isinstance(event, Asked | Compacted) else event)

    def _is_recorded(self, recorded: Event, event: Event | Delta) -> bool:
        """Return whether `event` is the `recorded` one. Answers come from the log; requests must be equal."""
        match event:
            case Asked() if self._skip_request(event):
                return True
            case Started() | Asked():
                if recorded != event and not (self._regardless and type(recorded) is type(event)):
                    raise self._make_mismatch(recorded, event)
                return True
            case Retried() | Replied():
                return True
            case Compacted():
                return isinstance(recorded, Compacted)
            case Judged():
                return isinstance(recorded, Judged)
            case Paused() | Resumed():
                return type(recorded) is type(event) and call_of(recorded) == call_of(event)
        return False

    def _ask_further(self, request: Ask) -> Chunks:
        if self._next is not None:
            raise self._make_mismatch(self._next, request)
        return self._world.ask(request)

    def _make_mismatch(self, recorded: Event, event: object) -> LogMismatch:
        return LogMismatch(
            f"the log does not fit this run: its event {self._at} is {recorded!r:.200}, here comes {event!r:.200}"
        )

    async def consult(self, action: AgentAction, problem: str, asker: str = "") -> Decision | None:
        """Return the recorded decision, or else ask a person."""
        return await super().consult(action, problem) or await self._world.consult(action, problem, asker)


def _select_repeated(log: Sequence[NumberedEvent]) -> list[NumberedEvent]:
    """Return the part of `log` that is repeated: not its endings, nor the closing questions of limits."""
    kept: list[NumberedEvent] = []
    for one in log:
        if isinstance(one.event, Stopped) and one.event.reason in LIMITS:
            del kept[find_closing([earlier.event for earlier in kept]) :]
        if isinstance(one.event, Asked) and one.event.shortened and kept and isinstance(kept[-1].event, Asked):
            kept.pop()  # a former version's, which the engine refused
        of_member = "/" in call_of(one.event)  # its own run asks that
        if not (of_member or isinstance(one.event, Said | Reported | Finished | Stopped)):
            kept.append(one)
    return kept


def find_closing(log: Sequence[Event]) -> int:
    """Return where the closing question of `log` is; its end if there is none, or a tool was called later: no call is
    forgotten."""
    for at in reversed(range(len(log))):
        event = log[at]
        if isinstance(event, Called):
            break
        if isinstance(event, Asked) and event.closing:
            return at
    return len(log)
