"""Settings for one run, over the model's own: in every vendor's form, and never over what the budget allows."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.asking import reply, request
from fakes.engines import ENGINES, PROBED, model
from fakes.openai_server import OpenAIServer
from fakes.said import Said
from fakes.scripted_server import Answer
from retinue import Agent, Budget, StopReason, Tool
from retinue.core.values import Capabilities
from retinue.extend import AgentAction, Reply
from retinue.models.reply_limits import limit_replies
from retinue.strategies import ToolCalling

SAMPLING = {"temperature": 0.7, "top_p": 0.9, "seed": 7, "presence_penalty": 0.5, "frequency_penalty": 0.25}
LOOK = Tool("look", lambda name: f"{name} is found", "Look", effects="read")
ADD = Tool("add", lambda a: f"{a} is added", "Add", effects="read")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_vendor_gets_what_it_knows_under_its_own_name(engine: str) -> None:
    given = SAMPLING | {"max_tokens": 33, "stop": "END", "user": None}
    with ENGINES[engine]() as server:
        server.replies += ["a END b"]
        asked = limit_replies(
            model(server, temperature=0.1, options={"top_p": 0.2} if engine == "openai" else {}), options=given
        )
        assert reply(asked, request(stop=["Observation:"], max_tokens=9)).text == "a "
        body = server.asked[-1].flat
    names = {"top_p": "topP", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"}
    known = {
        "anthropic": {"temperature": 0.7, "top_p": 0.9},
        "cohere": {name: SAMPLING[name] for name in SAMPLING if name != "top_p"} | {"p": 0.9},
        "gemini": {names.get(name, name): value for name, value in SAMPLING.items()},
    }.get(engine, SAMPLING)
    assert {name: body.get(name) for name in known} == known
    assert 33 in (body.get("max_tokens"), body.get("num_predict"), body.get("maxOutputTokens"))
    assert (body.get("stop") or body.get("stop_sequences") or body.get("stopSequences")) == ["Observation:", "END"]


def test_what_is_said_last_counts(server: OpenAIServer) -> None:
    server.replies += ["a", "b"]
    own = limit_replies(model(server), ["x"], 10, {"seed": 1, "top_p": 0.5})
    reply(limit_replies(own, ["y"], 20, {"seed": 2}))
    reply(own)
    seen = [(one.body["seed"], one.body["top_p"], one.body["max_tokens"], one.body["stop"]) for one in server.asked]
    assert seen == [(2, 0.5, 20, ["x", "y"]), (1, 0.5, 10, ["x"])]
    assert limit_replies(own, options={"seed": None}) is own


def test_a_limit_of_ones_own_is_not_above_the_budgets() -> None:
    said = Said(["Final Answer: x"])
    Agent(limit_replies(said, max_tokens=500), [LOOK], budget=Budget(tokens=100)).run("?")
    Agent(limit_replies(said2 := Said(["Final Answer: x"]), max_tokens=5000), [LOOK]).run("?")
    assert (said.asked[0].max_tokens, said2.asked[0].max_tokens) == (100, 5000)


# ── tool_calling: which tool, and how many at once ───────────────────────────────────────────────


def called(*names: str) -> Reply:
    return Reply("", calls=tuple(AgentAction(name, {"a" if name == "add" else "name": "x"}) for name in names))


@pytest.mark.parametrize(
    ("choice", "asked"),
    [
        ("auto", [("auto", 2), ("auto", 2)]),
        ("none", [("none", 2), ("none", 2)]),
        ("required", [("required", 2), ("auto", 2)]),
        ("look", [("required", 1), ("auto", 2)]),
    ],
)
def test_a_choice_holds_until_a_tool_was_called(choice: str, asked: list[Any]) -> None:
    said = Said([called("look"), "done"], Capabilities(calls_tools=True))
    assert Agent(said, [LOOK, ADD], strategy=ToolCalling(tool_choice=choice)).run("?").answer == "done"
    assert [(one.tool_choice, len(one.tools)) for one in said.asked] == asked


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    result = Agent(Said([], Capabilities(calls_tools=True)), [LOOK], strategy=ToolCalling(tool_choice="lok")).run("?")
    assert (result.stop_reason, "there is no tool 'lok'" in result.error) == (StopReason.ERROR, True)


@pytest.mark.parametrize("engine", ENGINES)
def test_one_call_at_a_time(engine: str) -> None:
    with ENGINES[engine]() as server:
        calls = [("look", {"name": "x"}), ("add", {"a": "y"})]
        server.replies += [PROBED, Answer(calls=calls), "done"]
        result = Agent(model(server), [LOOK, ADD], strategy=ToolCalling(parallel=False)).run("?")
        assert (result.answer, [seen.text for seen in result.evidence]) == ("done", ["x is found"])
        body = server.asked[1].body
        told = body.get("parallel_tool_calls"), body.get("tool_choice")
    none = {"cohere": (None, None), "gemini": (None, None), "ollama": (None, None)}
    none["anthropic"] = (None, {"type": "auto", "disable_parallel_tool_use": True})  # type: ignore[assignment]
    assert told == none.get(engine, (False, "auto"))


def test_a_server_that_refuses_to_be_told_so_is_asked_without(server: OpenAIServer) -> None:
    server.unsupported = {"parallel_tool_calls": ""}
    server.replies += [PROBED, "done"]
    agent = Agent(model(server), [LOOK], strategy=ToolCalling(parallel=False))
    assert agent.run("?").answer == "done"
    assert "parallel_tool_calls" not in server.asked[-1].body
