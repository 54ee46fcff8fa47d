"""The shared loop of all step-by-step strategies: ask, parse, act, and ask again.

They differ in their `TranscriptFormat`: the wording of a run and the parsing of replies. They share an append-only
prompt, concurrent actions, and the handling of unreadable replies. Such a reply is followed by the problem and the
expected form, at most twice in a row. Then the model is asked once more, as briefly as possible and without the
unreadable turns. If that fails, the run ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task, act, ask
from ..core.values import CUT_SHORT, AgentAction, AgentFinish, Message, Observation, ProviderState, Reply, StopReason
from .parsing.actions import CUT_OFF, UnreadableReply, finish_with
from .parsing.final_answer import mark_truncated, read_prose
from .prompting.injection_guard import neutralize

TRIES = 2  # consecutive unreadable replies that are followed by the expected form


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """A turn of the conversation: the model's `reply` as kept in the prompt, and the messages `told` to it next.

    `news` is what is new in these, without the format's wording. The opening turn has no reply.
    """

    told: tuple[Message, ...]
    news: str
    reply: Message | None = None

    @property
    def text(self) -> str:
        """Everything that the turn adds, as one text."""
        return "".join(message.content for message in self.told)


class ParsedReply(NamedTuple):
    """A parsed reply; `decision` is `None` if the model wants to answer and is asked for the answer alone.

    `text` is the part of the reply kept in the prompt (the rest was made up), `best` the best answer so far, and
    `state` what the vendor wants back with native calls.
    """

    decision: Decided | None
    text: str = ""
    best: str = ""
    state: ProviderState | None = None


class TranscriptFormat(ABC):
    """The wording of one run of `task`. It has slots, since each run that waits has one."""

    __slots__ = ("_task",)
    HAS_PROSE: ClassVar[bool] = False

    def __init__(self, task: Task) -> None:
        self._task = task

    @property
    def expected(self) -> str:
        """The form of a reply, which is told after an unreadable one."""
        return ""

    def write_question(self) -> str:
        """Return the beginning of the prompt: the instructions and the question."""
        return self._task.question

    def format_question(self) -> PromptTurn:
        """Return the turn that opens the conversation."""
        return PromptTurn((Message("user", self.write_question()),), self._task.question)

    @abstractmethod
    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        """Return the request for the next step, with a prompt that extends `before` by the turn's text."""

    @abstractmethod
    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        """Return the request for the answer alone."""

    @abstractmethod
    def read_step(self, reply: Reply) -> ParsedReply:
        """Parse the decision in a reply. Raises `UnreadableReply`, and nothing else."""

    def read_prose(self, reply: Reply) -> str:
        """Return the text of an unreadable reply that can only be meant as the answer, or an empty one: always with
        constrained decoding, and in a format that is no text of its own."""
        return read_prose(reply, self._task.tools) if self.HAS_PROSE and not self._task.constrained else ""

    @abstractmethod
    def read_answer(self, reply: Reply) -> AgentFinish:
        """Parse the answer in a reply to `ask_answer`; without output if there is none."""

    @abstractmethod
    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        """Return the turn after a step: the reply and its observations."""

    @abstractmethod
    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        """Return the turn after an unreadable reply: the problem and the expected form."""

    def format_reminder(self, turn: PromptTurn, problem: str) -> PromptTurn:
        """Return `turn`, the last before the unreadable ones, with a short instruction and the exact form."""
        return replace(turn, told=self._remind(turn), news=f"{problem}. {self.expected}")

    def _remind(self, turn: PromptTurn) -> tuple[Message, ...]:
        return (Message("user", f"{turn.text}({self.expected})\n"),)


class LineFormat(TranscriptFormat):
    """A transcript of marked lines that the model continues. `OBSERVATION` marks what it is told, and `FINAL` its
    answer, for which a constrained engine is asked apart."""

    __slots__ = ()
    HAS_PROSE = True
    OBSERVATION: ClassVar[str]
    FINAL: ClassVar[str]

    @abstractmethod
    def parse(self, text: str) -> tuple[Decided, int, str]:
        """Return the decision in a reply, the number of characters that belong to it, and the best answer so far.

        Raises `UnreadableReply`.
        """

    @property
    def _stop(self) -> tuple[str, ...]:
        return () if self._task.constrained else (self.OBSERVATION,)

    @property
    def _reminder(self) -> str:
        """The question again, right before the answer."""
        return f"Question: {self._task.question}\n" if self._task.constrained else ""

    def read_step(self, reply: Reply) -> ParsedReply:
        """Parse the decision in a reply, or the marker with which it announces its answer."""
        announced = reply.text.rstrip()
        if self._task.constrained and announced.endswith(self.FINAL):
            return ParsedReply(None, announced.removesuffix(self.FINAL))
        decision, length, best = self.parse(reply.text)
        if isinstance(decision, AgentFinish):
            return ParsedReply(decision)
        if reply.finish == "length" and length == len(reply.text):
            raise UnreadableReply(CUT_OFF)
        return ParsedReply(decision, reply.text[:length], best)

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        """Return the turn after a step: the reply and its observations, each labeled if there are several."""
        told = [format_observation(one) for one in seen]
        if len(told) > 1:
            told = [f"[{at}] {action.tool} - {told[at - 1]}" for at, action in enumerate(actions, 1)]
        return self._make_turn(read.text, "\n".join(told))

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        """Return the turn after an unreadable reply: the problem and the expected form, as an observation."""
        return self._make_turn(reply.text, f"{problem}. {self.expected}")

    def _make_turn(self, reply: str, news: str) -> PromptTurn:
        said = Message("assistant", reply if reply.endswith("\n") else f"{reply}\n")
        return PromptTurn((Message("user", f"{self.OBSERVATION} {news}\n"),), news, said)


def drive_steps(form: TranscriptFormat, trim: int = -1) -> Flow:
    """Drive a run in the format `form`.

    The first unreadable reply that can only be meant as the answer is followed by the expected form like any other; a
    second one in a row is taken as the answer. `trim` limits how many of the last steps stay in the prompt (-1: all).
    If it drops steps, prompts no longer extend each other, so engines read the whole prompt again at every step.
    """
    talk = _Talk(form, trim)
    problem, unreadable, plain = "", 0, ""
    while True:
        reply = yield from ask(talk.request_step(problem))
        if reply.closing:
            return _read_answer(form, reply, StopReason.MAX_ITERATION_EXCEEDED)
        try:
            read = form.read_step(reply)
        except UnreadableReply as error:
            former, plain = plain, form.read_prose(reply)
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
            answer = yield from ask(talk.request_answer(read.text))
            return _read_answer(form, answer, StopReason.UNREADABLE_REPLY)
        seen = yield from act(*read.decision, answer=read.best)
        talk.add_step(form.format_step(read, read.decision, seen))


def _read_answer(form: TranscriptFormat, reply: Reply, if_empty: StopReason) -> AgentFinish:
    finish = mark_truncated(form.read_answer(reply), reply)
    if finish.output.strip() or finish.reason in CUT_SHORT.values():
        return finish
    return AgentFinish({}, finish.log, if_empty)


class _Talk:
    """The conversation so far, `before` plus `turn`, and its state before the unreadable replies.

    The opening turn is `None`, and made when it is needed: its text is in the prompt, and a run that waits for its
    first reply need not have it twice.
    """

    __slots__ = ("_asked", "_before", "_form", "_good", "_kept", "_trim", "_turn")

    def __init__(self, form: TranscriptFormat, trim: int) -> None:
        self._form, self._trim = form, trim
        self._before: Prompt | None = None
        self._turn: PromptTurn | None = None
        self._kept: list[PromptTurn] = []  # the last steps, if their number in the prompt is limited
        self._good: tuple[Prompt | None, PromptTurn | None, list[PromptTurn]] = (None, None, self._kept)

    def request_step(self, problem: str) -> Ask:
        """Return the next request; its closing asks for the answer alone."""
        before, turn = self._before, self._turn
        request = self._form.ask_step(before, turn or self._form.format_question())
        self._asked = request.prompt

        def ask_closing() -> Ask:
            return self._form.ask_answer(before, turn or self._form.format_question())

        return replace(request, closing=ask_closing, problem=problem)

    def request_answer(self, said: str) -> Ask:
        """Return the request for the answer after a reply that announces one."""
        before = self._asked.add(Message("assistant", said)) if said else self._asked
        return self._form.ask_answer(before, PromptTurn((), (self._turn or self._form.format_question()).news))

    def add_step(self, turn: PromptTurn) -> None:
        """Continue after a step."""
        self._extend(turn)
        self._good = (self._before, self._turn, self._kept)

    def add_problem(self, reply: Reply, problem: str, *, minimal: bool) -> None:
        """Continue after an unreadable reply; if `minimal`, from the last readable one."""
        if minimal:
            self._before, turn, self._kept = self._good
            self._turn = self._form.format_reminder(turn or self._form.format_question(), problem)
        else:
            self._extend(self._form.format_problem(reply, problem))

    def _extend(self, turn: PromptTurn) -> None:
        self._before, self._turn = _add_reply(self._asked, turn), turn
        if self._trim < 0:
            return
        steps = [*self._kept, turn]
        self._kept = steps[max(0, len(steps) - self._trim) :]
        if len(self._kept) < len(steps):  # rebuild the prompt from the opening and the steps that are kept
            self._before = self._turn = None
            for kept in self._kept:
                asked = self._form.ask_step(self._before, self._turn or self._form.format_question()).prompt
                self._before, self._turn = _add_reply(asked, kept), kept


def _add_reply(asked: Prompt, turn: PromptTurn) -> Prompt:
    return asked if turn.reply is None else asked.add(turn.reply)


# ── what forms have in common ────────────────────────────────────────────────────────────────────


def extend(before: Prompt | None, *messages: Message) -> Prompt:
    """Return `before` extended by `messages`, or a new prompt without `before`."""
    return before.add(*messages) if before else Prompt(messages[0]).add(*messages[1:])


def format_observation(seen: Observation) -> str:
    """Format an observation: the tool's output as data, then the executor's note."""
    return f"{neutralize(seen.text)}\n{seen.note}" if seen.note else neutralize(seen.text)
