"""`careful`: the question is split into facts to find and steps to compute; each fact is copied from a passage.

For small models. Every reply is short and held to a pattern: the plan, whose steps are of few kinds, and answers that
can only be words, numbers or dates that the passage has, or "not stated". (Least-to-most prompting, Zhou et al. 2023;
decomposed prompting, Khot et al. 2023.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core.protocols import Flow, Task, act
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message
from .facts.descriptions import describe_request, find_listed_names
from .facts.fact_finder import FOUND, NOT_STATED, YES_OR_NO, FactFinder, find_asked_kind
from .facts.quantities import Unreadable, separate_terms
from .facts.question_plan import (
    BETWEEN,
    QuestionStep,
    calculate_step,
    fill_expression,
    fill_references,
    is_list,
    plan_count,
    plan_question,
    split_list,
)
from .facts.sub_prompts import NarrowRun, build_choice_constraint, fill_sub_prompt, may_look_up
from .prompting.constraints import answer_shape
from .react import React
from .wrappers.wrapper import Part

_REPLY_TOKENS = 256
_LONGEST = 2_000  # characters of a question: a longer one is a text, which the rules do not fit
_COUNTS = "how many "
_EACH = 8  # of which the same fact is looked up


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
        if task.scripted or len(finders) != 1 or not may_look_up(finders[0]) or len(task.question) > _LONGEST:
            return React()(task)
        sums = next((tool for tool in task.tools if tool.name.casefold() == wanted), None)
        return _Run(self, task, finders[0], sums).flow()


class _Run(NarrowRun):
    """The state of one run: what steps found (`values`), and the facts as sentences."""

    def __init__(self, by: Careful, task: Task, finder: Tool, sums: Tool | None) -> None:
        super().__init__(answer_shape(by.answer_chars), _REPLY_TOKENS, NOT_STATED)
        self._task, self._sums = task, sums
        self._is_missing = False
        self._facts = FactFinder(self, finder.name, task.question)

    def find_answer(self) -> Flow:
        """Answer one question after the other, each with names for what it refers to in those before it."""
        *earlier, last = _split_questions(self._task.question)
        task = self._task
        for question in earlier:
            finish = yield from self._answer_one(question, task)
            said = (Message("user", question), Message("assistant", finish.output))
            task = replace(task, history=(*task.history, *said))
        return (yield from self._answer_one(last, task))

    def _answer_one(self, question: str, task: Task) -> Flow:
        terms = separate_terms((yield from self.name_references(question, task)))
        question, self._facts.units = terms.question, terms.units
        steps = yield from plan_question(self, question)
        finish = yield from self._do_steps(question, steps)
        if self._is_missing:
            finish = (yield from self._answer_otherwise(question, steps)) or finish
        return replace(finish, return_values={"output": terms.round_value(finish.output)})

    def _answer_otherwise(self, question: str, steps: Sequence[QuestionStep]) -> Part[AgentFinish | None]:
        """Choose one of two, or count what no passage gives the number of."""
        options = find_listed_names(question)
        if options and find_asked_kind(question) == "words":
            value = yield from self._facts.choose(question, describe_request(question, options))
            return self.finish(value) if value != NOT_STATED else None
        if len(steps) == 1 and question.casefold().startswith(_COUNTS):
            steps = yield from plan_count(self, question)
            finish = (yield from self._do_steps(question, steps)) if steps else None
            return finish if finish and finish.output != "1" else None  # one thing is no list
        return None

    def _do_steps(self, question: str, steps: Sequence[QuestionStep]) -> Flow:
        """Do the steps; return the last one's result, or that something was not found."""
        values: list[str] = []
        self._is_missing = False
        for at, step in enumerate(steps, 1):
            try:
                value = yield from self._do_step(step, values, listed=is_list(at, steps))
            except Unreadable as error:
                value = yield from self._judge(question)
                return self.finish(value, str(error))
            if NOT_STATED in value:
                self._is_missing = True
                asked = fill_references(step.text, values)
                return self.finish(f"The answer is {NOT_STATED}: nothing was found on: {asked}")
            values.append(value)
        return self.finish(values[-1])

    def _do_step(self, step: QuestionStep, values: list[str], *, listed: bool) -> Part[str]:
        match step.kind:
            case "each" if step.uses:
                used, found = step.uses[0], []
                for part in split_list(values[used - 1])[:_EACH]:
                    each = [*values[: used - 1], part, *values[used:]]
                    found.append((yield from self._facts.find(fill_references(step.text, each))))
                return BETWEEN.join(found)
            case "find" | "each":
                return (yield from self._facts.find(fill_references(step.text, values), listed=listed))
            case "judge":
                return (yield from self._judge(fill_references(step.text, values)))
            case "compute":
                expression = fill_expression(step.text, values)
                if self._sums is None:
                    raise Unreadable("there is no tool that calculates")
                (seen,) = yield from act(AgentAction(self._sums.name, expression))
                if seen.outcome not in FOUND:
                    raise Unreadable(seen.text)
                return seen.text.strip()
        return calculate_step(step, values)

    def _judge(self, question: str) -> Part[str]:
        options = describe_request(question, find_listed_names(question)) if " or " in question else []
        shape = self._answer_shape
        if find_asked_kind(question) == "truth":
            shape = YES_OR_NO
        elif options:
            shape = build_choice_constraint("answer", options)
        return (yield from self.say(self._judge_prompt(question), question, shape))

    def write_closing_prompt(self, news: str) -> str:
        """Return the prompt that asks for a judgement of the question from the facts that are known."""
        return self._judge_prompt(self._task.question)

    def _judge_prompt(self, question: str) -> str:
        facts = "\n".join(f"{asked} {value}" for asked, value in self._facts.known.items()) or "(nothing was found)"
        return fill_sub_prompt("judge", facts=facts, question=question)

    def finish(self, value: str, log: str = "") -> AgentFinish:
        """Return the run's result, with names for what the question describes."""
        for described, name in self._facts.names.items():
            value = value.replace(described, name)
        return super().finish(value, log)


def _split_questions(text: str) -> list[str]:
    """Return the questions of a text, each with the sentences before it, and the last one with those after it."""
    *parts, rest = re.split(r"(?<=\?)\s+(?=[A-Z])", text.strip())
    if parts and "?" not in rest:
        rest = f"{parts.pop()} {rest}"
    return [*parts, rest]
