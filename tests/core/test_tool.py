"""`Tool` and `@tool`: what can be one, what it is called, and what its result reads like."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from retinue import Document, RunResult, StopReason, Tool, Usage, UsageError, tool
from retinue.core.tools.result import as_text
from retinue.core.tools.signature import InvalidInput
from retinue.core.tools.tool import make_tool


def answer(tool: Tool, tool_input: Any) -> str:
    return asyncio.run(tool.call(tool_input))


class Component:
    """Has `run`, as a component or a pipeline has."""

    name = "greeter"

    def run(self, query: str) -> str:
        """Greet somebody."""
        return f"hello {query}"


class AsyncComponent:
    def run(self, query: str) -> str:
        return f"blocking hello {query}"

    async def run_async(self, query: str) -> str:
        """Greet somebody, without blocking."""
        return f"hello {query}"


class Callable:
    async def __call__(self, query: str) -> str:
        return f"called {query}"


@pytest.mark.parametrize("name", ["Search", "search_2", "_", "A" * 64])
def test_letters_digits_and_underscores_make_a_name(name: str) -> None:
    assert Tool(name, lambda query: query).name == name


@pytest.mark.parametrize("name", ["", "web search", "web-search", "search!", "Süche", "a.b", "x\n", "A" * 65])
def test_other_names_are_refused_in_seed_000s_words(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        Tool(name, lambda query: query)
    assert str(caught.value).removesuffix(" At most 64 of them.") == (
        f"Invalid name supplied for tool: '{name}'. Use only letters (a-z, A-Z), digits (0-9) and underscores (_)."
    )


def test_something_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(UsageError, match=r"tool Search: 47 is not callable and has no run or run_async"):
        Tool("Search", 47)


def test_a_description_is_one_line_and_by_default_the_docstrings_first_paragraph() -> None:
    assert Tool("T", Component(), "folded\n  text \n").description == "folded text"
    assert Tool("T", Component()).description == "Greet somebody."
    assert Tool("T", lambda query: query).description == ""


def test_sync_functions_run_in_a_thread_and_async_ones_in_the_loop() -> None:
    @tool
    def blocking() -> bool:
        return threading.current_thread() is threading.main_thread()

    @tool
    async def awaited() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert answer(blocking, "") == "false"
    assert answer(awaited, "") == "true"


@pytest.mark.parametrize(
    ("something", "said"),
    [
        (Component(), "hello you"),
        (AsyncComponent(), "hello you"),
        (Callable(), "called you"),
        (lambda query: f"lambda {query}", "lambda you"),
        (Component().run, "hello you"),
    ],
)
def test_whatever_takes_one_text_can_be_a_tool(something: Any, said: str) -> None:
    made = Tool("greet", something)
    assert made.signature.text_argument == "query"
    assert answer(made, "you") == said
    assert answer(made, {"query": "you"}) == said


def test_arguments_are_passed_by_name_and_checked_first() -> None:
    calls = []

    @tool
    def forecast(city: str, days: int = 3) -> str:
        calls.append((city, days))
        return f"{days} days in {city}"

    assert answer(forecast, {"city": "Paris", "days": 2}) == "2 days in Paris"
    assert answer(forecast, '{"city": "Paris"}') == "3 days in Paris"
    with pytest.raises(InvalidInput, match="days"):
        answer(forecast, {"city": "Paris", "days": "many"})
    assert calls == [("Paris", 2), ("Paris", 3)]


def test_what_a_tool_raises_and_its_time_limit_reach_the_caller() -> None:
    @tool
    def breaks() -> str:
        raise KeyError("gone")

    @tool(timeout=0.01)
    async def hangs() -> str:
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(KeyError):
        answer(breaks, "")
    with pytest.raises(TimeoutError):
        answer(hangs, "")


def test_a_decorated_function_is_named_and_described_by_itself() -> None:
    @tool
    def age(name: str) -> int:
        """The age of a person
        in years."""
        return 47

    assert (age.name, age.description, age.effects, age.polls) == (
        "age",
        "The age of a person in years.",
        "once",
        False,
    )
    assert answer(age, "Ada") == "47"


def test_what_a_model_is_not_told_of_a_function_is_a_line_on_the_log(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def bare(city, year=2020):  # type: ignore[no-untyped-def]
        return city

    @tool(description="The city.", effects="once")
    def described(city: str, **more: str) -> str:
        return city

    assert (bare.name, described.name) == ("bare", "described")
    (line,) = caplog.messages
    lacking = "no docstring: the model is not told what it is for; no type hint for city, year; no effects: after a"
    assert line.startswith(f"tool bare ({__file__}:")
    assert f") has {lacking}" in line


def test_a_decorated_function_can_still_be_called() -> None:
    @tool
    def population(city: str, year: int = 2020) -> int:
        """How many thousands of people live in a city."""
        return len(city) + year

    @tool
    async def later(city: str) -> str:
        """The city, later."""
        return city

    assert population("Lyon") == population(city="Lyon", year=2020) == 2024
    assert asyncio.run(later("Lyon")) == "Lyon"
    assert Tool("Greet", Component())("you") == Component().run("you")


def test_a_tool_runs_as_it_does_for_a_model() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    assert add.run({"a": 19, "b": 23}) == "42"
    assert add.run_batch([{"a": 1}, '{"a": 2}'], at_once=2) == ["2", "3"]
    assert asyncio.run(add.run_batch_async([{"a": 1}])) == ["2"]
    with pytest.raises(UsageError, match="the input of add is not valid: a: "):
        add.run({"a": "many"})
    with pytest.raises(UsageError, match="at_once must be at least 1"):
        add.run_batch([], at_once=0)


def test_options_override_what_the_function_says() -> None:
    @tool(name="Age", description="How old", effects="read", timeout=5, approval=True, polls=True)
    def age(name: str) -> int:
        """The age of a person."""
        return 47

    assert age == Tool("Age", age.something, "How old", "read", 5, True, True)
    assert answer(age, "Ada") == "47"


def test_a_tool_stays_itself_and_others_are_named_after_function_object_or_type() -> None:
    made = Tool("T", Component())
    assert make_tool(made) is made
    assert make_tool(Component()).name == "greeter"
    assert make_tool(AsyncComponent()).name == "AsyncComponent"
    assert make_tool(Component().run).name == "run"
    assert make_tool(Component(), name="hi", effects="read").effects == "read"


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(UsageError, match="'<lambda>'"):
        make_tool(lambda query: query)
    assert make_tool(lambda query: query, name="echo").name == "echo"


def finished(answer: str, reason: StopReason, error: str = "") -> RunResult:
    return RunResult("q", answer, reason, (), Usage(), 0.0, error)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (None, ""),
        (47, "47"),
        (True, "true"),
        ({"name": "José", "n": [1, None]}, '{"name": "José", "n": [1, null]}'),
        ([], "[]"),
        (("a", 1), '["a", 1]'),
        (Document("a text"), "a text"),
        ([Document("one"), Document("two")], "one\ntwo"),
        (finished("Paris", StopReason.ANSWER), "Paris"),
        (finished("", StopReason.ERROR, "no network"), "no answer (ERROR: no network)"),
        (
            {
                1,
            },
            "[1]",
        ),
        (Ellipsis, "Ellipsis"),
    ],
)
def test_results_read_as_text_documents_by_content_and_values_as_json(value: Any, text: str) -> None:
    assert as_text(value) == text
