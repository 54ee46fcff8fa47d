"""What a person always allows a user: nobody is asked about it again, and about nothing else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as some

from retinue import Agent, Decision, PromptModel, tool
from retinue.core.events import Event, Paused, Resumed
from retinue.core.user_records import PROCESS, Policy, fits_pattern
from retinue.core.values import AgentAction, Always

SENT: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    SENT.clear()
    PROCESS.__init__()  # type: ignore[misc]
    yield
    PROCESS.__init__()  # type: ignore[misc]


@tool(approval=True)
def send(to: str, body: str) -> str:
    """Send a mail."""
    SENT.append(to)
    return f"sent to {to}"


class Person:
    """Decides as told, and counts how often."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)
        self.asked: list[AgentAction] = []

    def __call__(self, action: AgentAction, problem: str) -> Decision:
        self.asked.append(action)
        return self.decisions.pop(0)


def mailer(person: Person, *receivers: str, name: str = "mailer") -> Agent:
    calls = [{"tool": "send", "input": {"to": one, "body": "Hello"}} for one in receivers]
    script = [{"when": "sent to|refused", "finish": "Done."}, {"when": "", "call": calls}]
    return Agent(PromptModel(script=script), [send], name=name, strategy="tool_calling", human=person)


def tell(person: Person, *receivers: str, user: str = "ann", name: str = "mailer") -> list[Event]:
    return list(mailer(person, *receivers, name=name).run("Tell them.", user=user).events)


def decisions(log: list[Event]) -> list[Decision]:
    return [event.decision for event in log if isinstance(event, Resumed)]


def test_the_next_such_call_of_the_user_asks_nobody_and_the_log_says_why() -> None:
    person = Person(Decision("approve", always="call"))
    tell(person, "a@x.org")
    log = tell(person, "a@x.org")
    (decision,) = decisions(log)
    (policy,) = PROCESS.policies["", "ann"]
    assert decision == Decision("approve", policy=policy)
    assert (len(person.asked), SENT) == (1, ["a@x.org", "a@x.org"])
    assert any(isinstance(event, Paused) for event in log)


@pytest.mark.parametrize("other", [{"user": "bob"}, {"user": ""}, {"name": "postman"}])
def test_no_other_user_and_no_other_agent_has_it(other: Any) -> None:
    person = Person(Decision("approve", always="tool"), Decision("reject"))
    tell(person, "a@x.org")
    tell(person, "a@x.org", **other)
    assert (len(person.asked), SENT) == (2, ["a@x.org"])


def test_a_revoked_policy_counts_no_more() -> None:
    person = Person(Decision("approve", always="call"), Decision("reject"))
    tell(person, "a@x.org")
    PROCESS.policies["", "ann"].clear()
    tell(person, "a@x.org")
    assert len(person.asked) == 2


def test_a_rejection_and_an_answer_allow_nothing() -> None:
    person = Person(Decision("reject", always="tool"), Decision("respond", message="sent to", always="tool"))
    tell(person, "a@x.org")
    tell(person, "a@x.org")
    assert (len(person.asked), SENT) == (2, [])


def test_an_edited_call_is_allowed_as_it_was_edited() -> None:
    edited = {"to": "b@x.org", "body": "Hello"}
    person = Person(Decision("edit", edited, always="call"), Decision("reject"))
    tell(person, "a@x.org")
    tell(person, "b@x.org")
    tell(person, "a@x.org")
    assert (len(person.asked), SENT) == (2, ["b@x.org", "b@x.org"])


def test_a_call_whose_outcome_is_unknown_is_always_asked_about() -> None:
    @tool(approval=True, effects="once", timeout=0.01)
    async def pay(amount: int) -> str:
        """Pay an amount."""
        SENT.append(str(amount))
        await asyncio.Event().wait()
        return "paid"

    call = {"call": {"tool": "pay", "input": {"amount": 5}}}
    script = [{"when": "refused", "finish": "It may be paid."}, call]
    person = Person(Decision("approve", always="tool"), Decision("reject", message="no"))
    agent = Agent(PromptModel(script=script), [pay], strategy="tool_calling", human=person)
    log = agent.run("Pay", user="ann").events
    assert [event.decision.kind for event in log if isinstance(event, Resumed)] == ["approve", "reject"]
    assert (len(person.asked), SENT) == (2, ["5"])


SEEN = {"to": "a@x.org", "amount": 5, "tags": ["x"]}


@pytest.mark.parametrize(
    ("always", "given", "covered"),
    [
        ("call", SEEN, True),
        ("call", {**SEEN, "amount": 5.5}, False),
        ("call", {**SEEN, "amount": True}, False),
        ("tool", {"anything": 1}, True),
        ({"to": "*@x.org"}, {**SEEN, "to": "b@x.org"}, True),
        ({"to": "*@x.org"}, {**SEEN, "to": "b@x.org.evil.com"}, False),
        ({"to": "*@x.org"}, {**SEEN, "amount": 6}, False),
        ({"to": "*@x.org"}, {**SEEN, "cc": "b@x.org"}, False),
        ({"to": "*@x.org"}, {"to": "b@x.org"}, False),
        ({"tags": "*"}, {**SEEN, "tags": {"y": 1}}, True),
        ({"amount": "5*"}, {**SEEN, "amount": 500}, True),
        ("", SEEN, False),
    ],
)
def test_a_policy_covers_what_the_person_chose(always: Always, given: Any, covered: bool) -> None:
    policy = Policy("p", "mailer", "send", "", SEEN, always)
    assert policy.covers(AgentAction("send", given), "mailer", "") is covered
    assert not policy.covers(AgentAction("send", given), "mailer", "a hook that asks for another reason")


@given(parts=some.lists(some.text("ab", max_size=3), min_size=1, max_size=5), text=some.text("ab", max_size=12))
def test_a_pattern_fits_what_its_parts_make_and_what_regular_expressions_say(parts: list[str], text: str) -> None:
    pattern = "*".join(parts)
    assert fits_pattern(pattern, "ab".join(parts))
    assert fits_pattern(pattern, text) is (re.fullmatch(".*".join(map(re.escape, parts)), text) is not None)
