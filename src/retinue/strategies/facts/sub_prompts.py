"""The narrow prompts of `careful`, and the replies to them: one field each, of a given pattern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...core.prompt import Ask, Decided, Prompt
from ...core.protocols import Flow, Task, ask
from ...core.schema.patterns import Constraint, Pattern, choice, line, optional, seq
from ...core.tools.tool import Tool
from ...core.values import AgentFinish, Message, Reply
from ..parsing.final_answer import read_visible_answer
from ..prompting.constraints import build_object_schema
from ..prompting.prompt_parts import fill_prompt_part, format_history
from ..wrappers.wrapper import Part


class _Closing(Exception):
    """The budget allows no more than this answer."""


class NarrowRun(ABC):
    """A run whose prompts are narrow: each stands alone, and its reply has a given shape.

    `answer` is the shape of the answer that is asked for when the budget is used up, `nothing` what a scripted model
    replies that wants something else.
    """

    def __init__(self, answer: Constraint, reply_tokens: int, nothing: str = "") -> None:
        self._answer_shape, self._reply_tokens, self._nothing = answer, reply_tokens, nothing

    def flow(self) -> Flow:
        """Answer the question, or if the budget is used up before, with what is known."""
        try:
            return (yield from self.find_answer())
        except _Closing as closing:
            return self.finish(read_visible_answer(str(closing)))

    @abstractmethod
    def find_answer(self) -> Flow:
        """Answer the question."""

    @abstractmethod
    def write_closing_prompt(self, news: str) -> str:
        """Return the prompt that asks for the answer, where `news` is the last that was read."""

    def finish(self, value: str, log: str = "") -> AgentFinish:
        """Return the run's result."""
        return AgentFinish({"output": value}, log)

    def name_references(self, question: str, task: Task) -> Part[str]:
        """Return the question with names for what it refers to in the conversation."""
        if not task.history:
            return question
        text = fill_sub_prompt("standalone", history=format_history(task.history, task.window), question=question)
        return (yield from self.say(text, question, _ALONE, aside=True)) or question

    def say(
        self, text: str, news: str, shape: Constraint, *, aside: bool = False, options: Mapping[str, Any] | None = None
    ) -> Part[str]:
        """Ask for a reply of that shape; return its text. `news` is the part of the prompt that is new."""

        def ask_closing() -> Ask:
            request = self._request(self.write_closing_prompt(news), news, self._answer_shape)
            return replace(request, answer=read_visible_answer)

        request = self._request(text, news, shape)
        reply = yield from ask(replace(request, closing=ask_closing, aside=aside, options=options or {}))
        if reply.closing:
            raise _Closing(reply.text)
        return reply.text.strip()

    def _request(self, text: str, news: str, shape: Constraint) -> Ask:
        def write(decided: Decided) -> Reply:
            return Reply(f" {decided.output if isinstance(decided, AgentFinish) else self._nothing}\n")

        return Ask(Prompt(Message("user", text)), news, write, (), shape, self._reply_tokens)


def may_look_up(tool: Tool) -> bool:
    """Return whether a tool may be one that looks things up: it takes a text, and has no effects."""
    return tool.effects == "read" and tool.signature.text_argument is not None


fill_sub_prompt = partial(fill_prompt_part, "careful")  # the part of that name with values for its places


def build_field_constraint(name: str, pattern: Pattern) -> Constraint:
    """Return the constraint of a reply of that pattern; engines that take a schema instead give the field `name`."""
    return Constraint(pattern, build_object_schema(**{name: {"type": "string"}}))


def build_choice_constraint(name: str, options: Sequence[str]) -> Constraint:
    """Return the constraint of a reply that is one of the options; engines that take a schema give the field `name`."""
    return Constraint(seq(" ", choice(*options), "\n"), build_object_schema(**{name: {"enum": list(options)}}))


_ALONE = build_field_constraint("question", seq(" ", line(300, but="?"), optional(seq("?")), "\n"))
