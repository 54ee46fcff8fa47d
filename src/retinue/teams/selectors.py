"""Selectors: which of the candidates a conditional edge leads to. A selector is a function of the state, cases of
expressions over its fields, or a model's choice.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Request, Sent, ask
from ..core.schema.patterns import Constraint, choice, seq
from ..core.values import AgentFinish, Message, Reply
from ..errors import UsageError
from .shared_state import Values, as_words
from .state_expression import Expression, ExpressionError, parse_expression

MAX_SHOWN = 4_000  # characters of a field that a choosing model is shown
_TRIES = 2
_REPLY_TOKENS = 64


@dataclass(frozen=True, slots=True)
class When:
    """Expressions in order, each with what it leads to; `otherwise` applies if none is true.

    >>> When([("score >= 8", "END"), ("visits.draft > 3", "END")], otherwise="draft").select_target({"score": 9})
    'END'

    Raises `UsageError` for an expression that cannot be read.
    """

    cases: tuple[tuple[str, str], ...]
    otherwise: str = ""
    expressions: tuple[Expression, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, cases: Iterable[tuple[str, str]], otherwise: str = "") -> None:
        object.__setattr__(self, "cases", tuple((text, to) for text, to in cases))
        object.__setattr__(self, "otherwise", otherwise)
        object.__setattr__(self, "expressions", tuple(_read_expression(text) for text, _ in self.cases))

    def select_target(self, values: Values) -> str:
        """Return what the first true expression leads to. Raises `ExpressionError`."""
        for expression, (_, to) in zip(self.expressions, self.cases, strict=True):
            if expression.evaluate(values):
                return to
        if not self.otherwise:
            raise ExpressionError(f"none of {', '.join(repr(text) for text, _ in self.cases)} is true; add `otherwise`")
        return self.otherwise


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The group's model chooses, and can reply with nothing but a candidate where its engine constrains replies.

    Args:
        question: What it is asked.
        shows: The fields that it is shown, or the only one; by default all that are set.
    """

    question: str = "What is to be done next?"
    shows: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shows", (self.shows,) if isinstance(self.shows, str) else tuple(self.shows))


def find_word(value: Any) -> str:
    """Return a selector's value as the word that its candidates are known by: `True` is `true`."""
    return value if isinstance(value, str) else json.dumps(value)


def ask_for_choice(model: ModelChoice, words: Iterable[str], values: Values) -> Generator[Request, Sent, str]:
    """Ask the model for one of `words`, again if it says something else; return an empty string if it keeps on."""
    offered = tuple(words)
    shown = model.shows or tuple(name for name in values if name not in ("visits", "history"))
    news = "\n\n".join(f"{name}: {as_words(values[name])[:MAX_SHOWN]}" for name in shown if values.get(name))
    asked = f"{news}\n\n{model.question}\nReply with one of these words, and nothing else: {', '.join(offered)}\n"
    form = _build_constraint(offered)
    prompt, problem = Prompt(Message("user", asked)), ""
    for _ in range(_TRIES):
        reply = yield from ask(Ask(prompt, news, write_output, (), form, _REPLY_TOKENS, problem=problem, chat=True))
        if found := _read_choice(reply.text, offered):
            return found
        problem = f"{reply.text.strip()[:60]!r} is not one of {', '.join(offered)}."
        prompt = prompt.add(Message("assistant", reply.text), Message("user", f"{problem} Reply with one of them.\n"))
    return ""


def write_output(decided: Decided) -> Reply:
    """Return the reply that an answer is where there is no format: its text."""
    return Reply(decided.output if isinstance(decided, AgentFinish) else "")


@lru_cache(maxsize=256)  # engines know constraints by identity
def _build_constraint(words: tuple[str, ...]) -> Constraint:
    properties = {"choice": {"enum": list(words)}}
    schema = {"type": "object", "properties": properties, "required": ["choice"], "additionalProperties": False}
    return Constraint(seq(choice(*words), "\n"), schema)


def _read_expression(text: str) -> Expression:
    try:
        return parse_expression(text)
    except ExpressionError as error:
        raise UsageError(f"the expression {text!r:.100}: {error}") from None


def _read_choice(text: str, words: tuple[str, ...]) -> str:
    """Return the word that a reply consists of, or the only one that it mentions."""
    said = text.strip()
    with suppress(ValueError, AttributeError, RecursionError):
        said = str(json.loads(said).get("choice", ""))
    plain = said.strip(" .\"'`*\n").lower()
    if exact := [word for word in words if word.lower() == plain]:
        return exact[0]
    spoken = set("".join(c if c.isalnum() or c == "_" else " " for c in said.lower()).split())
    mentioned = [word for word in words if word.lower() in spoken]
    return mentioned[0] if len(mentioned) == 1 else ""
