"""Expressions over the fields of a state, such as `score >= 8 and not (status in ["open", "new"])`.

They have a grammar of their own, with nothing to call and nothing to assign:

    either:     both ("or" both)*
    both:       one ("and" one)*
    one:        "not" one | compared
    compared:   value (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in") value)?
    value:      number | text in quotes | true | false | null | [value, …] | field(.key)* | "(" either ")"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_LENGTH = 1000
MAX_DEPTH = 30
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d{1,30}(?:\.\d{1,30})?(?![\w.]))|(?P<text>"[^"]*"|'[^']*')"""
    r"""|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(?P<sign>[=!<>]=|[<>()\[\],]))""",
    re.ASCII,
)
_LITERALS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_WORDS = ("and", "or", "not", "in")
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda item, items: item in items, "not in": lambda item, items: item not in items,
}  # fmt: skip


class ExpressionError(ValueError):
    """An expression cannot be read or evaluated; the message says where or why."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, `true`, `false` or `null`."""

    value: Any


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field of the state, or what is in it under `keys`; `null` if there is nothing."""

    name: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values and what is asked of them."""

    left: Expression
    sign: str
    right: Expression


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    inner: Expression


@dataclass(frozen=True, slots=True)
class Junction:
    """`and` or `or`; what decides first is the value, as in Python."""

    word: str
    parts: tuple[Expression, ...]


Expression = Literal | FieldValue | Items | Comparison | Not | Junction


def parse_expression(text: str) -> Expression:
    """Return the tree of an expression. Raises `ExpressionError` with the place of what is wrong."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text):,} characters; the most is {MAX_LENGTH:,}")
    parser = _Parser(text)
    found = parser.read_alternatives(0)
    parser.end()
    return found


def list_field_names(expression: Expression) -> Iterator[str]:
    """Yield the names of the fields that an expression reads."""
    match expression:
        case FieldValue(name=name):
            yield name
        case Items(items=parts) | Junction(parts=parts):
            for part in parts:
                yield from list_field_names(part)
        case Comparison(left=left, right=right):
            yield from list_field_names(left)
            yield from list_field_names(right)
        case Not(inner=inner):
            yield from list_field_names(inner)


def evaluate(expression: Expression, values: Mapping[str, Any]) -> Any:
    """Return an expression's value over a state. Raises `ExpressionError` where values cannot be compared."""
    match expression:
        case Literal(value=value):
            return value
        case FieldValue(name=name, keys=keys):
            return _look_up(values.get(name), keys)
        case Items(items=items):
            return [evaluate(item, values) for item in items]
        case Not(inner=inner):
            return not evaluate(inner, values)
        case Junction(word=word, parts=parts):
            return _join_parts(word, parts, values)
        case Comparison(left=left, sign=sign, right=right):
            return _compare_values(evaluate(left, values), sign, evaluate(right, values))


def _look_up(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _join_parts(word: str, parts: tuple[Expression, ...], values: Mapping[str, Any]) -> Any:
    value: Any = None
    for part in parts:
        value = evaluate(part, values)
        if bool(value) is (word == "or"):
            return value
    return value


def _compare_values(left: Any, sign: str, right: Any) -> bool:
    if right is None and sign in ("in", "not in"):
        return sign == "not in"  # nothing is in an unset field
    try:
        return bool(_COMPARISONS[sign](left, right))
    except TypeError:
        raise ExpressionError(f"{left!r:.60} {sign} {right!r:.60} cannot be compared") from None


class _Parser:
    """Reads an expression from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._kind, self._token, self._begin = "", "", 0
        self._advance()

    def end(self) -> None:
        """Raise unless the text is at its end."""
        if self._kind:
            compared = self._token in _COMPARISONS
            raise self._make_error("compare two values at a time" if compared else "want 'and', 'or' or the end")

    def read_alternatives(self, depth: int) -> Expression:
        """Read alternatives."""
        return self._join_parts("or", lambda: self._join_parts("and", lambda: self._read_one(depth)))

    def _join_parts(self, word: str, read: Callable[[], Expression]) -> Expression:
        parts = [read()]
        while self._skip(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _read_one(self, depth: int) -> Expression:
        turned = False
        while self._skip("not"):
            turned = not turned
        found = self._compare_values(depth)
        return Not(found) if turned else found

    def _compare_values(self, depth: int) -> Expression:
        left = self._read_value(depth)
        sign = self._token if self._kind != "text" else ""
        if sign == "not":
            self._advance()
            if self._token != "in" or self._kind == "text":
                raise self._make_error("want 'in' after 'not'")
            sign = "not in"
        if sign not in _COMPARISONS:
            return left
        self._advance()
        return Comparison(left, sign, self._read_value(depth))

    def _read_value(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels")
        kind, token = self._kind, self._token
        if kind == "text":
            self._advance()
            return Literal(token[1:-1])
        if kind == "number":
            self._advance()
            return Literal(float(token) if "." in token else int(token))
        if kind == "name" and token not in _WORDS:
            self._advance()
            name, *keys = token.split(".")
            return Literal(_LITERALS[token]) if token in _LITERALS else FieldValue(name, tuple(keys))
        if self._skip("("):
            found = self.read_alternatives(depth + 1)
            self._expect(")")
            return found
        if self._skip("["):
            return self._read_items(depth + 1)
        raise self._make_error("want a value: a field, a number, a text in quotes, true, false, null or [")

    def _read_items(self, depth: int) -> Expression:
        items: list[Expression] = []
        while not self._skip("]"):
            if items:
                self._expect(",")
            items.append(self.read_alternatives(depth))
        return Items(tuple(items))

    def _skip(self, token: str) -> bool:
        """Skip `token` if it is next."""
        if self._token == token and self._kind != "text":
            self._advance()
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            raise self._make_error(f"want {token!r}")

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            rest = self._text[self._at :]
            self._begin = self._at + len(rest) - len(rest.lstrip())
            self._kind, self._token = "", self._text[self._begin : self._begin + 1]
            if self._token:
                raise self._make_error(_HINTS.get(self._token, "this has no meaning here"))
            return
        self._kind, self._token = found.lastgroup, found[found.lastgroup]
        self._begin, self._at = found.start(found.lastgroup), found.end()

    def _make_error(self, why: str) -> ExpressionError:
        there = repr(self._token) if self._token else "the end"
        return ExpressionError(f"{there} at character {self._begin + 1}: {why}")


_HINTS = {"=": "want '=='", "&": "want 'and'", "|": "want 'or'", "!": "want 'not'", '"': "the closing quote is missing",
          "'": "the closing quote is missing"}  # fmt: skip
