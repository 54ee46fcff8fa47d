"""What is Anthropic's alone: where the system prompt, results and errors stand, and what it counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fakes.asking import chunks, reply, request, retries
from fakes.engines import ENGINES, model
from fakes.scripted_server import Answer, ScriptedServer, failure
from retinue import Message, ModelRefused
from retinue.core.prompt import Prompt
from retinue.core.schema.patterns import Constraint, Text
from retinue.core.values import AgentAction, Usage
from retinue.errors import ModelError, ModelNotFound, ModelUnavailable, WindowExceeded
from retinue.models.wire_format import Encoded, PartialReply
from retinue.models.wires import messages
from retinue.net.retry import Retries


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ENGINES["anthropic"]() as server:
        yield server


def sent(server: ScriptedServer, *messages: Message) -> dict[str, Any]:
    server.replies += ["ok"]
    reply(model(server), request(Prompt(messages[0]).add(*messages[1:])))
    return server.asked[-1].body


def test_the_system_prompt_stands_apart_and_the_prefix_is_cached(server: ScriptedServer) -> None:
    body = sent(server, Message("system", "Be brief.\n"), Message("system", "Be kind."), Message("user", "Hi"))
    assert body["system"] == "Be brief.\n\nBe kind."
    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]


def test_a_later_system_message_is_a_users(server: ScriptedServer) -> None:
    body = sent(server, Message("user", "Hi"), Message("assistant", "Hello"), Message("system", "Hurry."))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert "system" not in body


def test_a_lone_system_prompt_is_a_message(server: ScriptedServer) -> None:
    assert sent(server, Message("system", "Say hello."))["messages"] == [{"role": "user", "content": "Say hello."}]


def test_blank_messages_are_left_out(server: ScriptedServer) -> None:
    body = sent(server, Message("user", "Hi"), Message("assistant", " \n"), Message("user", "?"))
    assert len(body["messages"]) == 2


def test_the_results_of_one_step_are_one_message() -> None:
    calls = (AgentAction("add", {}, id="a.1"), AgentAction("add", "x", id="a.2"))
    results = [Message("tool", text, call_id=call.id) for call, text in zip(calls, ("3", ""), strict=True)]
    encoded = messages.MESSAGES.encode_messages(Encoded(), [Message("assistant", "", calls)])
    for result in results:  # one by one, as when another step's come later
        encoded = messages.MESSAGES.encode_messages(encoded, [result])
    _, uses, told = json.loads(messages.MESSAGES.write_body(b"{", encoded).replace(b"{, ", b"{"))["messages"]
    assert [use["input"] for use in uses["content"]] == [{}, {"input": "x"}]
    assert told["content"] == [
        {"type": "tool_result", "tool_use_id": "a_1", "content": "3"},
        {"type": "tool_result", "tool_use_id": "a_2"},
    ]


def test_thinking_is_passed_over() -> None:
    arriving = PartialReply()
    for event in (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "42"}},
    ):
        messages.MESSAGES.read_body(event, arriving)
    assert (arriving.said, arriving.calls) == ("42", {})


@pytest.mark.parametrize("stream", [True, False])
def test_input_tokens_are_all_that_were_read_whether_cached_or_not(server: ScriptedServer, stream: bool) -> None:
    server.replies += [Answer("one two", cached=3)]
    used = reply(model(server, stream=stream), request("a b c d e")).usage
    assert used == Usage(5, 2, 3, 1, cache_write_tokens=1)


def test_an_overloaded_server_is_asked_again(server: ScriptedServer) -> None:
    server.replies += [failure(529, "Overloaded"), Answer("x", broken="Overloaded"), "ok"]
    problems = [retry.problem for retry in retries(chunks(model(server)))]
    assert problems == [f"{server.url}/v1 answered 529: Overloaded", "the engine reports: Overloaded"]


ERRORS: Sequence[tuple[int, str, str, type[ModelError]]] = (
    # https://platform.claude.com/docs/en/api/errors
    (400, "invalid_request_error", "prompt is too long: 205412 tokens > 200000 maximum", WindowExceeded),
    (400, "invalid_request_error", "messages: roles must alternate", ModelRefused),
    (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", ModelRefused),
    (401, "authentication_error", "invalid x-api-key", ModelRefused),
    (402, "billing_error", "There's an issue with your billing or payment information.", ModelRefused),
    (403, "permission_error", "Your API key does not have permission to use the specified resource.", ModelRefused),
    (404, "not_found_error", "model: claude-0", ModelNotFound),
    (413, "request_too_large", "Request exceeds the maximum allowed number of bytes.", WindowExceeded),
    (429, "rate_limit_error", "This request would exceed your organization's rate limit", ModelUnavailable),
    (500, "api_error", "Internal server error", ModelUnavailable),
    (504, "timeout_error", "The request timed out while processing.", ModelUnavailable),
    (529, "overloaded_error", "Overloaded", ModelUnavailable),
)


def test_errors_are_understood_by_status_and_in_a_stream(server: ScriptedServer) -> None:
    for status, code, words, kind in ERRORS:
        event = json.dumps({"type": "error", "error": {"type": code, "message": words}})
        for answer in (failure(status, words, code=code), Answer("x", event=event)):
            if answer.event and status in (401, 403, 404):  # such come before a stream
                continue
            server.replies += [answer]
            with pytest.raises(ModelError) as error:
                chunks(model(server, retries=Retries(tries=1)))
            assert type(error.value) is kind, (words, bool(answer.event))


def test_a_refusal_in_a_stream_is_final(server: ScriptedServer) -> None:
    event = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such thing"}}
    server.replies += [Answer("x", event=json.dumps(event))]
    with pytest.raises(ModelRefused, match="the engine reports: no such thing"):
        chunks(model(server))


def test_a_parameter_that_a_model_no_longer_takes_is_left_out(server: ScriptedServer) -> None:
    server.replies += [failure(400, "`temperature` is deprecated for this model."), "a", "b"]
    kept = model(server, temperature=0.5)
    assert [reply(kept).text for _ in range(2)] == ["a", "b"]
    assert ["temperature" in one.body for one in server.asked] == [True, False, False]


def test_a_schema_that_allows_more_is_not_sent(server: ScriptedServer) -> None:
    server.replies += ["ok"]
    reply(model(server), request(constraint=Constraint(Text("ok"), {"type": "object"})))
    assert "output_config" not in server.asked[0].body
