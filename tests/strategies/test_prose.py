"""Replies in plain prose, where an engine holds the model to no form: when they are taken for the answer."""

from __future__ import annotations

import pytest

from fakes.said import Said
from retinue import Agent, Budget, RunResult, StopReason, tool
from retinue.core.events import Asked
from retinue.core.values import Capabilities, Reply
from retinue.strategies.parsing.final_answer import read_prose
from strategies.test_corpus import TOOLS as RECORDED_TOOLS, read, recorded

PLAIN = "Paris is the capital of France."
EVERY = pytest.mark.parametrize("name", ["react", "react_json", "self_ask", "tool_calling"])


@tool(effects="read")
def search(query: str) -> str:
    """Search an encyclopedia."""
    return "a page"


def run(name: str, *replies: str | Reply, constrains: bool = False) -> RunResult:
    model = Said(replies, Capabilities(constrains=constrains))
    return Agent(model, [search], strategy=name, budget=Budget(12)).run("What is the capital of France?")


@EVERY
def test_prose_again_after_the_form_was_shown_is_the_answer(name: str) -> None:
    result = run(name, PLAIN, "It is Paris.\n")
    assert (result.answer, result.stop_reason) == ("It is Paris.", StopReason.ANSWER)
    first, second = [event for event in result.events if isinstance(event, Asked)]
    assert (bool(first.problem), bool(second.problem)) == (False, True), "the form was shown once"


@EVERY
def test_prose_once_may_have_been_a_thought(name: str) -> None:
    answer = {"react": "Final Answer: Lyon", "self_ask": "So the final answer is: Lyon"}.get(name, '{"answer": "Lyon"}')
    assert run(name, PLAIN, answer).answer == "Lyon"


@EVERY
@pytest.mark.parametrize(
    "said",
    [
        "I need to find out who wrote it.",
        "Let me look it up.",
        "First, the author. Then the year.",
        "We should ask somebody.",
        "The encyclopedia has it, I'll search there.",
        "A search would tell.",
        "Observation: it rains",
        "Thought: it rains",
        "Input: Paris",
        "Query: capital of France",
        "lookup[Paris]",
        "lookup(Paris)",
        "The request is {query: Paris}",
        "```\nParis\n```",
        "<answer>Paris</answer>",
        "…",
        Reply("Paris is the capital of", finish="length"),
    ],
    ids=repr,
)
def test_what_may_be_anything_else_is_not_taken(name: str, said: str | Reply) -> None:
    result = run(name, *[said] * 4)
    cut = isinstance(said, Reply) and said.finish == "length"
    reason = StopReason.REPLY_TRUNCATED if cut else StopReason.UNREADABLE_REPLY
    assert (result.answer, result.stop_reason) == ("", reason)


@pytest.mark.parametrize(
    "said", ["Paris", "42.", "Hello! How can I help? Let me know.", "Bonjour, c'est Paris: oui", "東京"]
)
def test_conversation_is_prose(said: str) -> None:
    assert read_prose(Reply(f" {said}\n"), [search]) == said


@EVERY
def test_a_model_held_to_a_form_writes_no_prose(name: str) -> None:
    assert run(name, *[PLAIN] * 4, constrains=True).stop_reason is StopReason.UNREADABLE_REPLY


@EVERY
def test_prose_between_other_unreadable_replies_is_not_twice_in_a_row(name: str) -> None:
    assert run(name, PLAIN, "Let me see.", PLAIN, "Let me see.").stop_reason is StopReason.UNREADABLE_REPLY


def test_of_the_recorded_thoughts_only_those_are_prose_after_which_the_model_answered() -> None:
    thoughts = [(reply, reply[: reply.index("\nAction ")]) for reply in recorded()]
    taken = [reply for reply, thought in thoughts if read_prose(Reply(thought), RECORDED_TOOLS)]
    assert [read(reply)[0] for reply in taken] == ["Finish"] * 92, "of 92 answers and 277 searches"
