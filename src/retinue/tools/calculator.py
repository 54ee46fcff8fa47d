"""`calculator`: arithmetic as people and models write it. A small grammar; no code is evaluated.

sum      = product (("+" | "-") product)*
product  = signed (("*" | "/" | "//" | "%" | "mod") signed | implicit)*      2(3+4), 2 pi
signed   = ("-" | "+") signed | power
power    = postfix (("^" | "**") signed)?                                    binds to the right
postfix  = atom ("%" | "!")*                                                 50% is 0.5
atom     = number | constant | function "(" sum ("," sum)* ")" | "(" sum ")"
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ..core.tools.tool import ExampleCall, ToolExample, tool
from ..errors import ToolError

MAX_CHARS = 1_000
MAX_DIGITS = 1_000  # of an exact integer result
_MAX_BITS = int(MAX_DIGITS * math.log2(10)) + 1
_MAX_DEPTH = 50

Number = int | float
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "π": math.pi, "e": math.e, "tau": math.tau}


def _compute_root(value: Number) -> Number:
    exact = math.isqrt(value) if isinstance(value, int) and value >= 0 else -1
    return exact if exact >= 0 and exact * exact == value else math.sqrt(value)


def _compute_factorial(value: Number) -> int:
    if value != int(value) or not 0 <= value <= 450:
        raise ToolError(f"a factorial needs a whole number from 0 to 450, not {_format_number(value)}")
    return math.factorial(int(value))


def _round_number(value: Number, digits: int | None = None) -> Number:
    if digits is not None and abs(digits) > MAX_DIGITS:
        raise ToolError(f"round takes at most {MAX_DIGITS:,} digits")
    return round(value, digits)


def _raise_to_power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int):
        if abs(base) > 1 and exponent * math.log2(abs(base)) > _MAX_BITS:
            raise ToolError(f"the result would have more than {MAX_DIGITS:,} digits")
        if exponent < 0:
            return float(base) ** exponent
    value = base**exponent
    if isinstance(value, complex):
        raise ToolError(f"{_format_number(base)} to the power {_format_number(exponent)} is not a real number")
    return _check_size(value)


def _divide(left: Number, right: Number) -> Number:
    exact = isinstance(left, int) and isinstance(right, int) and right and left % right == 0
    return left // right if exact else left / right


_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "sqrt": _compute_root, "√": _compute_root, "cbrt": math.cbrt, "abs": abs, "round": _round_number,
    "floor": math.floor, "ceil": math.ceil, "exp": math.exp, "ln": math.log,
    "log": lambda x, base=10: math.log(x, base), "log10": math.log10, "log2": math.log2,
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "degrees": math.degrees, "radians": math.radians, "factorial": _compute_factorial, "min": min, "max": max,
    "pow": _raise_to_power, "gcd": math.gcd, "lcm": math.lcm,
    "sum": lambda *values: sum(values), "mean": lambda *values: sum(values) / len(values),
}  # fmt: skip
_FUNCTIONS = {**_FUNCTIONS, "average": _FUNCTIONS["mean"], "avg": _FUNCTIONS["mean"], "fabs": abs, "ceiling": math.ceil}

_OPERATIONS: Mapping[str, Callable[[Number, Number], Number]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide, "//": operator.floordiv,
    "%": operator.mod, "mod": operator.mod,
}  # fmt: skip

_EXPONENT = r"(?:[eE][+-]?\d+(?![\w.]))?"
_PLAIN_NUMBER = rf"(?:\d[\d_]*(?:\.\d*)?|\.\d+){_EXPONENT}"
_GROUPED_NUMBER = rf"\d{{1,3}}(?:,\d{{3}})+(?![\d,])(?:\.\d*)?{_EXPONENT}"
_REST = r"[a-zA-Z][a-zA-Z0-9]*|π|√|\*\*|//|[-+*/^%!(),]"
_TOKEN = re.compile(rf"\s*({_GROUPED_NUMBER}|{_PLAIN_NUMBER}|{_REST})")
_ARGUMENT_TOKEN = re.compile(rf"\s*({_PLAIN_NUMBER}|{_REST})")  # between arguments, a comma is a separator
_SIGNS = str.maketrans({
    "×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-", "–": "-", "²": "^2", "³": "^3", "[": "(", "]": ")",
    "$": "", "€": "", "£": "",
})  # fmt: skip
_WORDS = (  # patterns in their order, and what stands for them
    (r"^\s*(?:calculate|compute|evaluate|what is|what's|math\.)\s*", ""),
    (r"\b(?-i:math\.)", ""),
    (r"\braised to (?:the )?(?:power (?:of )?)?", "^ "),
    (r"%\s*of\b|\bpercent of\b", "% *"),
    (r"\bpercent\b", "%"),
    (r"\s*(?:=\s*\??|\?|power)?\s*$", ""),
)
_EXAMPLE = ToolExample(  # goes on from the number in those of the searches
    "What do you get if you add 14 to 62 and divide the sum by 7?",
    (ExampleCall("I need to add 14 to 62 and divide the sum by 7.", "(62 + 14) / 7", "10.857142857142858"),),
    "10.857142857142858",
    follow_up="What do you get if you add 14 to that number and divide the sum by 7?",
)


@tool(name="Calculator", effects="read", examples=(_EXAMPLE,))
async def calculator(expression: str) -> str:
    """useful for when you need to answer questions about math. The input is an arithmetic expression
    such as 1.5^4, sqrt(2) * 3 or 30% of 70

    Args:
        expression: The arithmetic to do.
    """
    return calculate(expression)


def calculate(expression: str) -> str:
    """Evaluate `expression`: exact for whole numbers up to 1,000 digits, otherwise the float's shortest form. Raises
    `ToolError` with the place and the reason if it cannot be parsed or computed."""
    if len(expression) > MAX_CHARS:
        raise ToolError(f"the expression has {len(expression):,} characters; at most {MAX_CHARS:,} are read")
    try:
        return _format_number(_Reader(_normalize_expression(expression)).read_value())
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("the result is too large") from None
    except (ValueError, TypeError) as error:
        raise ToolError(f"cannot compute {expression!r}: {error}") from error


def _normalize_expression(expression: str) -> str:
    text = expression.strip().strip("\"'`").strip().translate(_SIGNS)
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
    return text


def _cut_tokens(text: str) -> list[str]:
    tokens: list[str] = []
    calls: list[bool] = []  # for each open parenthesis: whether it encloses function arguments
    at = 0
    while text[at:].strip():
        match = (_ARGUMENT_TOKEN if calls and calls[-1] else _TOKEN).match(text, at)
        if match is None:
            place = text[at:].strip()[:20]
            raise ToolError(f"cannot read the expression at {place!r}; write arithmetic such as 1.5^4")
        token = match.group(1)
        if token == "(":
            calls.append(bool(tokens) and tokens[-1].lower() in _FUNCTIONS)
        elif token == ")" and calls:
            calls.pop()
        tokens.append(token)
        at = match.end()
    return tokens


class _Reader:
    """Recursive-descent parser that computes the value while parsing."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_cut_tokens(text), ""]  # the end
        self._at = 0
        self._depth = 0

    def read_value(self) -> Number:
        if len(self._tokens) == 1:
            raise ToolError("the expression is empty; write arithmetic such as 1.5^4")
        value = self._read_sum()
        if self._token:
            raise ToolError(f"cannot read the expression at {self._token!r}")
        return value

    @property
    def _token(self) -> str:
        return self._tokens[self._at]

    def _take(self, *wanted: str) -> str:
        token = self._token.lower()
        if token not in wanted:
            return ""
        self._at += 1
        return token

    def _close(self) -> None:
        if not self._take(")"):
            raise ToolError(f"')' is missing before {self._token or 'the end'!r}")

    @contextmanager
    def _nest_deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ToolError(f"the expression is nested more than {_MAX_DEPTH} deep")
        yield
        self._depth -= 1

    def _read_sum(self) -> Number:
        with self._nest_deeper():
            value = self._read_product()
            while sign := self._take("+", "-"):
                value = _check_size(_OPERATIONS[sign](value, self._read_product()))
            return value

    def _read_product(self) -> Number:
        value = self._read_signed()
        while True:
            if sign := self._take("*", "/", "//", "%", "mod"):
                value = _check_size(_OPERATIONS[sign](value, self._read_signed()))
            elif self._token == "(" or self._token[:1].isalpha() or self._token == "√":
                value = _check_size(value * self._read_power())
            else:
                return value

    def _read_signed(self) -> Number:
        negative = False
        while sign := self._take("-", "+"):
            negative ^= sign == "-"
        value = self._read_power()
        return -value if negative else value

    def _read_power(self) -> Number:
        value = self._read_postfix()
        if self._take("^", "**"):
            with self._nest_deeper():
                value = _raise_to_power(value, self._read_signed())
        return value

    def _read_postfix(self) -> Number:
        value = self._read_atom()
        while self._token in ("!", "%"):
            after = self._tokens[self._at + 1][:1]
            if self._take("!"):
                value = _compute_factorial(value)
            elif after and (after.isalnum() or after in "(.π√"):  # an operand follows: the remainder of a division
                break
            else:
                self._at += 1
                value = value / 100
        return value

    def _read_atom(self) -> Number:
        token = self._token
        name = token.lower()
        self._at += token != ""
        if token == "(":
            value = self._read_sum()
            self._close()
            return value
        if token[:1].isdigit() or token.startswith("."):
            digits = token.replace(",", "").replace("_", "")
            if len(digits) > MAX_DIGITS:
                raise ToolError(f"a number has more than {MAX_DIGITS:,} digits")
            return int(digits) if digits.isdigit() else float(digits)
        if name in _FUNCTIONS:
            return _check_size(_FUNCTIONS[name](*self._read_arguments()))
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name.isalpha():
            raise ToolError(f"unknown name {token!r}; there are: {', '.join([*_CONSTANTS, *_FUNCTIONS])}")
        raise ToolError(f"a number is missing before {token or 'the end'!r}")

    def _read_arguments(self) -> list[Number]:
        if not self._take("("):
            with self._nest_deeper():
                return [self._read_power()]
        arguments = [self._read_sum()]
        while self._take(","):
            arguments.append(self._read_sum())
        self._close()
        return arguments


def _check_size(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ToolError(f"the result would have more than {MAX_DIGITS:,} digits")
    return value


def _format_number(value: Number) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolError("the result is too large")
    return str(_check_size(value))
