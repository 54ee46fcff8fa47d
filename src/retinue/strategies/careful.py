"""`careful`: the question is split into facts to find and steps to compute; each fact is copied from a passage.

For small models. Every reply is short and held to a pattern: the plan, whose steps are of few kinds, and answers that
can only be words, numbers or dates that the passage has, or "not stated". (Least-to-most prompting, Zhou et al. 2023;
decomposed prompting, Khot et al. 2023.)
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

from ..core.grammar import Constraint, line, seq
from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Request, Sent, Task, act, ask
from ..core.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Reply
from .facts.copied_answers import LONGEST, LONGEST_LIST, NOT_STATED, asks_for, copied_shape, is_of_kind
from .facts.descriptions import described_shape, descriptions, named, names_asked
from .facts.quantities import Unreadable, in_asked_unit
from .facts.question_steps import (
    QuestionStep,
    expression,
    filled,
    is_sound,
    joined,
    parts_of,
    read_steps,
    steps_shape,
    worked_out,
)
from .parsing import final_answer
from .prompting.constraints import answer_shape
from .prompting.injection_guard import neutralize
from .prompting.prompt_parts import prompt_parts
from .prompting.similar_examples import most_like
from .prompting.transcript import history_lines
from .react import React

T = TypeVar("T")
Part = Generator[Request, Sent, T]
_REPLY_TOKENS = 256
_PASSAGES = 3
_PASSAGE_CHARS = 1_000
_QUESTION_CHARS = 300
_RESULTS = ("result", "repeated")
_EACH = 8  # of which the same fact is looked up
_SIMILAR = 2  # examples that are shown once more, right before the question
_DESCRIBED = 4  # descriptions in a question that are looked up
_SAMPLINGS: tuple[Mapping[str, Any], ...] = ({}, {"temperature": 0.7, "seed": 1})  # of plans


@dataclass(frozen=True)
class Careful:
    """The strategy. `calculator` is the name of the tool that computes; the other one looks things up.

    Capital and small letters of the name are the same. `answer_chars` limits the length of an answer that the model
    judges.
    """

    calculator: str = "Calculator"
    answer_chars: int = 120
    name: str = "careful"
    needs_tools: bool = True

    def __call__(self, task: Task) -> Flow:
        """Plan, find, compute and answer."""
        wanted = self.calculator.casefold()
        finders = [tool for tool in task.tools if tool.name.casefold() != wanted]
        if task.scripted or len(finders) != 1 or not _looks_up(finders[0]):
            return React()(task)
        sums = next((tool for tool in task.tools if tool.name.casefold() == wanted), None)
        return _Run(self, task, finders[0], sums).flow()


def _looks_up(tool: Tool) -> bool:
    return tool.effects == "read" and tool.signature.text_argument is not None


class _Closing(Exception):
    """The budget allows no more than this answer."""


class _Run:
    """The state of one run: what steps found (`values`), and the facts as sentences."""

    def __init__(self, by: Careful, task: Task, finder: Tool, sums: Tool | None) -> None:
        self._task, self._finder, self._sums = task, finder, sums
        self._answer_shape = answer_shape(by.answer_chars)
        self._known: dict[str, str] = {}  # what was found, by question
        self._names: dict[str, str] = {}  # by description

    def flow(self) -> Flow:
        try:
            return (yield from self._answered())
        except _Closing as closing:
            return self._finish(final_answer.visible_answer(str(closing)))

    def _answered(self) -> Flow:
        question = yield from self._standalone()
        steps = yield from self._planned(question)
        values: list[str] = []
        for at, step in enumerate(steps, 1):
            listed = any(at in later.uses for later in steps if later.kind in ("each", "count"))
            try:
                value = yield from self._done(step, values, listed=listed)
            except Unreadable as error:
                value = yield from self._judged(question)
                return self._finish(value, str(error))
            if NOT_STATED in value:
                return self._finish(f"The answer is {NOT_STATED}: nothing was found on: {filled(step.text, values)}")
            values.append(value)
        return self._finish(values[-1])

    def _standalone(self) -> Part[str]:
        """Return the question with names for what it refers to in the conversation."""
        if not self._task.history:
            return self._task.question
        history = history_lines(self._task.history)
        text = (
            prompt_parts("careful")["standalone"].substitute(history=history, question=self._task.question).rstrip("\n")
        )
        said = yield from self._said(text, self._task.question, _line_shape(), aside=True)
        return said.strip() or self._task.question

    def _planned(self, question: str) -> Part[tuple[QuestionStep, ...]]:
        """Return the steps of a sound plan; the question itself as the only one if there is none."""
        whole = (QuestionStep("find", question),)
        shape = steps_shape(question)
        if shape is None:
            return whole
        head, *examples = prompt_parts("careful")["plan"].template.strip().split("\n\n")
        asked = "\n\n".join([*most_like(question, examples, _SIMILAR), f"Question: {question}\n"])
        text = "\n\n".join([head, *examples, asked])
        for options in _SAMPLINGS:
            said = yield from self._said(text, asked, shape, options=options, aside=bool(options))
            try:
                steps = read_steps(said)
            except Unreadable:
                continue
            if all(step.kind == "find" for step in steps):
                break
            if is_sound(steps, question):
                return steps
        return whole

    def _done(self, step: QuestionStep, values: list[str], *, listed: bool) -> Part[str]:
        match step.kind:
            case "find":
                return (yield from self._found(filled(step.text, values), listed=listed))
            case "each":
                return (yield from self._found_each(step, values))
            case "compute":
                return (yield from self._computed(expression(step.text, values)))
            case "judge":
                return (yield from self._judged(filled(step.text, values)))
        return worked_out(step, values)

    def _found_each(self, step: QuestionStep, values: list[str]) -> Part[str]:
        if not step.uses:
            return (yield from self._found(step.text))
        used = step.uses[0]
        found = []
        for part in parts_of(values[used - 1])[:_EACH]:
            each = [*values[: used - 1], part, *values[used:]]
            found.append((yield from self._found(filled(step.text, each))))
        return joined(found)

    def _found(self, question: str, kind: str = "", *, listed: bool = False) -> Part[str]:
        """Name what the question describes, search, and read passage by passage until one states the answer."""
        if question in self._known:
            return self._known[question]
        plain = yield from self._resolved(question)
        value = NOT_STATED
        if plain is not None:
            value = yield from self._searched(plain, kind or asks_for(plain), listed=listed)
        self._known[question] = value = in_asked_unit(value, question)
        return value

    def _resolved(self, question: str) -> Part[str | None]:
        """Return the question with names for what it describes; nothing if one of them cannot be found."""
        for _ in range(_DESCRIBED):
            options = descriptions(question)
            if not options:
                break
            text = prompt_parts("careful")["describe"].substitute(question=question).rstrip("\n")
            described = yield from self._said(text, question, described_shape(options), aside=True)
            if described not in options:
                break
            name = yield from self._found(f"What is {described}?", "name")
            if name == NOT_STATED:
                return None
            self._names[described] = name
            question = named(question, described, name)
        return question

    def _searched(self, question: str, kind: str, *, listed: bool) -> Part[str]:
        """Search by the question, and if that finds nothing by its names alone."""
        names = names_asked(question)
        value, read = NOT_STATED, list[str]()
        for query in filter(None, (question, " ".join(names))):
            (seen,) = yield from act(AgentAction(self._finder.name, query))
            found = _to_read(neutralize(seen.text), names) if seen.outcome in _RESULTS else []
            value = yield from self._read(question, [one for one in found if one not in read], kind, listed=listed)
            if value != NOT_STATED:
                break
            read += found
        return value

    def _read(self, question: str, passages: list[str], kind: str, *, listed: bool) -> Part[str]:
        """Read on until a passage has both an answer and the word that says what is asked for."""
        best = NOT_STATED
        for number, passage in enumerate(passages):
            value = yield from self._copied(question, passage, kind, aside=number > 0, listed=listed)
            if value != NOT_STATED and is_of_kind(value, passage, question):
                return value
            best = value if best == NOT_STATED else best
        return best

    def _copied(self, question: str, passage: str, kind: str, *, aside: bool, listed: bool) -> Part[str]:
        """Read a passage; return what it says, or that it is not stated."""
        shape = copied_shape(_titled(passage)[1], question, kind, LONGEST_LIST if listed else LONGEST)
        if shape is None:
            return NOT_STATED
        prompt = prompt_parts("careful")["read"].substitute(passage=passage, question=question).rstrip("\n")
        said = yield from self._said(prompt, passage, shape, aside=aside)
        value = said.partition("\n")[0].strip() or NOT_STATED
        known = [*names_asked(question), *names_asked(self._task.question)]
        return NOT_STATED if value in known else value

    def _computed(self, text: str) -> Part[str]:
        if self._sums is None:
            raise Unreadable("there is no tool that calculates")
        (seen,) = yield from act(AgentAction(self._sums.name, text))
        if seen.outcome not in _RESULTS:
            raise Unreadable(seen.text)
        return seen.text.strip()

    def _judged(self, question: str) -> Part[str]:
        return (yield from self._said(self._judging(question), question, self._answer_shape))

    def _judging(self, question: str) -> str:
        facts = "\n".join(f"{asked} {value}" for asked, value in self._known.items()) or "(nothing was found)"
        return prompt_parts("careful")["judge"].substitute(facts=facts, question=question).rstrip("\n")

    def _said(self, text: str, news: str, shape: Constraint, **more: Any) -> Part[str]:
        """Ask for a reply of that shape; raise `_Closing` with the answer if the budget allows no more."""
        prompt = Prompt(Message("user", text))
        request = Ask(prompt, news, _written, (), shape, _REPLY_TOKENS, closing=partial(self._closing, news), **more)
        reply = yield from ask(request)
        if reply.closing:
            raise _Closing(reply.text)
        return reply.text.strip()

    def _closing(self, news: str) -> Ask:
        prompt = Prompt(Message("user", self._judging(self._task.question)))
        shown = final_answer.visible_answer
        return Ask(prompt, news, _written, (), self._answer_shape, _REPLY_TOKENS, answer=shown)

    def _finish(self, value: str, log: str = "") -> AgentFinish:
        for described, name in self._names.items():
            value = value.replace(described, name)
        return AgentFinish({"output": value}, log)


def _to_read(observation: str, names: list[str]) -> list[str]:
    """Return the passages to read: those whose title is one of the names first, and none that has no name."""
    passages = [line.strip()[:_PASSAGE_CHARS] for line in observation.split("\n") if line.strip()][:_PASSAGES]
    if names:
        passages = [one for one in passages if any(name in one for name in names)]
    return sorted(passages, key=lambda one: _titled(one)[0] not in names)


def _titled(passage: str) -> tuple[str, str]:
    """Return a passage's title, if it has one in brackets, and its text."""
    if passage.startswith("[") and "] " in passage:
        title, _, text = passage[1:].partition("] ")
        return title, text
    return "", passage


def _written(decided: Decided) -> Reply:
    return Reply(f" {decided.output}\n" if isinstance(decided, AgentFinish) else f" {NOT_STATED}\n")


@cache
def _line_shape() -> Constraint:
    pattern = seq(" ", line(_QUESTION_CHARS), "\n")
    return Constraint(pattern, {"type": "object", "properties": {"question": {"type": "string"}}})
