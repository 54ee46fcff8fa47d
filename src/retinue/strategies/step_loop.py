"""One way through all strategies that go step by step: ask, read, act, and ask again.

What differs between them is their `TranscriptFormat`: how a run is worded and how a reply is read. What they share:
a prompt that only grows; actions that run side by side; and replies that cannot be read. Such a reply is
followed by what is wrong with it and the expected form, at most twice in a row; then the model is asked
once more without the unreadable turns, in as few words as possible; then the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, act, ask
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply, StopReason
from .parsing.final_answer import CUT, mark_truncated
from .parsing.react_text import NO_TOOL, UnreadableReply
from .prompting.injection_guard import neutralize

TRIES = 2  # unreadable replies in a row that are followed by the expected form


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """One turn of the conversation: the model's `reply` as it stays in the prompt, and what it is `told` next.

    `news` is what is new in that, without the form's wording. The opening turn has no reply.
    """

    told: tuple[Message, ...]
    news: str
    reply: Message | None = None


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What was read out of a reply; `decision` is `None` if the model wants to answer and is asked for just that.

    `text` is what stays of the reply in the prompt (the rest was made up), `best` the best answer so far.
    """

    decision: Decided | None
    text: str = ""
    best: str = ""


def _none(reply: Reply) -> str:
    return ""


class TranscriptFormat(Protocol):
    """How one run of a strategy is worded: made anew for each task."""

    def opening(self) -> PromptTurn:
        """The instructions and the question."""
        ...

    def ask(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        """The request for the next step, in a prompt that extends `before` with what the turn tells."""
        ...

    def closing(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        """The request for nothing but the answer."""
        ...

    def read(self, reply: Reply) -> ParsedReply:
        """The decision in a reply. Raises `UnreadableReply`, and nothing else."""
        ...

    def closed(self, reply: Reply) -> AgentFinish:
        """The answer in a reply to `closing`; without output if there is none."""
        ...

    def observed(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        """The turn after a step: the reply, and what came of its actions."""
        ...

    def unreadable(self, reply: Reply, problem: str) -> PromptTurn:
        """The turn after a reply that could not be read: what is wrong, and the expected form."""
        ...

    def minimal(self, turn: PromptTurn, problem: str) -> PromptTurn:
        """`turn`, the last before the unreadable ones, with a short instruction and the exact form."""
        ...


def step_by_step(form: TranscriptFormat, trim: int = -1, prose: Callable[[Reply], str] = _none) -> Flow:
    """Go through a run in `form`.

    `prose`: the text of a reply that cannot be read, if it can only be meant as the answer. The first such reply is
    followed by the expected form like any other; a second one right after it is taken for the answer.
    `trim`: only so many of the last steps stay in the prompt (-1: all). What was said before is then no
    longer a beginning of what is said next, so engines read the whole prompt anew at every step.
    """
    talk = _Talk(form, trim)
    problem, unreadable, plain = "", 0, ""
    while True:
        request = talk.request(problem)
        reply = yield from ask(request)
        if reply.closing:
            return _or_none(mark_truncated(form.closed(reply), reply))
        try:
            read = form.read(reply)
        except UnreadableReply as error:
            former, plain = plain, prose(reply)
            if former and plain:
                return mark_truncated(finish_with(plain, reply.text), reply)
            problem, unreadable = str(error), unreadable + 1
            if unreadable > TRIES + 1 or reply.finish == "content_filter":
                return mark_truncated(AgentFinish({}, reply.text, StopReason.UNREADABLE_REPLY), reply)
            talk.not_understood(reply, problem, minimal=unreadable > TRIES)
            continue
        problem, unreadable, plain = "", 0, ""
        if isinstance(read.decision, AgentFinish):
            return mark_truncated(read.decision, reply)
        if read.decision is None:
            answer = yield from ask(talk.answer(read))
            return _or_none(mark_truncated(form.closed(answer), answer), StopReason.UNREADABLE_REPLY)
        seen = yield from act(*read.decision, answer=read.best)
        talk.go_on(form.observed(read, read.decision, seen))


def _or_none(finish: AgentFinish, reason: StopReason = StopReason.MAX_ITERATION_EXCEEDED) -> AgentFinish:
    if finish.output.strip() or finish.reason in CUT.values():
        return finish
    return AgentFinish({}, finish.log, reason)


class _Talk:
    """The conversation so far: `before` and then `turn`; and where it stood before the unreadable replies."""

    def __init__(self, form: TranscriptFormat, trim: int) -> None:
        self._form = form
        self._trim = trim
        self._before: Prompt | None = None
        self._turn = self._opening = form.opening()
        self._kept: list[PromptTurn] = []  # the last steps, where only so many stay in the prompt
        self._asked: Prompt | None = None
        self._good: tuple[Prompt | None, PromptTurn, list[PromptTurn]] = (None, self._turn, self._kept)

    def request(self, problem: str) -> Ask:
        """The next request; its closing asks for nothing but the answer."""
        request = self._form.ask(self._before, self._turn)
        self._asked = request.prompt
        closing = partial(self._form.closing, self._before, self._turn)
        return replace(request, closing=closing, problem=problem)

    def answer(self, read: ParsedReply) -> Ask:
        """The request for the answer after a reply that says there is one."""
        assert self._asked is not None
        before = self._asked.add(Message("assistant", read.text)) if read.text else self._asked
        return self._form.closing(before, PromptTurn((), self._turn.news))

    def go_on(self, turn: PromptTurn) -> None:
        """A step was taken."""
        self._extend(turn)
        self._good = (self._before, self._turn, self._kept)

    def not_understood(self, reply: Reply, problem: str, *, minimal: bool) -> None:
        """A reply could not be read."""
        if minimal:
            self._before, turn, self._kept = self._good
            self._turn = self._form.minimal(turn, problem)
        else:
            self._extend(self._form.unreadable(reply, problem))

    def _extend(self, turn: PromptTurn) -> None:
        assert self._asked is not None
        self._before, self._turn = _after(self._asked, turn), turn
        if self._trim < 0:
            return
        steps = [*self._kept, turn]
        self._kept = steps[max(0, len(steps) - self._trim) :]
        if len(self._kept) < len(steps):
            self._rebuild()

    def _rebuild(self) -> None:
        """The opening, then the steps that are kept."""
        self._before, self._turn = None, self._opening
        for turn in self._kept:
            asked = self._form.ask(self._before, self._turn).prompt
            self._before, self._turn = _after(asked, turn), turn


def _after(asked: Prompt, turn: PromptTurn) -> Prompt:
    return asked if turn.reply is None else asked.add(turn.reply)


# ── what forms have in common ────────────────────────────────────────────────────────────────────


def extend(before: Prompt | None, *messages: Message) -> Prompt:
    """`before` with `messages` at its end; a new prompt if there is nothing before."""
    prompt = Prompt(messages[0]) if before is None else before.add(messages[0])
    return prompt.add(*messages[1:])


def turn_text(turn: PromptTurn) -> str:
    """All that a turn tells, as one text."""
    return "".join(message.content for message in turn.told)


def note_observation(seen: Observation) -> str:
    """What came of one action: the tool's words as data, then what the executor itself says."""
    return f"{neutralize(seen.text)}\n{seen.note}" if seen.note else neutralize(seen.text)


def observations(actions: Sequence[AgentAction], seen: Sequence[Observation]) -> str:
    """What came of the actions of one step, each labelled where there are several."""
    if len(seen) == 1:
        return note_observation(seen[0])
    pairs = enumerate(zip(actions, seen, strict=True), 1)
    return "\n".join(f"[{at}] {action.tool} - {note_observation(one)}" for at, (action, one) in pairs)


def finish_with(text: str, log: str) -> AgentFinish:
    """The answer `text`; the ReAct tutorial's phrase means that no tool fits."""
    none_fits = text.strip(" .\"'\n").lower() == NO_TOOL
    return AgentFinish({"output": text}, log, StopReason.NO_APPROPRIATE_TOOL if none_fits else StopReason.ANSWER)


def end_line(text: str) -> str:
    """`text` with a line break at its end."""
    return text if text.endswith("\n") else f"{text}\n"
