"""What all strategies that go step by step share."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, Budget, Message, PromptModel, RunResult, StopReason, tool
from retinue.core.events import Asked
from retinue.core.protocols import Strategy
from retinue.core.values import Capabilities, Reply
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import React, ReactJson, SelfAsk, ToolCalling, simple
from retinue.strategies.parsing.react_text import parse
from retinue.tools import calculator


@tool(effects="read")
def lookup(city: str) -> str:
    """Look up how many thousands of people live in a city."""
    return f"{city} has { ({'Paris': 2103, 'Lyon': 520}[city]) } thousand people."


@tool(effects="read")
def weather(city: str, days: int) -> str:
    """Forecast the weather."""
    return f"{days} sunny days in {city}"


TOOLS = [lookup, calculator, weather]


def own_prompt(inputs: Mapping[str, Any]) -> str:
    steps = "".join(f"{action.log}\nObservation: {seen}\n" for action, seen in inputs["intermediate_steps"])
    return f"Question: {inputs['input']}\n{steps}"


def own_parse(text: str) -> AgentAction | AgentFinish:
    return parse(text, TOOLS).decision


STRATEGIES: dict[str, Strategy] = {
    "react": React(),
    "react_json": ReactJson(),
    "tool_calling": ToolCalling(),
    "self_ask": SelfAsk(),
    "own": simple("own", prompt=own_prompt, parse=own_parse),
}
SEVERAL = ["react_json", "tool_calling", "self_ask"]
every = pytest.mark.parametrize("name", STRATEGIES)


class Listening:
    """A scripted model that keeps what it was asked."""

    name = "listening"

    def __init__(self, script: list[Any], *, constrained: bool = False) -> None:
        self._script = PromptModel(script=script)
        self._constrained = constrained
        self.asked: list[Any] = []

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(constrains=self._constrained, calls_tools=True)

    def reply(self, request: Any) -> Any:
        self.asked.append(request)
        return self._script.reply(request)


def run(name: str, model: Any, steps: int = 10, **options: Any) -> RunResult:
    return Agent(model, TOOLS, strategy=STRATEGIES[name], budget=Budget(steps)).run("How many?", **options)


FOUR_STEPS = [
    {"when": "4726", "finish": "4726 thousand"},
    {"when": "Lyon has 520", "call": {"tool": "Calculator", "input": "4206 + 520"}},
    {"when": "4206", "call": {"tool": "lookup", "input": "Lyon"}},
    {"when": "Paris has 2103", "call": {"tool": "Calculator", "input": "2103 * 2"}},
    {"when": ".", "call": {"tool": "lookup", "input": "Paris"}},
]


@every
@pytest.mark.parametrize("constrained", [False, True])
def test_each_prompt_extends_the_one_before_byte_for_byte(name: str, constrained: bool) -> None:
    model = Listening(FOUR_STEPS, constrained=constrained)
    result = run(name, model)
    assert (result.answer, len(result.steps)) == ("4726 thousand", 4)
    assert {event.prompt for event in result.events if isinstance(event, Asked)} == {0}
    prompts = [request.prompt for request in model.asked]
    assert all(later.messages[: len(former.messages)] == former.messages for former, later in pairwise(prompts))
    assert all(later.text.startswith(former.text) for former, later in pairwise(prompts))


@pytest.mark.parametrize("name", SEVERAL)
def test_several_actions_of_one_reply_run_together_and_each_result_is_named(name: str) -> None:
    both = [{"tool": "lookup", "input": "Paris"}, {"tool": "weather", "input": {"city": "Rome", "days": 2}}]
    model = Listening([{"when": "Paris has.*\n.*2 sunny", "finish": "done"}, {"when": ".", "call": both}])
    result = run(name, model)
    assert result.answer == "done"
    (step,) = result.steps
    assert [action.tool for action in step.actions] == ["lookup", "weather"]
    told = model.asked[1].prompt.text
    assert told.count("Paris has 2103") == told.count("2 sunny days") == 1, "each result is told once"
    assert result.usage.requests == 2


@every
def test_the_last_step_asks_for_the_answer(name: str) -> None:
    script = [{"when": "Paris has", "finish": "2103"}, {"when": ".", "call": {"tool": "lookup", "input": "Paris"}}]
    model = Listening(script)
    result = run(name, model, steps=2)
    assert (result.answer, result.stop_reason) == ("2103", StopReason.ANSWER)
    assert [event.closing for event in result.events if isinstance(event, Asked)] == [False, True]
    assert model.asked[1].prompt.text.startswith(model.asked[0].prompt.text)
    assert model.asked[1].tool_choice == ("none" if name == "tool_calling" else "auto")
    assert bool(model.asked[1].tools) == (name == "tool_calling"), "the tools are still sent: the provider's cache"


# ── replies that cannot be read ──────────────────────────────────────────────────────────────────

RUBBISH = {"raw": "  \n", "times": 2}


def looking_up(*rubbish: dict[str, Any]) -> list[Any]:
    """Looks up Paris, says rubbish, then the answer."""
    first = {"when": "^How many", "call": {"tool": "lookup", "input": "Paris"}, "times": 1}
    return [first, *rubbish, {"when": ".", "finish": "2103"}]


@every
def test_an_unreadable_reply_is_answered_with_the_form_twice_and_then_asked_for_without_them(name: str) -> None:
    model = Listening(looking_up({"raw": " \n", "times": 3}))
    result = run(name, model)
    assert (result.answer, result.stop_reason) == ("2103", StopReason.ANSWER)
    asked = [event for event in result.events if isinstance(event, Asked)]
    assert [event.prompt for event in asked] == [0, 0, 0, 0, 1]
    assert [bool(event.problem) for event in asked] == [False, False, True, True, True]
    texts = [request.prompt.text for request in model.asked]
    assert asked[2].problem in texts[2] or name == "simple"
    assert texts[3].startswith(texts[2])
    assert not texts[4].startswith(texts[3])
    assert texts[4].startswith(texts[1].removesuffix("Thought:").removesuffix("\n Your response: "))
    assert len(texts[4]) < len(texts[3]), "the unreadable turns are gone"
    assert "Paris has 2103" in texts[4]


@every
def test_a_model_that_stays_unreadable_ends_the_run_cleanly(name: str) -> None:
    result = run(name, Listening(looking_up({"when": "", "raw": " \n"})))
    assert (result.answer, result.stop_reason) == ("", StopReason.UNREADABLE_REPLY)
    assert result.usage.requests == 1 + 4


@every
def test_once_a_reply_is_readable_again_the_count_begins_anew(name: str) -> None:
    rubbish = {"raw": " \n", "times": 2}
    script = [
        {"when": "^How many", "call": {"tool": "lookup", "input": "Paris"}, "times": 1},
        rubbish,
        {"when": ".", "call": {"tool": "lookup", "input": "Lyon"}, "times": 1},
        dict(rubbish),
        {"when": ".", "finish": "2103"},
    ]
    result = run(name, Listening(script))
    assert result.answer == "2103"
    assert {event.prompt for event in result.events if isinstance(event, Asked)} == {0}


@every
def test_a_run_with_unreadable_replies_can_be_resumed_after_any_event(name: str) -> None:
    whole = run(name, Listening(looking_up({"raw": " \n", "times": 3})))
    agent = Agent(Listening([{"when": ".", "finish": "2103"}]), TOOLS, strategy=STRATEGIES[name], budget=Budget(10))
    for cut in range(4, len(whole.events)):
        resumed = agent.resume(whole.events[:cut])
        assert (resumed.answer, resumed.stop_reason) == ("2103", StopReason.ANSWER), cut


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("react", " hm\nAction: lookup\nAction Input: Par"),
        ("react_json", '{"actions": [{"action": "lookup", "arguments": {"city": "Par'),
        ("react_json", '{"actions": [{"action": "lookup", "arguments": {"city": "Lyon"}}, {"action": "lookup", "argu'),
        ("react_json", '{"answer": "about 21'),
        ("self_ask", " Yes.\nFollow up [lookup]: Par"),
        ("own", " hm\nAction: lookup\nAction Input: Par"),
    ],
)
def test_a_reply_cut_in_the_middle_of_an_action_is_unreadable(name: str, cut: str) -> None:
    ends = {"react_json": '{"answer": "2103"}', "self_ask": " No.\nSo the final answer is: 2103"}
    model = Said(
        [Reply(cut, finish="length"), ends.get(name, " I know\nFinal Answer: 2103")], Capabilities(calls_tools=True)
    )
    result = run(name, model)
    assert (result.answer, result.steps) == ("2103", ())
    assert model.asked[1].problem


ANSWERS = {
    "react": " I know\nFinal Answer: about 21",
    "react_json": '{"answer": "about 21"}',
    "self_ask": " No.\nSo the final answer is: about 21",
    "own": " I know\nFinal Answer: about 21",
    "tool_calling": "about 21",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_reply_that_was_withheld_is_not_asked_for_again(name: str) -> None:
    result = run(name, Said([Reply("hm", finish="content_filter")], Capabilities(calls_tools=True)))
    assert result.stop_reason is StopReason.CONTENT_FILTERED


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "tool_calling"])
def test_what_stays_cut_ends_as_that(name: str) -> None:
    cut = " Yes.\nFollow up [lookup]: Par" if name == "self_ask" else '{"actions": [{"action": "lookup", "argu'
    result = run(name, Said([Reply(cut, finish="length")] * 5, Capabilities(calls_tools=True)))
    assert result.stop_reason is StopReason.REPLY_TRUNCATED


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "strategy",
    [
        React(trim_intermediate_steps=1),
        ReactJson(trim_intermediate_steps=1),
        ToolCalling(trim_intermediate_steps=1),
        SelfAsk(trim_intermediate_steps=1),
        simple("own", prompt=own_prompt, parse=own_parse, trim_intermediate_steps=1),
        simple("own", prompt=own_prompt, parse=own_parse, trim_intermediate_steps=lambda steps: steps[-1:]),
    ],
    ids=lambda strategy: strategy.name,
)
def test_only_the_last_steps_stay_in_the_prompt(strategy: Strategy) -> None:
    model = Listening(FOUR_STEPS)
    result = Agent(model, TOOLS, strategy=strategy).run("How many?")
    assert (result.answer, len(result.steps)) == ("4726 thousand", 4), "the steps themselves are all there"
    last = model.asked[-1].prompt
    text = last.text + " ".join(str(message.calls) for message in last.messages)
    assert "How many?" in text
    assert "4206 + 520" in text
    assert "4726" in text
    assert "Paris" not in text.rpartition("How many?")[2]


def test_a_conversation_is_written_as_people_read_it() -> None:
    history = [Message("user", "I am Ada."), Message("assistant", "Hello Ada.")]
    model = Listening([{"when": ".", "finish": "Ada"}])
    run("react", model, history=history)
    assert "Begin!\nHuman: I am Ada.\nAI: Hello Ada.\nQuestion: How many?\n" in model.asked[0].prompt.text


@pytest.mark.parametrize(
    ("name", "replies", "best"),
    [
        ("react", [" It is big.\nAction: lookup\nAction Input: Paris\n"], "It is big."),
        ("react_json", ['{"answer": "2?", "actions": [{"action": "lookup", "arguments": {"city": "Paris"}}]}'], "2?"),
        (
            "react_json",
            ['{"actions": [{"action": "lookup", "arguments": {"city": "Paris"}}], "scratchpad": {"thought": "big"}}'],
            "big",
        ),
        ("tool_calling", [Reply("I guess 2000", calls=(AgentAction("lookup", {"city": "Paris"}),))], "I guess 2000"),
        (
            "self_ask",
            [" Yes.\nFollow up [lookup]: Paris\n", "Follow up [lookup]: Lyon\n"],
            "Paris has 2103 thousand people.",
        ),
    ],
)
def test_the_best_answer_so_far_is_kept_for_a_run_that_is_stopped(
    name: str, replies: list[str | Reply], best: str
) -> None:
    model = Said(replies, Capabilities(calls_tools=True))
    budget = Budget(len(replies), early_stopping_method="force")
    result = Agent(model, TOOLS, strategy=STRATEGIES[name], budget=budget).run("How many?")
    assert result.stop_reason is StopReason.MAX_ITERATION_EXCEEDED
    assert result.events[-1].best == best  # type: ignore[union-attr]
