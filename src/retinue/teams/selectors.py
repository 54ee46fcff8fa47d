"""Selectors: which of the candidates a conditional edge leads to. A selector is a function of the state, cases of
expressions over its fields, or a model's choice.

Expressions, such as `score >= 8 and not (status in ["open", "new"])`, have a grammar of their own, with nothing to call
and nothing to assign:

    either:     both ("or" both)*
    both:       one ("and" one)*
    one:        "not" one | compared
    compared:   value (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in") value)?
    value:      number | text in quotes | true | false | null | [value, …] | field(.key)* | "(" either ")"
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

from ..core.prompt import Ask, Prompt, write_plain
from ..core.protocols import Request, Sent, ask
from ..core.schema.patterns import Constraint, choice, seq
from ..core.values import Message
from ..errors import UsageError
from .shared_state import Values, as_words

MAX_SHOWN = 4_000  # characters of a field that a choosing model is shown
_TRIES = 2
_REPLY_TOKENS = 64
MAX_LENGTH = 1000
MAX_DEPTH = 30
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d{1,30}(?:\.\d{1,30})?(?![\w.]))|(?P<text>"[^"]*"|'[^']*')"""
    r"""|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(?P<sign>[=!<>]=|[<>()\[\],]))""",
    re.ASCII,
)
_LITERALS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda item, items: items is not None and item in items,  # nothing is in an unset field
    "not in": lambda item, items: items is None or item not in items,
}  # fmt: skip
_HINTS = {"=": "want '=='", "&": "want 'and'", "|": "want 'or'", "!": "want 'not'", '"': "the closing quote is missing",
          "'": "the closing quote is missing"}  # fmt: skip
_Evaluate = Callable[[Mapping[str, Any]], Any]


class ExpressionError(ValueError):
    """An expression cannot be read or evaluated; the message says where or why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression: the names of the `fields` that it reads, and `evaluate`, which returns its value over a state.

    A field that is not set is `null`, and so is a key that is not there. `and` and `or` have the value of what decides
    first, as in Python. `evaluate` raises `ExpressionError` where values cannot be compared.
    """

    fields: tuple[str, ...]
    evaluate: _Evaluate


def parse_expression(text: str) -> Expression:
    """Read an expression. Raises `ExpressionError` with the place of what is wrong."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text):,} characters; the most is {MAX_LENGTH:,}")
    parser = _Parser(text)
    evaluate = parser.read_alternatives(0)
    if parser.token:
        compared = parser.token in _COMPARISONS
        raise parser.make_error("compare two values at a time" if compared else "want 'and', 'or' or the end")
    return Expression(tuple(dict.fromkeys(parser.fields)), evaluate)


def _read_key(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


class _Parser:
    """Reads an expression from left to right, one token ahead. Only texts begin with a quote."""

    def __init__(self, text: str) -> None:
        self.fields: list[str] = []
        self.token = ""  # the next one; empty at the end
        self._text, self._kind, self._begin, self._at = text, "", 0, 0
        self._advance()

    def read_alternatives(self, depth: int) -> _Evaluate:
        return self._read_parts("or", lambda: self._read_parts("and", lambda: self._read_one(depth)))

    def _read_parts(self, word: str, read: Callable[[], _Evaluate]) -> _Evaluate:
        parts = [read()]
        while self._skip(word):
            parts.append(read())

        def decide(values: Mapping[str, Any]) -> Any:
            value: Any = None
            for part in parts:
                value = part(values)
                if bool(value) is (word == "or"):
                    break
            return value

        return decide if len(parts) > 1 else parts[0]

    def _read_one(self, depth: int) -> _Evaluate:
        turned = False
        while self._skip("not"):
            turned = not turned
        found = self._read_comparison(depth)
        return (lambda values: not found(values)) if turned else found

    def _read_comparison(self, depth: int) -> _Evaluate:
        left, sign = self._read_value(depth), self.token
        if self._skip("not"):
            if self.token != "in":
                raise self.make_error("want 'in' after 'not'")
            sign = "not in"
        if sign not in _COMPARISONS:
            return left
        self._advance()
        right = self._read_value(depth)

        def compare(values: Mapping[str, Any]) -> bool:
            one, other = left(values), right(values)
            try:
                return bool(_COMPARISONS[sign](one, other))
            except TypeError:
                raise ExpressionError(f"{one!r:.60} {sign} {other!r:.60} cannot be compared") from None

        return compare

    def _read_value(self, depth: int) -> _Evaluate:
        if depth > MAX_DEPTH:
            raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels")
        if self._skip("("):
            found = self.read_alternatives(depth + 1)
            self._expect(")")
            return found
        if self._skip("["):
            items: list[_Evaluate] = []
            while not self._skip("]"):
                if items:
                    self._expect(",")
                items.append(self.read_alternatives(depth + 1))
            return lambda values: [item(values) for item in items]
        kind, token = self._kind, self.token
        if kind in ("", "sign") or token in ("and", "or", "not", "in"):
            raise self.make_error("want a value: a field, a number, a text in quotes, true, false, null or [")
        self._advance()
        if kind == "name" and token not in _LITERALS:
            path = token.split(".")
            self.fields.append(path[0])
            return lambda values: reduce(_read_key, path, values)
        number = (float if "." in token else int) if kind == "number" else None
        value = number(token) if number else token[1:-1] if kind == "text" else _LITERALS[token]
        return lambda values: value

    def _skip(self, token: str) -> bool:
        """Skip `token` if it is next."""
        if self.token == token:
            self._advance()
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            raise self.make_error(f"want {token!r}")

    def _advance(self) -> None:
        if found := _TOKEN.match(self._text, self._at):
            self._kind = str(found.lastgroup)
            self.token, self._begin, self._at = found[self._kind], found.start(self._kind), found.end()
            return
        rest = self._text[self._at :].lstrip()
        self._begin, self._kind, self.token = len(self._text) - len(rest), "", rest[:1]
        if rest:
            raise self.make_error(_HINTS.get(self.token, "this has no meaning here"))

    def make_error(self, why: str) -> ExpressionError:
        there = repr(self.token) if self.token else "the end"
        return ExpressionError(f"{there} at character {self._begin + 1}: {why}")


# ── selectors ────────────────────────────────────────────────────────────────────────────────────


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
        read: list[Expression] = []
        for text, _ in self.cases:
            try:
                read.append(parse_expression(text))
            except ExpressionError as error:
                raise UsageError(f"the expression {text!r:.100}: {error}") from None
        object.__setattr__(self, "expressions", tuple(read))

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
        reply = yield from ask(Ask(prompt, news, write_plain, (), form, _REPLY_TOKENS, problem=problem, chat=True))
        if found := _read_choice(reply.text, offered):
            return found
        problem = f"{reply.text.strip()[:60]!r} is not one of {', '.join(offered)}."
        prompt = prompt.add(Message("assistant", reply.text), Message("user", f"{problem} Reply with one of them.\n"))
    return ""


@lru_cache(maxsize=256)  # engines know constraints by identity
def _build_constraint(words: tuple[str, ...]) -> Constraint:
    properties = {"choice": {"enum": list(words)}}
    schema = {"type": "object", "properties": properties, "required": ["choice"], "additionalProperties": False}
    return Constraint(seq(choice(*words), "\n"), schema)


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
