"""What is Cohere's alone: the plan of its tool calls, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fakes.asking import chunks, reply, request, retries, shown
from fakes.engines import ENGINES, model
from fakes.scripted_server import Answer, ScriptedServer, sse
from retinue import Message
from retinue.core.prompt import Ask, Prompt
from retinue.core.tools.tool import make_tool
from retinue.core.values import AgentAction


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ENGINES["cohere"]() as server:
        yield server


def look(where: str) -> str:
    """Look somewhere."""
    return where


def test_what_others_say_beside_calls_is_sent_as_a_plan(server: ScriptedServer) -> None:
    call = AgentAction("look", {"where": "here"}, id="look_0")
    prompt = Prompt(Message("user", "Where?")).add(
        Message("assistant", "I will look.", (call,)), Message("tool", "found", call_id=call.id, tool="look")
    )
    server.replies += ["there"]
    asked = request(prompt)
    reply(model(server), Ask(prompt, "found", asked.write, tools=(make_tool(look),), tool_choice="required"))
    turn = server.asked[0].body["messages"][1]
    assert turn["tool_plan"] == "I will look."
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == {"where": "here"}
    assert server.asked[0].body["tool_choice"] == "REQUIRED"


@pytest.mark.parametrize("stream", [True, False])
def test_a_plan_is_reasoning_and_goes_back_as_a_plan(server: ScriptedServer, stream: bool) -> None:
    server.replies += [Answer("I will look.", calls=[("look", {"where": "here"})]), "there"]
    one, asked = model(server, stream=stream), replace(request("Where?"), tools=(make_tool(look),))
    planned = reply(one, asked)
    assert (planned.text, planned.reasoning) == ("", "I will look.")
    turn = Message("assistant", planned.text, planned.calls, state=planned.state)
    result = Message("tool", "found", call_id=planned.calls[0].id, tool="look")
    reply(one, request(asked.prompt.add(turn, result)))
    assert server.asked[1].body["messages"][1]["tool_plan"] == "I will look."


@pytest.mark.parametrize("stream", [True, False])
def test_a_plan_without_calls_is_not_the_answer(server: ScriptedServer, stream: bool) -> None:
    events = [
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "I need no tool."}}},
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Here."}}}},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    ]
    message = {"tool_plan": "I need no tool.", "content": [{"type": "text", "text": "Here."}]}
    whole = json.dumps({"message": message, "finish_reason": "COMPLETE"})
    server.replies += [sse(*events) if stream else Answer(body=whole)]
    got = reply(model(server, stream=stream))
    assert (got.text, got.reasoning) == ("Here.", "I need no tool.")


@pytest.mark.parametrize("reason", ["ERROR", "TIMEOUT"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_that_ended_in_an_error_is_asked_again(server: ScriptedServer, reason: str, stream: bool) -> None:
    whole = {"message": {"content": [{"type": "text", "text": "ha"}]}, "finish_reason": reason}
    event = {"type": "message-end", "delta": {"finish_reason": reason}}
    server.replies += [Answer("half", event=json.dumps(event)) if stream else Answer(body=json.dumps(whole)), "all"]
    seen = chunks(model(server, stream=stream))
    assert [retry.problem for retry in retries(seen)] == [f"the engine reports: {reason}"]
    assert shown(seen) == "all"


def test_more_stop_words_than_it_takes_are_cut_here(server: ScriptedServer) -> None:
    server.replies += ["a 7 b"]
    assert reply(model(server), request(stop=[str(number) for number in range(9)])).text == "a "
    assert len(server.asked[0].body["stop_sequences"]) == 5
