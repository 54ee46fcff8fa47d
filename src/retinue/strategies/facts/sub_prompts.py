"""The narrow prompts of `careful`, and the replies to them: one field each, of a given pattern."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ...core.grammar import Constraint, Pattern, choice, line, optional, seq
from ...core.prompt import Ask
from ...core.protocols import Request, Sent, ask
from ...core.tool import Tool
from ...core.values import Message
from ..prompting.constraints import object_schema
from ..prompting.prompt_parts import history_lines, prompt_parts

T = TypeVar("T")
Part = Generator[Request, Sent, T]


class Closing(Exception):
    """The budget allows no more than this answer."""


class Say(Protocol):
    """Asks for a reply of that shape. `news` is the part of the text that is new, `aside`: it is not shown."""

    def __call__(
        self, text: str, news: str, shape: Constraint, *, aside: bool = False, options: Mapping[str, Any] = ...
    ) -> Part[str]:
        """Return the reply's text."""
        ...


def reply_to(request: Ask) -> Part[str]:
    """Return the text of the reply. Raises `Closing` with the answer if the budget allows no more."""
    reply = yield from ask(request)
    if reply.closing:
        raise Closing(reply.text)
    return reply.text.strip()


def looks_up(tool: Tool) -> bool:
    """Return whether a tool may be one that looks things up: it takes a text, and has no effects."""
    return tool.effects == "read" and tool.signature.text_argument is not None


def sub_prompt(part: str, **values: str) -> str:
    """Return the part of the prompt file of that name, with the values that it has places for."""
    return prompt_parts("careful")[part].substitute(values).rstrip("\n")


def one_field(name: str, pattern: Pattern) -> Constraint:
    """Return the constraint of a reply of that pattern; engines that take a schema instead give the field `name`."""
    return Constraint(pattern, object_schema(**{name: {"type": "string"}}))


def one_of(name: str, options: Sequence[str]) -> Constraint:
    """Return the constraint of a reply that is one of the options; engines that take a schema give the field `name`."""
    return Constraint(seq(" ", choice(*options), "\n"), object_schema(**{name: {"enum": list(options)}}))


_ALONE = one_field("question", seq(" ", line(300, but="?"), optional(seq("?")), "\n"))


def standalone(say: Say, question: str, history: Sequence[Message], window: int | None) -> Part[str]:
    """Return the question with names for what it refers to in the conversation. `window` is the model's."""
    if not history:
        return question
    text = sub_prompt("standalone", history=history_lines(history, window), question=question)
    said = yield from say(text, question, _ALONE, aside=True)
    return said.strip() or question
