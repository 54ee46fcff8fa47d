"""What a program gets that uses an agent in another way than the docs: a value, or a sentence on what is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retinue import Agent, Budget, Message, PromptModel, RunResult, StopReason, UsageError, tool
from retinue.components import PromptNode


@tool
def search(query: str) -> str:
    """Search the web."""
    raise ConnectionError("reset by peer")


@tool(effects="read")
def look(place: str) -> str:
    """Look at a place."""
    return f"It rains in {place}."


def agent(*script: Any, **options: Any) -> Agent:
    return Agent(PromptModel(script=script), [search, look], strategy="react", trace=False, **options)


def asked(question: Any, history: Any = ()) -> RunResult:
    return agent({"finish": "x"}).run(question, history=history)


CALL: dict[str, Any] = {"call": {"tool": "look", "input": "Rome"}}


def test_rules_without_when_are_used_in_their_order() -> None:
    assert agent(CALL, {"finish": "Wet."}).run("How is Rome?").answer == "Wet."


def test_a_failed_once_call_says_in_the_result_what_waits_and_why() -> None:
    call = {"call": {"tool": "search", "input": "Rome"}, "when": ""}
    result = agent(call).run("How is Rome?")
    assert result.stop_reason is StopReason.AWAITING_HUMAN
    assert result.error.startswith("no person has decided on search (call_2_0): search was begun before")
    assert result.error in str(result)
    assert "ConnectionError: reset by peer" in result.steps[0].observations[0].text


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(steps=2, early_stopping_method="force"), "Agent stopped due to iteration limit or time limit."),
        (Budget(steps=1), "steps: 1 of 1 are used"),
        (Budget(total_steps=1), "total_steps: 1 of 1 are used"),
        (Budget(seconds=1e-9), "seconds: the 1e-09 of the budget do not suffice for another reply"),
    ],
)
def test_the_limit_that_ran_out_is_said(budget: Budget, said: str) -> None:
    assert agent(CALL | {"when": ""}, budget=budget).run("How is Rome?").error == said


def test_a_conversation_may_be_given_as_a_chat_api_has_it() -> None:
    earlier: list[Any] = [{"role": "user", "content": "I am Ada."}, Message("assistant", "Hello Ada.")]
    result = agent({"finish": "Ada."}).run("Who am I?", history=earlier)
    assert (result.answer, "I am Ada." in result.transcript) == ("Ada.", True)


def test_a_result_is_one_line_in_a_notebook_and_its_transcript_is_folded() -> None:
    result = agent(CALL, {"finish": "<b>Wet</b>."}).run("How is Rome?")
    assert repr(result) == "RunResult('<b>Wet</b>.', ANSWER, steps=1, tokens=" + repr(result).rpartition("=")[2]
    assert "&lt;b&gt;Wet" in (shown := result._repr_html_())
    assert shown.count("<details>") == 1


def test_a_finished_log_keeps_its_members() -> None:
    boss = Agent(
        PromptModel(script=[{"call": {"tool": "looker", "input": "Rome?"}}, {"finish": "Wet."}]),
        [agent(CALL, {"finish": "It rains."}, name="looker")],
        strategy="react",
        trace=False,
    )
    result = boss.run("How is Rome?")
    assert list(boss.resume(result.events, children=result.children).children) == list(result.children) == ["call_1_0"]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: asked(["a", "b"]), "a question is a text, not a list; several go to run_batch"),
        (lambda: asked({"input": "a"}), "a question is a text, not a dict"),
        (lambda: asked("a", [("user", "a")]), "history: want Messages, or mappings"),
        (lambda: asked("a", 5), "history: want Messages, or mappings"),
        (lambda: asked("a", "earlier"), "history: want Messages, or mappings"),
        (
            lambda: Agent(PromptModel(script=["x"]), prompt_node=PromptNode(PromptModel(script=["y"]))),
            "Agent: give a model or a prompt_node, which has a model of its own, and not both",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(use: Callable[[], RunResult], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        use()
    assert str(caught.value).startswith(said)
