"""Makes room in a run's prompts, tier by tier, and tells it. On replay, it does what the log says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..budgets import Meter
from ..events import EARLIER, Compacted, Started, Tier
from ..protocols import Effects, Summary, SummaryTask
from ..run_context import current_run
from ..run_texts import digest_history
from ..tools.long_results import READ_RESULT, find_name
from .compaction import (
    Context,
    Window,
    choose_cleared,
    choose_dropped,
    choose_summarized,
    strip_files,
    summarize_in_pieces,
)
from .deadline import Deadline
from .sent_prompts import SentPrompt

_TIERS: tuple[Tier, ...] = ("clear", "summary", "drop")
_LEAST = 64  # tokens of a summary
_SHORT = 0.25  # of the room, of whose half a conversation may take a tier's share: below, none is looked up
_REFUSED = 0.7  # of the size of a prompt that an engine refused: what is taken for the room


class Compactor:
    """Makes room for the prompts of one run. `keeps` are the tools whose last result always counts. `reads_on` says
    whether the model can read results on, and `has_hidden` whether there is one of which it was shown a part."""

    __slots__ = ("_context", "_deadline", "_effects", "_keeps", "_meter", "_users", "has_hidden", "reads_on", "window")

    def __init__(
        self,
        context: Context,
        effects: Effects,
        meter: Meter,
        deadline: Deadline,
        window: Window,
        keeps: Collection[str] = (),
    ) -> None:
        self._context, self._effects, self._meter, self._deadline = context, effects, meter, deadline
        self.window, self._keeps = window, keeps
        self._users: tuple[str, ...] = ()
        self.reads_on, self.has_hidden = True, False

    async def begin(self, started: Started) -> Started:
        """Return the first event with as much of the earlier conversation as the strategy is given: from the last
        summary on, if there is one, or with a new one."""
        history, room = started.history, self.window.room(None)
        self._users = (*(one.content for one in history if one.role == "user"), started.question)
        self.has_hidden = any(one.role == "tool" and find_name(one.content) for one in history)
        if not history:
            return started
        sent = SentPrompt(EARLIER)
        sent.extend(None, history)
        known: list[Compacted] | None = None

        async def recall() -> Compacted | None:
            nonlocal known
            if known is None:
                known = [*await self._find_known(sent, room)]
            known = [one for one in known if not sent.shown.keys() >= {*one.places}]
            return known.pop(0) if known else None

        while (made := await self._effects.compaction(EARLIER, recall)) is not None:
            await self._tell(sent, made)
        await self._make_room(sent, None if room is None else room // 2, 0)
        return replace(started, history=sent.list_sent()) if sent.shown else started

    async def fit(self, sent: SentPrompt, max_tokens: int | None, step: int, *, refused: bool) -> bool:
        """Make room in a prompt for a request with a reply of `max_tokens`, or because the engine `refused` it. Return
        whether less is shown of it now."""
        room = int(_REFUSED * sent.size) if refused else self.window.room(max_tokens)
        return await self._make_room(sent, room, step)

    async def _make_room(self, sent: SentPrompt, room: int | None, step: int) -> bool:
        changed = False
        for tier in _TIERS:
            make = partial(self._make, tier, sent, room, step)
            if (made := await self._effects.compaction(sent.number, make)) is not None:
                await self._tell(sent, made)
                changed = True
        return changed

    async def _tell(self, sent: SentPrompt, made: Compacted) -> None:
        sent.apply(made)
        await self._effects.tell(made)
        self._meter.add(made)
        self.has_hidden |= made.tier == "clear" and any(READ_RESULT.name in text for text in made.texts)

    async def _make(self, tier: Tier, sent: SentPrompt, room: int | None, step: int) -> Compacted | None:
        """Return what a tier does about a prompt that has less `room` than it needs, if it is due."""
        limit = self.window.limit(getattr(self._context, tier), room)
        if limit is None or sent.size <= limit:
            return None
        if tier == "summary":
            return await self._summarize(sent, limit, step)
        if tier == "clear":
            return self._describe(sent, step, tier, choose_cleared(sent, limit, self._keeps, reads_on=self.reads_on))
        return self._describe(sent, step, tier, choose_dropped(sent, limit, self._keeps))

    async def _summarize(self, sent: SentPrompt, limit: int, step: int) -> Compacted | None:
        """Return what becomes of the older turns: they are told in a summary, or dropped if it fails. What stands for
        an earlier conversation is kept for the runs that go on with it."""
        if not (places := choose_summarized(sent, limit, self._keeps)):
            return None
        told = [strip_files(one) for at in places if (one := sent.show(at)) is not None]
        summary = Summary()
        if not self._meter.find_forcing_limit(self._deadline.left):
            tokens = max(_LEAST, self.window.count(limit // 4))
            task = SummaryTask(tuple(told), self._users, sent.pinned, tokens, step)
            work = summarize_in_pieces(self._effects.summarize, task, self.window.room(tokens) or limit)
            summary = await self._deadline.wait(work)
        if not summary.text:
            dropped = {} if self._context.drop is None else choose_dropped(sent, limit, self._keeps)
            made = self._describe(sent, step, "drop", dropped, spent=bool(summary.usage))
            return made and replace(made, usage=summary.usage)
        made = self._describe(sent, step, "summary", {**dict.fromkeys(places, ""), places[-1]: summary.text})
        made = made and replace(made, usage=summary.usage, pinned=summary.pinned)
        if made and sent.number == EARLIER:
            after = replace(sent, shown=dict(sent.shown))
            after.apply(made)
            digest = digest_history(sent.messages[: max(after.shown) + 1])[-1]
            await current_run().kept_texts.keep_summary(digest, after.write_shown())
        return made

    def _describe(
        self, sent: SentPrompt, step: int, tier: Tier, texts: Mapping[int, str], *, spent: bool = False
    ) -> Compacted | None:
        """Return the event in which these texts take the place of messages."""
        if not texts and not spent:
            return None
        places = tuple(sorted(texts))
        after = sent.size - sum(map(sent.measure, places)) + sum(map(len, texts.values()))
        sizes = self.window.count(sent.size), self.window.count(after)
        return Compacted(step, sent.number, tier, places, tuple(texts[at] for at in places), *sizes)

    async def _find_known(self, sent: SentPrompt, room: int | None) -> Sequence[Compacted]:
        """Return what stands for the longest known beginning of a conversation that is no short one."""
        limit = self.window.limit(self._context.summary, room)
        if limit is None or sent.size <= limit * _SHORT:
            return ()
        return await current_run().kept_texts.find_summary(digest_history(sent.messages))
