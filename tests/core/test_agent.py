"""The agent as people use it: run, batch and stream, blocking and not; agents as tools; what is refused."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from retinue import (
    Agent,
    Budget,
    Decision,
    Delta,
    Executor,
    Message,
    ModelUnavailable,
    Pipeline,
    PromptModel,
    RetinueError,
    StopReason,
    Tool,
    UsageError,
    tool,
)
from retinue.core.events import Finished, Started
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities
from retinue.extend import AgentAction, Reply
from retinue.net.retry import Retries
from retinue.strategies import STRATEGIES


@tool(effects="read")
async def lookup(name: str) -> str:
    """Look a person up."""
    return f"{name} is 47"


SCRIPT: list[dict[str, Any]] = [
    {"when": "^How old is (Ada|Bob)", "call": {"tool": "lookup", "input": "Ada"}},
    {"when": "is 47", "finish": "47"},
    {"when": "Human", "finish": "no history"},
]


class Native:
    """A model with replies of its own, and these abilities; counts how often its tool calls were tried."""

    name = "native"

    def __init__(self, replies: list[Reply], abilities: Capabilities = Capabilities(calls_tools=True)) -> None:
        self._replies = iter(replies)
        self._abilities = abilities
        self.probed = 0

    async def abilities(self, *, native: bool = False) -> Capabilities:
        self.probed += native
        return self._abilities if native else replace(self._abilities, calls_tools=self._abilities.scripted)

    async def reply(self, request: Ask) -> Chunks:
        yield next(self._replies)


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


def test_params_of_a_run_reach_the_nodes_of_its_pipelines_and_no_other_run() -> None:
    def find(query: str, top_k: int = 1) -> str:
        return f"{top_k} of {query}"

    pipeline = Pipeline()
    pipeline.add_node(find, "Retriever")
    script = [{"when": "^go", "call": {"tool": "Search", "input": "x"}}, {"when": "3 of x", "finish": "three"}, "one"]
    someone = Agent(PromptModel(script=script), [lookup], strategy="tool_calling")
    someone.add_tool("Search", pipeline, "useful for searching")
    assert someone.run("go", params={"Retriever": {"top_k": 3}}).answer == "three"
    assert someone.run("go").answer == "one"
    with pytest.raises(
        UsageError, match="no pipeline among the tools has a node 'Retreiver'; did you mean 'Retriever'"
    ):
        someone.run("go", params={"Retreiver": {"top_k": 3}})


def test_a_tool_that_is_only_a_name_is_refused_with_where_it_is() -> None:
    with pytest.raises(UsageError, match=r"'calculater' is only a name; .* `from retinue.tools import calculator`"):
        agent().add_tool("calculater")
    with pytest.raises(UsageError, match="tools: want a list of them"):
        Agent(PromptModel(script=["x"]), lookup)  # type: ignore[call-overload]


def test_a_person_is_asked_for_tools_that_there_are() -> None:
    someone = agent(require_human_feedback=["lokup"])  # tools may still be added
    with pytest.raises(UsageError, match="require_human_feedback: no tool 'lokup'; did you mean 'lookup'"):
        someone.run("How old is Ada?")


@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question_is_refused(question: str) -> None:
    with pytest.raises(UsageError, match="the question is empty"):
        agent().run(question)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_agent_without_tools_just_answers(strategy: str) -> None:
    script = [{"when": "Make a plan", "raw": "1. Think"}, {"finish": "Paris"}]
    agent = Agent(PromptModel(script=script), strategy=strategy, human=lambda action, problem: Decision("approve"))
    result = agent.run("What is the capital of France?")
    assert result.answer == "Paris"
    assert "following tools" not in result.transcript


def test_an_executor_without_tools_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"executor has no tools to run; pass some: Executor\(\["):
        Executor().run({"tool": "x"})


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("tools", [[lookup], []])
def test_instructions_stand_before_the_first_prompt_and_are_recorded(strategy: str, tools: list[Any]) -> None:
    script = [{"when": "Make a plan", "raw": "1. Think"}, {"finish": "47"}]
    made = partial(Agent, PromptModel(script=script), tools, strategy=strategy, human=lambda *_: Decision("approve"))
    result = made(instructions=" You are a pirate.\n").run("How old?")
    assert result.answer == "47"
    assert result.transcript.startswith("You are a pirate.\n\n")
    started, *log = result.events[:-1]
    assert isinstance(started, Started)
    assert made(instructions="You are a monk.").resume([started, *log]).transcript == result.transcript
    older = [replace(started, instructions=None), *log]  # the log of a version that did not record them
    assert made(instructions="You are a pirate.").resume(older).transcript == result.transcript


def test_what_auto_chose_is_recorded_and_stays() -> None:
    native = Native([Reply("", calls=(AgentAction("lookup", {"name": "Ada"}),)), Reply("47")])
    result = Agent(native, [lookup]).run("How old is Ada?")
    assert isinstance(started := result.events[0], Started)
    assert (started.strategy, result.answer) == ("tool_calling", "47")
    again = Agent(Native([Reply("48")]), [lookup]).resume(result.events[:-2])
    assert (again.answer, again.events[0]) == ("48", started)
    older = agent(strategy="react").run("How old is Ada?").events
    assert agent(strategy="auto").resume(older[:-1]).answer == "47"


@pytest.mark.parametrize(
    ("abilities", "strategy"),
    [
        (Capabilities(calls_tools=True), "tool_calling"),
        (Capabilities(constrains=True, calls_tools=True), "react"),
        (Capabilities(), "react"),
        (Capabilities(calls_tools=True, scripted=True), "react"),
    ],
)
def test_auto_goes_by_what_the_engine_can_do(abilities: Capabilities, strategy: str) -> None:
    started = next(Agent(Native([Reply("Final Answer: x")], abilities), [lookup]).stream("?"))
    assert isinstance(started, Started)
    assert started.strategy == strategy


def test_an_engine_that_is_held_to_a_pattern_is_not_probed() -> None:
    model = Native([Reply("x")], Capabilities(constrains=True))
    next(Agent(model, [lookup]).stream("?"))
    assert model.probed == 0
    next(Agent(model, [lookup], strategy="tool_calling").stream("?"))
    assert model.probed == 1


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are called 'lookup'"):
        agent().add_tool(Tool("lookup", len))


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no strategy 'guess'; there are: auto, react"):
        agent(strategy="guess")
    with pytest.raises(UsageError, match="no strategy 'raect'; did you mean 'react'"):
        agent(strategy="raect")
    with pytest.raises(UsageError, match="Agent takes no 'instruction'; did you mean 'instructions'"):
        agent(instruction="x")


def test_limits_have_the_names_of_other_frameworks_as_well() -> None:
    assert agent(max_steps=3, max_execution_time=2.5, early_stopping_method="force").budget == Budget(
        3, 2.5, early_stopping_method="force"
    )
    assert agent(max_iterations=4, budget=Budget(tokens=9)).budget == Budget(4, tokens=9)
    with pytest.raises(UsageError, match="max_iterations is the same limit as max_steps"):
        agent(max_steps=3, max_iterations=3)
    with pytest.raises(UsageError, match="max_steps is the same limit as steps of budget"):
        agent(max_steps=3, budget=Budget(steps=2))


def test_a_batch_of_nothing_at_a_time_is_refused() -> None:
    with pytest.raises(UsageError, match="at_once must be at least 1, not 0"):
        agent().run_batch(["?"], at_once=0)


def test_the_first_error_of_a_batch_is_raised_as_it_is() -> None:
    with pytest.raises(UsageError, match="the question is empty") as raised:
        agent().run_batch(["How old is Ada?", ""])
    assert raised.value.__notes__ == ["(number 2 of the batch)"]
    with pytest.raises(ModelUnavailable, match="the script answers 500"):
        Agent(PromptModel(script=[{"error": 500}], retries=Retries(1)), [lookup]).run_batch(["?", "?"])


def test_what_a_batch_was_answered_is_not_lost_to_a_later_failure() -> None:
    script = [{"when": "Bob", "error": 500}, *SCRIPT]
    model = PromptModel(script=script, retries=Retries(1))
    ada, bob = Agent(model, [lookup]).run_batch(["How old is Ada?", "How old is Bob?"], at_once=1)
    assert ada.answer == "47"
    assert (bob.stop_reason, bob.error) == (StopReason.ERROR, "the script answers 500")


@pytest.mark.parametrize("copied", [lambda a: a.with_memory(()), lambda a: a.with_answers({"type": "integer"})])
def test_a_copy_has_tools_of_its_own(copied: Any) -> None:
    one = agent()
    copied(one).add_tool("more", lambda query: query)
    assert [tool.name for tool in one.tools] == ["lookup"]


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
