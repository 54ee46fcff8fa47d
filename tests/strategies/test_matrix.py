"""Every strategy on every engine: a task of four steps with two tools, streamed and not.

What a model would say under each strategy is recorded from a script first; then each engine's stand-in
says it in its vendor's own format.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from fakes.engines import ENGINES, PROBED, model
from fakes.scripted_server import Answer
from retinue import Agent, Budget, Decision, PromptModel, StopReason, tool
from retinue.core.events import Replied
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import AgentAction, Capabilities
from retinue.strategies import STRATEGIES
from retinue.tools import calculator

QUESTION = "How many thousands live in Lyon and in twice Paris together?"
SCRIPT = [
    {"when": "4726", "finish": "4726 thousand"},
    {"when": "Lyon has 520", "call": {"tool": "Calculator", "input": "4206 + 520"}},
    {"when": "4206", "call": {"tool": "lookup", "input": "Lyon"}},
    {"when": "Paris has 2103", "call": {"tool": "Calculator", "input": "2103 * 2"}},
    {"when": ".", "call": {"tool": "lookup", "input": "Paris"}},
]


@tool(effects="read")
def lookup(city: str) -> str:
    """Look up how many thousands of people live in a city."""
    return f"{city} has { ({'Paris': 2103, 'Lyon': 520}[city]) } thousand people."


def approve(action: AgentAction, problem: str) -> Decision:
    return Decision("approve")


@dataclass
class Able:
    """A scripted model with the abilities of another."""

    script: PromptModel
    able: Capabilities
    name: str = "able"

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return self.able

    def reply(self, request: Ask) -> Chunks:
        return self.script.reply(request)


@cache
def said(strategy: str, able: Capabilities) -> tuple[Answer, ...]:
    """What a model with these abilities says under `strategy`."""
    agent = Agent(Able(PromptModel(script=SCRIPT), able), [lookup, calculator], strategy=strategy, human=approve)
    result = agent.run(QUESTION)
    assert (result.answer, result.stop_reason) == ("4726 thousand", StopReason.ANSWER), result
    replies = [event.reply for event in result.events if isinstance(event, Replied)]
    return tuple(Answer(reply.text, calls=[(call.tool, call.tool_input) for call in reply.calls]) for reply in replies)


@pytest.mark.matrix
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "careful"])  # its plans are no script's
def test_any_strategy_runs_on_any_engine(strategy: str, engine: str, stream: bool) -> None:
    native = bool(getattr(STRATEGIES[strategy], "native", False))
    constrains = engine in ("vllm", "tgi", "llamacpp")
    with ENGINES[engine]() as server:
        server.replies += [PROBED] * native
        server.replies += said(strategy, Capabilities(constrains=constrains, calls_tools=native))
        agent = Agent(
            model(server, stream=stream), [lookup, calculator], strategy=strategy, budget=Budget(12), human=approve
        )
        result = agent.run(QUESTION)
    assert (result.answer, result.stop_reason) == ("4726 thousand", StopReason.ANSWER), result.transcript
    assert [seen.text for seen in result.evidence] == [
        "Paris has 2103 thousand people.",
        "4206",
        "Lyon has 520 thousand people.",
        "4726",
    ]
    assert not server.replies


@pytest.mark.parametrize("engine", ENGINES)
def test_native_tool_calls_that_do_not_work_are_replaced_by_json_and_the_trace_says_so(engine: str) -> None:
    constrains = engine in ("vllm", "tgi", "llamacpp")
    with ENGINES[engine]() as server:
        server.replies += ["I would call add(19, 23)."]
        server.replies += said("react_json", Capabilities(constrains=constrains))
        agent = Agent(model(server), [lookup, calculator], strategy="tool_calling")
        result = agent.run(QUESTION)
        assert result.answer == "4726 thousand"
        assert result.events[0].abilities.problem  # type: ignore[union-attr]
        server.replies += said("react_json", Capabilities(constrains=constrains))
        assert agent.run(QUESTION).answer == "4726 thousand", "the probe is remembered"
        assert not server.replies
