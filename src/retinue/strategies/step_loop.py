"""The shared loop of all step-by-step strategies: ask, parse, act, and ask again.

They differ in their `TranscriptFormat`: the wording of a run and the parsing of replies. They share an append-only
prompt, concurrent actions, and the handling of unreadable replies. Such a reply is followed by the problem and the
expected form, at most twice in a row. Then the model is asked once more, as briefly as possible and without the
unreadable turns. If that fails, the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, act, ask
from ..core.values import CUT_SHORT, AgentAction, AgentFinish, Message, Observation, ProviderState, Reply, StopReason
from .parsing.actions import UnreadableReply, finish_with
from .parsing.final_answer import mark_truncated
from .prompting.injection_guard import neutralize

TRIES = 2  # consecutive unreadable replies that are followed by the expected form


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """A turn of the conversation: the model's `reply` as kept in the prompt, and the text `told` to it next.

    `news` is what is new in that text, without the format's wording. The opening turn has no reply.
    """

    told: tuple[Message, ...]
    news: str
    reply: Message | None = None


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply; `decision` is `None` if the model wants to answer and is asked for the answer alone.

    `text` is the part of the reply kept in the prompt (the rest was made up), `best` the best answer so far, and
    `state` what the vendor wants back with native calls.
    """

    decision: Decided | None
    text: str = ""
    best: str = ""
    state: ProviderState | None = None


def _ignore_prose(reply: Reply) -> str:
    return ""


class TranscriptFormat(Protocol):
    """The wording of one run; an instance is created for each task."""

    def format_question(self) -> PromptTurn:
        """Return the instructions and the question."""
        ...

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        """Return the request for the next step, with a prompt that extends `before` by the turn's text."""
        ...

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        """Return the request for the answer alone."""
        ...

    def read_step(self, reply: Reply) -> ParsedReply:
        """Parse the decision in a reply. Raises `UnreadableReply`, and nothing else."""
        ...

    def read_answer(self, reply: Reply) -> AgentFinish:
        """Parse the answer in a reply to `ask_answer`; without output if there is none."""
        ...

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        """Return the turn after a step: the reply and its observations."""
        ...

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        """Return the turn after an unreadable reply: the problem and the expected form."""
        ...

    def format_reminder(self, turn: PromptTurn, problem: str) -> PromptTurn:
        """Return `turn`, the last before the unreadable ones, with a short instruction and the exact form."""
        ...


def drive_steps(form: TranscriptFormat, trim: int = -1, prose: Callable[[Reply], str] = _ignore_prose) -> Flow:
    """Drive a run in the format `form`.

    `prose` returns the text of an unreadable reply that can only be meant as the answer. The first such reply is
    followed by the expected form like any other; a second one in a row is taken as the answer. `trim` limits how many
    of the last steps stay in the prompt (-1: all). If it drops steps, prompts no longer extend each other, so engines
    read the whole prompt again at every step.
    """
    talk = _Talk(form, trim)
    problem, unreadable, plain = "", 0, ""
    while True:
        request = talk.request_step(problem)
        reply = yield from ask(request)
        if reply.closing:
            return _without_empty_answer(mark_truncated(form.read_answer(reply), reply))
        try:
            read = form.read_step(reply)
        except UnreadableReply as error:
            former, plain = plain, prose(reply)
            if former and plain:
                return mark_truncated(finish_with(plain, reply.text), reply)
            problem, unreadable = str(error), unreadable + 1
            if unreadable > TRIES + 1 or reply.finish == "content_filter":
                unread = AgentFinish({"problem": problem}, reply.text, StopReason.UNREADABLE_REPLY)
                return mark_truncated(unread, reply)
            talk.add_problem(reply, problem, minimal=unreadable > TRIES)
            continue
        problem, unreadable, plain = "", 0, ""
        if isinstance(read.decision, AgentFinish):
            return mark_truncated(read.decision, reply)
        if read.decision is None:
            answer = yield from ask(talk.request_answer(read))
            return _without_empty_answer(mark_truncated(form.read_answer(answer), answer), StopReason.UNREADABLE_REPLY)
        seen = yield from act(*read.decision, answer=read.best)
        talk.add_step(form.format_step(read, read.decision, seen))


def _without_empty_answer(finish: AgentFinish, reason: StopReason = StopReason.MAX_ITERATION_EXCEEDED) -> AgentFinish:
    if finish.output.strip() or finish.reason in CUT_SHORT.values():
        return finish
    return AgentFinish({}, finish.log, reason)


class _Talk:
    """The conversation so far, `before` plus `turn`, and its state before the unreadable replies.

    The opening turn is `None`, and made when it is needed: its text is in the prompt, and a run that waits for its
    first reply need not have it twice.
    """

    __slots__ = ("_asked", "_before", "_form", "_good", "_kept", "_trim", "_turn")

    def __init__(self, form: TranscriptFormat, trim: int) -> None:
        self._form = form
        self._trim = trim
        self._before: Prompt | None = None
        self._turn: PromptTurn | None = None
        self._kept: list[PromptTurn] = []  # the last steps, if their number in the prompt is limited
        self._asked: Prompt | None = None
        self._good: tuple[Prompt | None, PromptTurn | None, list[PromptTurn]] = (None, None, self._kept)

    def request_step(self, problem: str) -> Ask:
        """Return the next request; its closing asks for the answer alone."""
        request = self._form.ask_step(self._before, self._find_turn_or_opening(self._turn))
        self._asked = request.prompt
        return replace(request, closing=partial(self._ask_closing, self._before, self._turn), problem=problem)

    def _ask_closing(self, before: Prompt | None, turn: PromptTurn | None) -> Ask:
        return self._form.ask_answer(before, self._find_turn_or_opening(turn))

    def _find_turn_or_opening(self, turn: PromptTurn | None) -> PromptTurn:
        return self._form.format_question() if turn is None else turn

    def request_answer(self, read: ParsedReply) -> Ask:
        """Return the request for the answer after a reply that announces one."""
        assert self._asked is not None
        before = self._asked.add(Message("assistant", read.text)) if read.text else self._asked
        return self._form.ask_answer(before, PromptTurn((), self._find_turn_or_opening(self._turn).news))

    def add_step(self, turn: PromptTurn) -> None:
        """Continue after a step."""
        self._extend(turn)
        self._good = (self._before, self._turn, self._kept)

    def add_problem(self, reply: Reply, problem: str, *, minimal: bool) -> None:
        """Continue after an unreadable reply."""
        if minimal:
            self._before, turn, self._kept = self._good
            self._turn = self._form.format_reminder(self._find_turn_or_opening(turn), problem)
        else:
            self._extend(self._form.format_problem(reply, problem))

    def _extend(self, turn: PromptTurn) -> None:
        assert self._asked is not None
        self._before, self._turn = _add_reply(self._asked, turn), turn
        if self._trim < 0:
            return
        steps = [*self._kept, turn]
        self._kept = steps[max(0, len(steps) - self._trim) :]
        if len(self._kept) < len(steps):
            self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the prompt from the opening and the steps that are kept."""
        self._before, self._turn = None, None
        for turn in self._kept:
            asked = self._form.ask_step(self._before, self._find_turn_or_opening(self._turn)).prompt
            self._before, self._turn = _add_reply(asked, turn), turn


def _add_reply(asked: Prompt, turn: PromptTurn) -> Prompt:
    return asked if turn.reply is None else asked.add(turn.reply)


# ── what forms have in common ────────────────────────────────────────────────────────────────────


def extend(before: Prompt | None, *messages: Message) -> Prompt:
    """Return `before` extended by `messages`, or a new prompt without `before`."""
    prompt = Prompt(messages[0]) if before is None else before.add(messages[0])
    return prompt.add(*messages[1:])


def join_turn_text(turn: PromptTurn) -> str:
    """Return everything that a turn adds, as one text."""
    return "".join(message.content for message in turn.told)


def format_observation(seen: Observation) -> str:
    """Format an observation: the tool's output as data, then the executor's note."""
    return f"{neutralize(seen.text)}\n{seen.note}" if seen.note else neutralize(seen.text)


def format_observations(actions: Sequence[AgentAction], seen: Sequence[Observation]) -> str:
    """Format the observations of a step, each labeled if there are several."""
    if len(seen) == 1:
        return format_observation(seen[0])
    pairs = enumerate(zip(actions, seen, strict=True), 1)
    return "\n".join(f"[{at}] {action.tool} - {format_observation(one)}" for at, (action, one) in pairs)


def end_line(text: str) -> str:
    """Return `text` with a line break at its end."""
    return text if text.endswith("\n") else f"{text}\n"
