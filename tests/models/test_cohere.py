"""What is Cohere's alone: the plan of its tool calls, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fakes.asking import chunks, reply, request, retries, shown
from fakes.engines import ENGINES, model
from fakes.vendor_server import Answer, VendorServer
from retinue import Message
from retinue.core.prompt import Ask, Prompt
from retinue.core.tool import tool_of
from retinue.core.values import AgentAction


@pytest.fixture
def server() -> Iterator[VendorServer]:
    with ENGINES["cohere"]() as server:
        yield server


def look(where: str) -> str:
    """Look somewhere."""
    return where


def test_a_plan_is_the_text_of_a_reply_with_calls_and_goes_back_as_one(server: VendorServer) -> None:
    call = AgentAction("look", {"where": "here"}, id="look_0")
    prompt = Prompt(Message("user", "Where?")).add(
        Message("assistant", "I will look.", (call,)), Message("tool", "found", call_id=call.id, tool="look")
    )
    server.replies += ["there"]
    asked = request(prompt)
    reply(model(server), Ask(prompt, "found", asked.write, tools=(tool_of(look),), tool_choice="required"))
    turn = server.asked[0].body["messages"][1]
    assert turn["tool_plan"] == "I will look."
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == {"where": "here"}
    assert server.asked[0].body["tool_choice"] == "REQUIRED"


@pytest.mark.parametrize("reason", ["ERROR", "TIMEOUT"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_that_ended_in_an_error_is_asked_again(server: VendorServer, reason: str, stream: bool) -> None:
    whole = {"message": {"content": [{"type": "text", "text": "ha"}]}, "finish_reason": reason}
    event = {"type": "message-end", "delta": {"finish_reason": reason}}
    server.replies += [Answer("half", event=json.dumps(event)) if stream else Answer(body=json.dumps(whole)), "all"]
    seen = chunks(model(server, stream=stream))
    assert [retry.problem for retry in retries(seen)] == [f"the engine reports: {reason}"]
    assert shown(seen) == "all"


def test_more_stop_words_than_it_takes_are_cut_here(server: VendorServer) -> None:
    server.replies += ["a 7 b"]
    assert reply(model(server), request(stop=[str(number) for number in range(9)])).text == "a "
    assert len(server.asked[0].body["stop_sequences"]) == 5
