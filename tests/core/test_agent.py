"""The agent as people use it: run, batch and stream, blocking and not; agents as tools; what is refused."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from retinue import Agent, Budget, Delta, Message, PromptModel, RetinueError, StopReason, Tool, UsageError, tool
from retinue.events import Finished, Started


@tool(effects="read")
async def lookup(name: str) -> str:
    """Look a person up."""
    return f"{name} is 47"


SCRIPT: list[dict[str, Any]] = [
    {"when": "^How old is (Ada|Bob)", "call": {"tool": "lookup", "input": "Ada"}},
    {"when": "is 47", "finish": "47"},
    {"when": "Human", "finish": "no history"},
]


def agent(**options: Any) -> Agent:
    return Agent(PromptModel(script=SCRIPT), [lookup], **options)


def test_run_and_its_async_form_give_the_same() -> None:
    blocked = agent().run("How old is Ada?")
    awaited = asyncio.run(agent().run_async("How old is Ada?"))
    assert blocked.answer == awaited.answer == "47"
    assert [type(event) for event in blocked.events] == [type(event) for event in awaited.events]


def test_run_batch_answers_in_the_order_of_the_questions() -> None:
    results = agent().run_batch(["How old is Ada?", "How old is Bob?"], at_once=2)
    assert [result.question for result in results] == ["How old is Ada?", "How old is Bob?"]
    assert [result.answer for result in results] == ["47", "47"]
    assert asyncio.run(agent().run_batch_async(["How old is Ada?"]))[0].answer == "47"


def test_stream_yields_the_events_and_the_text_between_them() -> None:
    blocked = list(agent().stream("How old is Ada?"))

    async def gathered() -> list[Any]:
        return [event async for event in agent().stream_async("How old is Ada?")]

    awaited = asyncio.run(gathered())
    assert [type(event) for event in blocked] == [type(event) for event in awaited]
    assert isinstance(blocked[0], Started)
    assert isinstance(blocked[-1], Finished)
    assert any(isinstance(event, Delta) for event in blocked)


def test_a_stream_may_be_left_in_the_middle() -> None:
    for event in agent().stream("How old is Ada?"):
        if isinstance(event, Delta):
            break
    assert agent().run("How old is Ada?").answer == "47"


def test_the_blocking_forms_work_where_a_loop_already_runs() -> None:
    async def notebook() -> str:
        return agent().run("How old is Ada?").answer

    assert asyncio.run(notebook()) == "47"


def test_the_blocking_forms_work_from_several_threads() -> None:
    shared, answers = agent(), []
    threads = [threading.Thread(target=lambda: answers.append(shared.run("How old is Ada?").answer)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["47"] * 8


def test_blocking_inside_retinues_own_loop_is_refused_and_not_a_deadlock() -> None:
    @tool
    async def ask_another(name: str) -> str:
        return agent().run("How old is Ada?").answer

    script = [{"when": "^go", "call": {"tool": "ask_another", "input": "x"}}, {"finish": "y"}]
    result = Agent(PromptModel(script=script), [ask_another]).run("go")
    assert "use the _async form" in result.steps[0].observations[0].text


def test_an_agent_is_a_tool_of_another() -> None:
    script = [
        {"when": "^delegate", "call": {"tool": "Elder", "input": "How old is Ada?"}},
        {"when": "47", "finish": "she is 47"},
    ]
    supervisor = Agent(PromptModel(script=script))
    supervisor.add_tool("Elder", agent(), "useful for questions about age")
    result = supervisor.run("delegate")
    assert result.steps[0].observations[0].text == "47"
    assert result.answer == "she is 47"


def test_tools_are_added_as_seed_000_writes_it() -> None:
    someone = Agent(PromptModel(script=["Action: Search\nAction Input: Ada", "Final Answer: found"]))
    someone.add_tool("Search", lambda query: f"about {query}", "useful for when you need to answer questions")
    result = someone.run("Who is Ada?")
    assert "Search: useful for when you need to answer questions\n" in result.transcript
    assert result.steps[0].observations[0].text == "about Ada"


def test_the_conversation_before_is_part_of_the_prompt() -> None:
    history = [Message("user", "My name is Ada."), Message("assistant", "Hello Ada.")]
    result = agent().run("How old is Ada?", history=history)
    assert "Human: My name is Ada.\nAI: Hello Ada.\nQuestion: How old is Ada?\n" in result.transcript


@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question_is_refused(question: str) -> None:
    with pytest.raises(UsageError, match="the question is empty"):
        agent().run(question)


def test_an_agent_without_tools_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"agent has no tools; give it some: Agent\(tools="):
        Agent(PromptModel(script=["x"])).run("?")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are called 'lookup'"):
        agent().add_tool(Tool("lookup", print))


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no strategy 'guess'; there are: react"):
        agent(strategy="guess")


@pytest.mark.parametrize("budget", [{"steps": 0}, {"seconds": -1.0}, {"tokens": 0}, {"output_tokens": 0}])
def test_a_budget_that_allows_nothing_is_refused(budget: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="allows nothing"):
        Budget(**budget)


def test_every_error_is_one_of_ours() -> None:
    with pytest.raises(RetinueError):
        Agent("nothing:here")


def test_a_run_can_be_cancelled_from_another_thread() -> None:
    run = Agent(PromptModel(script=[{"error": "hang"}]), [lookup]).start("?")
    asked = threading.Event()

    async def follow() -> None:
        async for _ in run.events():
            asked.set()

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    thread.start()
    assert asked.wait(5)
    run.cancel()
    thread.join(5)
    assert run.result.stop_reason is StopReason.CANCELLED
