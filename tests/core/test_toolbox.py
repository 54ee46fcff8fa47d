"""`Toolbox`: every outcome an action can have. None of them is an exception."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue import Tool, ToolError, UsageError, tool
from retinue.core.run_texts import MOST_KEPT
from retinue.core.tools.toolbox import DOUBT, MAX_RESULT, Toolbox
from retinue.extend import AgentAction, Observation


@tool(effects="read")
def search(query: str) -> str:
    """Search."""
    if query == "nobody":
        raise ToolError("there is no such person")
    if query == "crash":
        raise KeyError("page")
    return f"found {query}"


@tool(effects="once")
def book(city: str, nights: int = 1) -> str:
    """Book a room."""
    return f"{nights} in {city}"


@tool(effects="read", timeout=0.01)
async def hang(query: str) -> str:
    """Never done."""
    await asyncio.Event().wait()
    return ""


def ran(box: Toolbox, name: str, tool_input: Any) -> Observation:
    """Run an action as a run does: what came back is also remembered."""
    action = AgentAction(name, tool_input, id="call_1")
    observation = asyncio.run(box.run(action))
    box.remember(action, observation)
    return observation


@pytest.mark.parametrize(
    ("name", "tool_input", "outcome", "text"),
    [
        ("search", "Ada", "result", "found Ada"),
        ("book", {"city": "Rome", "nights": 2}, "result", "2 in Rome"),
        ("Foo", "x", "unknown_tool", "Foo is not a valid tool, try one of [search, book, hang]."),
        ("Search", "x", "unknown_tool", "Search is not a valid tool, try one of [search, book, hang]."),
        ("book", {"nights": 2}, "invalid_input", "The input of book is not valid: city: Field required"),
        (
            "book",
            "Rome",
            "invalid_input",
            'The input of book is not valid: the input must be a JSON object with "city", "nights", not \'Rome\'',
        ),
        ("search", "nobody", "failed", "search failed: there is no such person"),
        ("search", "crash", "failed", "search failed: KeyError: 'page'"),
        ("hang", "x", "timed_out", "hang did not finish in time (its limit is 0.01 seconds)."),
    ],
)
def test_every_action_comes_to_an_observation(name: str, tool_input: Any, outcome: str, text: str) -> None:
    seen = ran(Toolbox([search, book, hang]), name, tool_input)
    assert (seen.call_id, seen.outcome, seen.text) == ("call_1", outcome, text)
    assert seen.seconds >= 0


def test_an_unknown_tool_is_answered_in_seed_002s_words() -> None:
    box = Toolbox([Tool("A", lambda query: query), Tool("B", lambda query: query)])
    assert ran(box, "Foo", "x").text == "Foo is not a valid tool, try one of [A, B]."
    assert ran(Toolbox([]), "Foo", "x").text == "Foo is not a valid tool, try one of [none]."


def test_the_same_call_again_gets_the_former_result_and_no_second_effect() -> None:
    calls: list[str] = []
    box = Toolbox([Tool("book", lambda query: calls.append(query) or f"booked {query}")])  # type: ignore[func-returns-value]
    assert ran(box, "book", "Rome").text == "booked Rome"
    again = ran(box, "book", " Rome\n")
    assert again.outcome == "repeated"
    assert again.text == "You used book with this input before. Its result was: booked Rome"
    assert ran(box, "book", "Rome").text == again.text
    assert ran(box, "book", "Oslo").outcome == "result"
    assert calls == ["Rome", "Oslo"]


def test_values_are_the_same_call_in_any_order() -> None:
    box = Toolbox([book])
    assert ran(box, "book", {"city": "Rome", "nights": 2}).outcome == "result"
    assert ran(box, "book", {"nights": 2, "city": "Rome"}).outcome == "repeated"
    assert ran(box, "book", {"nights": 3, "city": "Rome"}).outcome == "result"


def test_a_tool_that_polls_is_called_each_time() -> None:
    ticks = iter(range(9))
    box = Toolbox([Tool("status", lambda query: f"{next(ticks)} %", polls=True)])
    assert [ran(box, "status", "job").text for _ in range(3)] == ["0 %", "1 %", "2 %"]


def test_what_failed_may_be_tried_again() -> None:
    box = Toolbox([search, hang])
    for name, tool_input, outcome in (("search", "nobody", "failed"), ("hang", "x", "timed_out")):
        assert [ran(box, name, tool_input).outcome for _ in range(2)] == [outcome, outcome]


def test_a_result_is_whole_up_to_what_is_kept() -> None:
    box = Toolbox([Tool("dump", lambda size: "x" * int(size))])
    assert ran(box, "dump", str(MAX_RESULT + 1_500)).text == "x" * (MAX_RESULT + 1_500)
    assert ran(box, "dump", str(MOST_KEPT + 1_500)).text == "x" * MOST_KEPT + " … (1,500 more characters)"
    assert [box.limit("dump"), Toolbox([], most=3_000).limit("dump")] == [MAX_RESULT, 3_000]


def test_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are called 'search'; give one of them another name"):
        Toolbox([search, search])


def test_a_tool_is_found_by_its_exact_name() -> None:
    box = Toolbox([search])
    assert ran(box, "search", "x").outcome == "result"
    assert ran(box, "Search", "x").outcome == "unknown_tool"


@pytest.mark.parametrize(
    ("effects", "approval", "begun", "reason"),
    [
        ("read", False, False, ""),
        ("read", False, True, ""),
        ("idempotent", False, True, ""),
        ("once", False, False, ""),
        ("once", False, True, DOUBT.format("act")),
        ("once", True, False, "act runs only with a person's approval"),
        ("once", True, True, DOUBT.format("act")),
        ("idempotent", True, False, "act runs only with a person's approval"),
        ("idempotent", True, True, ""),
    ],
)
def test_a_person_is_asked_for_approval_and_for_unknown_outcomes(
    effects: Any, approval: bool, begun: bool, reason: str
) -> None:
    box = Toolbox([Tool("act", lambda query: query, effects=effects, approval=approval)])
    assert box.needs_human(AgentAction("act", "x"), begun=begun) == reason
    assert box.needs_human(AgentAction("unknown", "x"), begun=begun) == ""
