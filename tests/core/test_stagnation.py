"""What counts as going in circles: results that are the same but for what comes along with any result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from retinue import Agent, Budget, PromptModel, StopReason, Tool

WORDED = ["who is Ada", "Ada", "Ada Lovelace", "the countess", "Byron's daughter", "a programmer", "a mathematician"]
SAME = ["Ada", "ada", "Ada?", ' "ada"', "ADA .", "Ada!", "'Ada'"]


def run(says: Callable[[int], str], inputs: Sequence[Any], **options: Any) -> tuple[StopReason, int]:
    """How a run ends whose model gives its tool these inputs one after the other, and how often it used it."""
    calls = iter(range(len(inputs)))
    tool = Tool("look", lambda given: says(next(calls)), "Look somebody up", **({"effects": "read"} | options))
    script = [{"when": ".", "call": {"tool": "look", "input": one}, "times": 1} for one in inputs]
    model = PromptModel(script=[*script, {"when": ".", "finish": "done"}])
    result = Agent(model, [tool], budget=Budget(steps=20)).run("Who is it?")
    return result.stop_reason, len(result.steps)


def failing(at: int) -> str:
    raise ValueError(f"no entry (line {at} of the index)")


@pytest.mark.parametrize(
    ("says", "inputs"),
    [
        (lambda at: f"Nothing found (request {17 + at}).", WORDED),
        (lambda at: f'{{"hits": [], "request_id": "{at}f3a-77", "retry": {at}}}', WORDED),
        (lambda at: f"Nothing found. Checked at 2026-11-05T12:00:{10 + at}Z", WORDED),
        (lambda at: f"Nothing, as of 12:0{at}", WORDED),
        (lambda at: f"0 results in {at}.{at} ms", WORDED),
        (lambda at: f"{at} visitors so far. Nothing found.", SAME),
        (failing, WORDED),
    ],
    ids=["request", "json", "timestamp", "time", "duration", "same input", "errors"],
)
def test_a_counter_or_a_time_is_no_news(says: Callable[[int], str], inputs: Sequence[Any]) -> None:
    assert run(says, inputs) == (StopReason.STAGNATED, 4)


@pytest.mark.parametrize(
    ("says", "inputs", "options"),
    [
        (lambda at: f"{2010 + at}", [f"season {at}" for at in range(7)], {}),
        (lambda at: f"{at + 1}", ["hydrogen", "helium", "lithium", "beryllium", "boron", "carbon", "nitrogen"], {}),
        (lambda at: f"{520 + at * 317} thousand people", WORDED, {}),
        (lambda at: f"created 2024-05-01 12:00:0{at}", WORDED, {}),
        (lambda at: f"2:0{at}:35", WORDED, {}),
        (lambda at: f"{3 - at}", ["2+1", "2*1", "2/1", "2-1", "1-2", "1%2", "1**2"], {}),
        (lambda at: f"{at} of 7 done (request {at})", WORDED, {"polls": True}),
        (lambda at: f"sent (request {at})", WORDED, {"effects": "idempotent"}),
    ],
    ids=["years", "atomic numbers", "values", "timestamps", "records", "sums", "polls", "effects"],
)
def test_a_number_that_is_the_result_is_news(
    says: Callable[[int], str], inputs: Sequence[Any], options: dict[str, Any]
) -> None:
    assert run(says, inputs, **options) == (StopReason.ANSWER, 7)
