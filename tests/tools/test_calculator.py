"""`Calculator`: exact results, and nothing but arithmetic."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import assume, given, settings, strategies as st

from retinue import ToolError
from retinue.tools.calculator import MAX_CHARS, calculate, calculator

RESULTS = {
    "47^0.23": "2.4242784855673896",
    "47**0.23": "2.4242784855673896",
    "47 raised to the 0.23 power": "2.4242784855673896",
    "47 raised to the power of 0.23": "2.4242784855673896",
    "5^0.4 + 0.12 * 80": "11.503653938715878",
    "2**3": "8",
    "1,234*77": "95018",
    "1_000 * 2": "2000",
    "1,234,567.5 + 1": "1234568.5",
    "sqrt(2)": "1.4142135623730951",
    "sqrt 16": "4",
    "√16 + √(9)": "7",
    "15% of 80": "12",
    "12 percent of 80": "9.6",
    "50%": "0.5",
    "-50%": "-0.5",
    "20% + 5%": "0.25",
    "10 % 3": "1",
    "10 mod 3": "1",
    "7 // 2": "3",
    "1 + 2 * 3": "7",
    "(1 + 2) * 3": "9",
    "[1 + 2] * 3": "9",
    "2 - 3 - 4": "-5",
    "2 / 4 / 2": "0.25",
    "2^3^2": "512",
    "-2^2": "-4",
    "2^-1": "0.5",
    "2 * -3": "-6",
    "--+-2": "-2",
    "2(3 + 4)": "14",
    "(1 + 1)(2 + 1)": "6",
    "2 pi": "6.283185307179586",
    "2π": "6.283185307179586",
    "3 sqrt(4)": "6",
    "3 × 4 ÷ 2 − 1": "5",
    "3² + 2³": "17",
    "$5 * 2": "10",
    "6 / 3": "2",
    "1 / 3": "0.3333333333333333",
    "0.1 + 0.2": "0.30000000000000004",
    "1e3 + 1.5E-1": "1000.15",
    ".5 + 3.": "3.5",
    "5!": "120",
    "3!!": "720",
    "10^999": "1" + "0" * 999,
    "2^64 - 1": "18446744073709551615",
    "max(1, 2, 3) - min(4, 5)": "-1",
    "max(1,234)": "234",
    "mean(1, 2, 3, 4)": "2.5",
    "sum(1, 2, 3)": "6",
    "round(2.567, 2)": "2.57",
    "round(2.5)": "2",
    "floor(-2.5) + ceil(2.1)": "0",
    "abs(-3)": "3",
    "log(8, 2)": "3",
    "ln(e)": "1",
    "log10(1000)": "3",
    "sin(0) + cos(0)": "1",
    "pow(2, 10)": "1024",
    "gcd(12, 18) + lcm(4, 6)": "18",
    "factorial(5)": "120",
    "math.sqrt(16)": "4",
    "What is 3 + 4?": "7",
    "3 + 4 =": "7",
    "calculate 3 + 4": "7",
    '"3 + 4"': "7",
}
CODE = [
    "os.system('x')",
    "__import__('os').system('x')",
    "lambda: 1",
    "(lambda x: x)(1)",
    "[x for x in (1, 2)]",
    "().__class__.__bases__",
    "open('/etc/passwd')",
    "exec('1')",
    "print(1)",
    "a = 1",
    "1 if 1 else 2",
    "'a' * 9",
    "1; 2",
    "True",
    "1j",
    "0x10",
    "{1}",
    "$query",
]
PROBLEMS = {
    "": "the expression is empty; write arithmetic such as 1.5^4",
    " \n": "the expression is empty; write arithmetic such as 1.5^4",
    "1/0": "division by zero",
    "1 // 0": "division by zero",
    "1 % 0": "division by zero",
    "0^-1": "division by zero",
    "5 +": "a number is missing before 'the end'",
    "* 5": "a number is missing before '*'",
    "(1 + 2": "')' is missing before 'the end'",
    "1 + 2)": "cannot read the expression at ')'",
    "4 5": "cannot read the expression at '5'",
    "1.5.2": "cannot read the expression at '.2'",
    "2 + foo": "unknown name 'foo'; there are: pi,",
    "sqrt(-1)": "cannot compute 'sqrt(-1)': math domain error",
    "(-8)^(1/3)": "-8 to the power 0.3333333333333333 is not a real number",
    "2.5!": "a factorial needs a whole number from 0 to 450, not 2.5",
    "451!": "a factorial needs a whole number from 0 to 450, not 451",
    "9**9**9": "the result would have more than 1,000 digits",
    "9^(9^9)": "the result would have more than 1,000 digits",
    "(10^999)^2": "the result would have more than 1,000 digits",
    "10^999 * 10^999": "the result would have more than 1,000 digits",
    "9.5^9999": "the result is too large",
    "1e999": "the result is too large",
    "1e999 - 1e999": "the result is too large",
    "2^(10^400)": "the result is too large",
    "round(5, -10^9)": "round takes at most 1,000 digits",
    "(" * 400 + "1" + ")" * 400: "the expression is nested more than 50 deep",
    "√" * 900 + "4": "the expression is nested more than 50 deep",
    "sqrt " * 190 + "4": "the expression is nested more than 50 deep",
    "2^" * 400 + "1": "the expression is nested more than 50 deep",
    "1+" * 600 + "1": f"the expression has 1,201 characters; at most {MAX_CHARS:,} are read",
}


@pytest.mark.parametrize(("expression", "result"), RESULTS.items())
def test_expressions_and_their_results(expression: str, result: str) -> None:
    assert calculate(expression) == result


@pytest.mark.parametrize("expression", CODE)
def test_code_is_not_arithmetic(expression: str) -> None:
    with pytest.raises(ToolError):
        calculate(expression)


@pytest.mark.parametrize(("expression", "problem"), PROBLEMS.items(), ids=lambda text: text[:20])
def test_what_cannot_be_computed_says_why(expression: str, problem: str) -> None:
    with pytest.raises(ToolError) as caught:
        calculate(expression)
    assert str(caught.value).startswith(problem)


def test_it_is_a_tool_that_takes_text_and_changes_nothing() -> None:
    assert (calculator.name, calculator.effects) == ("Calculator", "read")
    assert asyncio.run(calculator.call("47^0.23")) == "2.4242784855673896"
    assert asyncio.run(calculator.call({"expression": "1 + 1"})) == "2"


# ── properties ───────────────────────────────────────────────────────────────────────────────────

Number = int | float
Case = tuple[str, Number]
WORDS = (
    "1 2.5 1e9 0 99999 + - * / ** ^ % ! ( ) , . e pi √ sqrt ( log( round( pow( max( factorial( of mod math. = ? ²"
).split()


@settings(max_examples=300)
@given(st.text() | st.lists(st.sampled_from(WORDS)).map("".join) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text_is_a_number_or_a_tool_error(text: str) -> None:
    with suppress(ToolError):
        assert isinstance(float(calculate(text)), float)


def divided(left: Number, right: Number) -> Number:
    """As Python divides, but exact where whole numbers divide evenly."""
    exact = isinstance(left, int) and isinstance(right, int) and left % right == 0
    return left // right if exact else left / right


def combined(left: Case, sign: str, right: Case) -> Case | None:
    text = f"({left[0]}) {sign} ({right[0]})"
    a, b = left[1], right[1]
    match sign:
        case "+":
            return text, a + b
        case "-":
            return text, a - b
        case "*":
            return text, a * b
        case "/":
            return (text, divided(a, b)) if b else None
        case _:
            fits = isinstance(b, int) and abs(b) < 5 and abs(a) < 1e6 and (a or b > 0)
            power: Number = (float(a) ** b if b < 0 else a**b) if fits else 0
            return (text, power) if fits else None


LEAF = (st.integers(0, 99) | st.floats(0.25, 99).map(lambda value: round(value, 2))).map(
    lambda value: (f"{value}", value)
)


def deeper(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    pairs = st.builds(combined, inner, st.sampled_from("+ - * / **".split()), inner)
    negated = inner.map(lambda case: (f"-({case[0]})", -case[1]))
    return negated | pairs.filter(lambda case: case is not None).map(lambda case: case or ("0", 0))


@settings(max_examples=200)
@given(st.recursive(LEAF, deeper, max_leaves=8))
def test_arithmetic_agrees_with_pythons_own(case: Case) -> None:
    expression, expected = case
    assume(abs(expected) < 1e300 and len(expression) <= MAX_CHARS)
    result = calculate(expression)
    assert int(result) == expected if isinstance(expected, int) else float(result) == expected


@given(st.integers(1, 99), st.integers(1, 99), st.integers(1, 9), st.integers(1, 3))
def test_precedence_is_pythons_own_without_parentheses(a: int, b: int, c: int, d: int) -> None:
    assert calculate(f"{a} + {b} * {c} ** {d} - {a} * {d}") == str(a + b * c**d - a * d)
    assert calculate(f"-{c}**{d} + {b}") == str(-(c**d) + b)
