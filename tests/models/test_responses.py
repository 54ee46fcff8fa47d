"""OpenAI's Responses API: what is sent, what is read, what comes back, and what is learned."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from fakes.app_server import KEY, Serving
from fakes.asking import chunks, reply
from fakes.json_service import Said
from fakes.pictures import png
from fakes.responses_server import (
    CHAT,
    SEALED,
    Json,
    ModelServer,
    always,
    ask,
    call,
    engine,
    events,
    reasoning,
    refused,
    response,
    said,
    to_those_with,
)
from fakes.vendors import VendorServer
from fakes.vendors.openai_responses import RESPONSES
from retinue import Agent, Decision, Message, ModelRefused, PromptModel, Tool, fork
from retinue.core.events import Called, Delta, Replied, Started
from retinue.core.prompt import Ask
from retinue.core.schema.patterns import Constraint, choice, seq
from retinue.core.values import AgentAction, File, ProviderState, Reply, Usage
from retinue.errors import ModelNotFound, ModelUnavailable, UsageError, WindowExceeded
from retinue.models import known_servers
from retinue.models.engine import HttpEngine
from retinue.strategies.tool_calling import ToolCalling
from retinue.testing import SCRIPT


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look(what: str, where: str = "here") -> str:
    """Look something up."""
    return f"{what} is {where}"


TOOLS = [Tool("add", add, effects="read"), Tool("look", look, effects="read")]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as at:
        yield at


def first_step(events: Sequence[Any]) -> list[Any]:
    """The log up to its first call, before there was a result."""
    return list(events[: next(at for at, one in enumerate(events) if isinstance(one, Called)) + 1])


# ── the request ──────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_sent_that_nobody_asked_for(server: ModelServer) -> None:
    reply(engine(server))
    assert server.asked[-1].path == "/v1/responses"
    assert server.bodies[-1] == {
        "model": "gpt-6",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "input": [{"role": "user", "content": "Hello?"}],
    }


REQUESTS: Mapping[str, tuple[Json, Ask, Json]] = {
    "what is asked for": (
        {"effort": "low", "summary": "auto", "verbosity": "high", "temperature": 1.0, "stream": False},
        ask(max_tokens=100),
        {
            "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"verbosity": "high"},
            "temperature": 1.0,
            "max_output_tokens": 100,
        },
    ),
    "fewer tokens than there may be": ({}, ask(max_tokens=3), {"max_output_tokens": 16}),
    "a request's own options": (
        {"effort": "low", "verbosity": "low"},
        ask(
            options={
                "reasoning_effort": "high",
                "reasoning_summary": "concise",
                "top_p": 0.5,
                "seed": 1,
                "logit_bias": {},
            }
        ),
        {
            "reasoning": {"effort": "high", "summary": "concise"},
            "text": {"verbosity": "low"},
            "top_p": 0.5,
            "seed": None,
        },
    ),
    "tools": (
        {},
        ask(tools=TOOLS[1:], tool_choice="required", options={"parallel_tool_calls": False}),
        {
            "tools": [
                {
                    "type": "function",
                    "strict": False,
                    "name": "look",
                    "description": "Look something up.",
                    "parameters": TOOLS[1].signature.parameters,
                }
            ],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        },
    ),
    "hosted tools and other options": (
        {
            "effort": "low",
            "options": {
                "tools": [{"type": "web_search"}],
                "include": ["web_search_call.action.sources"],
                "reasoning": {"summary": "detailed"},
                "service_tier": "flex",
            },
        },
        ask(tools=TOOLS[:1], tool_choice="none"),
        {
            "tools": [..., {"type": "web_search"}],
            "tool_choice": "none",
            "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
            "reasoning": {"effort": "low", "summary": "detailed"},
            "service_tier": "flex",
        },
    ),
    "a form": (
        {"verbosity": "low"},
        ask(constraint=Constraint(seq("A: ", choice("yes")), {"type": "object", "properties": {}})),
        {
            "text": {
                "verbosity": "low",
                "format": {
                    "type": "json_schema",
                    "name": "reply",
                    "schema": {"type": "object", "properties": {}},
                    "strict": False,
                },
            }
        },
    ),
    "a conversation": (
        {},
        ask(
            Message("system", "Be brief."),
            Message("user", "See", files=(File("1", "image/png", data=png()),)),
            Message("assistant", "I see."),
            Message("assistant", "", calls=(AgentAction("look", {"what": "Åbo"}, id="call_1_0"),)),
            Message("tool", "found", call_id="call_1_0", tool="look"),
            Message("user", "And?"),
        ),
        {
            "input": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "input_text", "text": "See"}, ...]},
                {"role": "assistant", "content": "I see."},
                {"type": "function_call", "call_id": "call_1_0", "name": "look", "arguments": '{"what": "Åbo"}'},
                {"type": "function_call_output", "call_id": "call_1_0", "output": "found"},
                {"role": "user", "content": "And?"},
            ]
        },
    ),
}


def fits(given: Any, wanted: Any) -> bool:
    """Whether they are equal, where `...` stands for anything."""
    if wanted is ...:
        return True
    if isinstance(wanted, list) and isinstance(given, list):
        return len(given) == len(wanted) and all(map(fits, given, wanted))
    if isinstance(wanted, dict) and isinstance(given, dict):
        return given.keys() == wanted.keys() and all(fits(given[name], wanted[name]) for name in wanted)
    return bool(given == wanted)


def test_requests_are_as_documented_and_as_the_sdk_types_them(server: ModelServer) -> None:
    from openai.types.responses.response_create_params import ResponseCreateParamsBase

    sdk: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsBase)
    wrong = {}
    for name, (settings, asked, wanted) in REQUESTS.items():
        reply(engine(server, **settings), asked)
        body = server.bodies[-1]
        sdk.validate_python(body)
        given = {key: body.get(key) for key in wanted}
        if not fits(given, wanted):
            wrong[name] = given
        assert body.keys() - wanted.keys() <= {"model", "store", "include", "stream", "input", "tools", "tool_choice"}
    assert wrong == {}


MODELS = {
    "/v1/responses": "gpt-5 gpt-5-mini gpt-5.6-sol gpt-6.2-astra gpt-5-pro o1 o1-pro o3 o3-mini o4-mini ft:o4-mini:x"
    " o4-mini-deep-research codex-mini-latest gpt-5.1-codex-max gpt-daybreak-blue-latest computer-use-preview",
    "/v1/chat/completions": "gpt-4o gpt-4.1-mini gpt-3.5-turbo gpt-5-search-api o1-mini o1-preview gpt-audio-mini"
    " gpt-oss-20b chatgpt-4o-latest gpt-4o-search-preview",
}


def test_models_that_think_are_asked_by_responses(server: ModelServer) -> None:
    server.rule = lambda asked: (200, CHAT if "chat" in asked.path else response(said("x")), {})
    for path, names in MODELS.items():
        for name in names.split():
            reply(engine(server, name, stream=False))
            assert (name, server.asked[-1].path) == (name, path)
    with pytest.raises(UsageError):
        PromptModel("anthropic:claude-5", api="responses", api_key="k")
    assert PromptModel("gpt-6", base_url="https://eu.api.openai.com/v1")._engine._vendor.suits("gpt-6")  # type: ignore[attr-defined]
    assert not PromptModel("gpt-6", base_url=server.url)._engine._vendor.suits("gpt-6")  # type: ignore[attr-defined]


# ── the reply ────────────────────────────────────────────────────────────────────────────────────

WEB = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
NO = [{"type": "refusal", "refusal": "I will not."}]
CUT: Json = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
FILTERED: Json = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
OPEN = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
UNSTREAMED = ("strange items", "a refusal", "thoughts of an open model")  # by the stand-in
REPLIES: Mapping[str, tuple[Json, Json]] = {
    "text": (response(said("Hi.")), {"text": "Hi."}),
    "a summary of several parts": (
        response(reasoning(1, "One.", "Two."), reasoning(2, "Three."), said("Hi.")),
        {"text": "Hi.", "reasoning": "One.\n\nTwo.\n\nThree."},
    ),
    "thoughts of an open model": (response(OPEN, said("Hi.")), {"text": "Hi.", "reasoning": "Hm."}),
    "a refusal": (response(said("", content=NO)), {"text": "I will not."}),
    "cut off": (response(said("Hi", status="incomplete"), **CUT), {"text": "Hi", "finish": "length"}),
    "cut off while thinking": (response(reasoning(), **CUT), {"finish": "length"}),
    "filtered": (response(said("Hi"), **FILTERED), {"text": "Hi", "finish": "content_filter"}),
    "two messages": (response(said("One."), said("Two.", 2)), {"text": "One.\n\nTwo."}),
    "a commentary before the answer": (
        response(said("I search.", phase="commentary"), WEB, said("Found.", 2, phase="final_answer")),
        {"text": "Found.", "reasoning": "I search."},
    ),
    "only a commentary": (response(said("Well.", phase="commentary")), {"text": "Well."}),
    "a call": (
        response(reasoning(), call(a=1, b=2)),
        {"calls": [("add", {"a": 1, "b": 2})], "kept": ["reasoning", "function_call"]},
    ),
    "a call, with what is said beside it, and a search before": (
        response(reasoning(), WEB, reasoning(2), said("Now.", phase="commentary"), call(a=1, b=2)),
        {
            "text": "Now.",
            "calls": [("add", {"a": 1, "b": 2})],
            "kept": ["reasoning", "web_search_call", "reasoning", "message", "function_call"],
        },
    ),
    "two calls, the second cut off": (
        response(reasoning(), call(a=1, b=2), reasoning(2), call(number=2) | {"arguments": '{"a": 1'}, **CUT),
        {"calls": [("add", {"a": 1, "b": 2})], "finish": "length", "kept": ["reasoning", "function_call"]},
    ),
    "a call after which it thought on": (
        response(reasoning(), call(a=1, b=2), reasoning(2), **CUT),
        {"calls": [("add", {"a": 1, "b": 2})], "finish": "length", "kept": ["reasoning", "function_call"]},
    ),
    "a call after thoughts that nobody can send back": (
        response(reasoning(encrypted_content=None), call(a=1, b=2)),
        {"calls": [("add", {"a": 1, "b": 2})], "kept": ["function_call"]},
    ),
    "strange items": (
        response({"type": "reasoning", "id": 3, "summary": "x"}, {"type": ["?"]}, said("Hi.", content=[None, 3])),
        {},
    ),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_replies_are_read(server: ModelServer, stream: bool) -> None:
    wrong = {}
    for name, (whole, wanted) in REPLIES.items():
        answer: Said | None = (200, whole, {}) if not stream or name in UNSTREAMED else None
        server.rule = always(answer)
        server.replies[:] = [whole]
        seen = chunks(engine(server, stream=stream), ask(tools=TOOLS))
        got = seen[-1]
        assert isinstance(got, Reply)
        kept = [item["type"] for item in json.loads(got.state.turn)] if got.state else []
        calls = [(one.tool, one.tool_input) for one in got.calls]
        shown = "".join(one.reasoning for one in seen if isinstance(one, Delta))
        found = {"text": got.text, "reasoning": got.reasoning, "finish": got.finish, "calls": calls, "kept": kept}
        if found != {"text": "", "reasoning": "", "finish": "stop", "calls": [], "kept": []} | wanted:
            wrong[name] = found
        assert shown == got.reasoning
        assert got.usage == Usage(20, 9, 4, 1, reasoning_tokens=5)
    assert wrong == {}


def test_refusals_and_open_thoughts_are_shown_as_they_arrive(server: ModelServer) -> None:
    thought = {"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "Hm."}
    pieces = [{"type": "response.refusal.delta", "item_id": "msg_1", "delta": piece} for piece in ("I will ", "not.")]
    end = {"type": "response.completed", "response": response(OPEN, said("", content=NO))}
    server.rule = lambda asked: events(thought, *pieces, end)
    *deltas, last = chunks(engine(server))
    assert [(one.text, one.reasoning) for one in deltas if isinstance(one, Delta)] == [("", "Hm."), ("I will not.", "")]
    assert isinstance(last, Reply)
    assert (last.text, last.reasoning) == ("I will not.", "Hm.")


STREAMS: Mapping[str, Callable[[list[Json]], list[Json]]] = {
    "ids that change": lambda events: [
        one | {"item_id": f"x{at}"} if "item_id" in one else one for at, one in enumerate(events)
    ],
    "no ids": lambda events: [{key: one[key] for key in one if key != "item_id"} for one in events],
    "no items that begin": lambda events: [one for one in events if one["type"] != "response.output_item.added"],
    "nothing at the end": lambda events: [
        *events[:-1],
        {**events[-1], "response": {**events[-1]["response"], "output": []}},
    ],
    "only the end": lambda events: events[-1:],
    "thoughts only at the end": lambda events: [
        one for one in events if "reasoning" not in one["type"] and one.get("item", {}).get("type") != "reasoning"
    ],
    "one index": lambda events: [one | {"output_index": 0} for one in events],
}


def test_streams_of_gateways_are_read(server: ModelServer) -> None:
    whole = response(reasoning(1, "Hm.", "Hm!"), said("I add."), call(a=1, b=2), call("look", 2, what="x"))
    lines = b"".join(RESPONSES.stream(whole)).decode().split("\n")
    as_documented = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    for name, change in STREAMS.items():
        server.rule = always(events(*change(as_documented)))
        got = reply(engine(server), ask(tools=TOOLS))
        assert (name, got.text, got.reasoning) == (name, "I add.", "Hm.\n\nHm!")
        assert got.state is not None
        assert (name, json.loads(got.state.turn)) == (name, whole["output"])


def failed(code: str, message: str = "No.") -> Json:
    return response(status="failed", error={"code": code, "message": message}, usage=None)


FAILURES: Mapping[str, tuple[Said, type[Exception]]] = {
    "the prompt is not allowed": ((200, failed("invalid_prompt"), {}), ModelRefused),
    "an image is not allowed": ((200, failed("image_content_policy_violation"), {}), ModelRefused),
    "the server failed": ((200, failed("server_error"), {}), ModelUnavailable),
    "cancelled": ((200, response(status="cancelled"), {}), ModelUnavailable),
    "too long": ((200, failed("context_length_exceeded"), {}), WindowExceeded),
    "the server failed in a stream": (
        events({"type": "response.failed", "response": failed("server_error")}),
        ModelUnavailable,
    ),
    "refused in a stream": (events({"type": "response.failed", "response": failed("invalid_prompt")}), ModelRefused),
    "an error in a stream": (
        events({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None}),
        ModelUnavailable,
    ),
    "a refusal in a stream, flat": (
        events({"type": "error", "code": "invalid_prompt", "message": "No."}),
        ModelRefused,
    ),
    "a refusal in a stream": (
        events(
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "x"},
            }
        ),
        WindowExceeded,
    ),
    "a stream that ends early": (
        events({"type": "response.output_text.delta", "item_id": "m", "delta": "Hi"}),
        ModelUnavailable,
    ),
    "no such model": (refused("The model `gpt-6` does not exist.", "model", "model_not_found", 404), ModelNotFound),
}


def test_failures_are_told_apart(server: ModelServer) -> None:
    for name, (answer, wanted) in FAILURES.items():
        server.rule = always(answer)
        with pytest.raises(wanted) as found:
            reply(engine(server))
        assert type(found.value) is wanted, name


# ── what is refused ──────────────────────────────────────────────────────────────────────────────

VERIFY = "Your organization must be verified to {}. Please go to: https://platform.openai.com/settings"
LEARNED: Mapping[str, tuple[Json, Json, str, Said]] = {
    # settings, options of the request, what is refused, how
    "encrypted content": ({}, {}, "include", refused("Encrypted content is not supported with this model.", "include")),
    "encrypted content, unnamed": ({}, {}, "include", refused("Encrypted content is not supported with this model.")),
    "summaries": (
        {"summary": "auto", "effort": "low"},
        {},
        "summary",
        refused(VERIFY.format("generate reasoning summaries"), "reasoning.summary", "unsupported_value"),
    ),
    "summaries, unnamed": ({"summary": "auto"}, {}, "summary", refused(VERIFY.format("generate reasoning summaries"))),
    "streaming": (
        {},
        {},
        "stream",
        refused(VERIFY.format("stream this model"), "stream", "unsupported_value"),
    ),
    "parallel calls": (
        {},
        {"parallel_tool_calls": False},
        "parallel_tool_calls",
        refused(
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", "parallel_tool_calls"
        ),
    ),
    "a strategy's temperature": (
        {},
        {"temperature": 0.7},
        "temperature",
        refused("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
    ),
    "a form": (
        {"verbosity": "low"},
        {"constraint": True},
        "format",
        refused(
            "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.", "text.format"
        ),
    ),
}


def test_what_we_added_is_left_out_once_it_is_refused(server: ModelServer) -> None:
    form = Constraint(seq("A: ", choice("yes")), {"type": "object", "properties": {}})
    for name, (settings, options, what, answer) in LEARNED.items():
        server.rule = to_those_with(f'"{what}"', answer)
        server.asked.clear()
        one = engine(server, **settings)
        given = ask(tools=TOOLS, options=options) if "constraint" not in options else ask(constraint=form)

        async def at_once(one: HttpEngine = one, given: Ask = given) -> list[Any]:
            async def last() -> Any:
                return [chunk async for chunk in one.reply(given)][-1]

            return [await last(), *await asyncio.gather(last(), last())]

        assert [got.text for got in asyncio.run(at_once())] == ["fine"] * 3, name
        assert len(server.asked) == 4, name  # one of them was refused
        for body in server.bodies[1:]:
            assert body.get("reasoning") == ({"effort": "low"} if "effort" in settings else None)
            assert body.get("text") == ({"verbosity": "low"} if "verbosity" in settings else None)


TOLD: Mapping[str, tuple[Json, Said]] = {
    "an effort that the model lacks": (
        {"effort": "minimal"},
        refused(
            "Unsupported value: 'minimal' is not supported with the 'gpt-6' model. Supported values are: 'high'.",
            "reasoning.effort",
            "unsupported_value",
        ),
    ),
    "a verbosity that the model lacks": (
        {"verbosity": "low"},
        refused("Unsupported value: 'low'. Supported values are: 'medium'.", "text.verbosity"),
    ),
    "that nothing is stored": (
        {},
        refused("Unsupported parameter: 'store' is not supported with this model.", "store"),
    ),
    "a temperature": (
        {"temperature": 0},
        refused("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
    ),
}


def test_what_was_asked_for_is_not_left_out_in_silence(server: ModelServer) -> None:
    for settings, answer in TOLD.values():
        server.rule = always(answer)
        server.asked.clear()
        with pytest.raises(ModelRefused) as told:
            reply(engine(server, **settings))
        words = answer[1]["error"]
        assert words["message"] in str(told.value)
        assert words["param"] in str(told.value)
        assert len(server.asked) == 1


USE_RESPONSES = [
    refused("This model is only supported in v1/responses and not in v1/chat/completions.", "model", None, 404),
    refused(
        "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function"
        " tools, use /v1/responses or set reasoning_effort to 'none'.",
        "reasoning_effort",
    ),
    refused(
        "The chatCompletion operation does not work with the specified model, prod. Please choose different model.",
        None,
        "OperationNotSupported",
    ),
]
USE_CHAT = [
    refused("Invalid URL (POST /v1/responses)", None, None, 404),
    refused("The responses operation does not work with the specified model, prod.", None, "OperationNotSupported"),
    refused("The requested operation is unsupported."),
    refused(
        "Azure OpenAI Responses API is enabled only for api-version 2025-03-01-preview and later", None, "BadRequest"
    ),
    refused("The requested model '-' with deployment name - does not exist.", "model", "model_not_found"),
    (404, {"error": {"code": "404", "message": "Resource not found"}}, {}),
    (405, b"Method not allowed", {"Content-Type": "text/html"}),
]


def both(path: str, there: Said, elsewhere: Said) -> Any:
    """A rule that answers differently at a path."""
    return lambda asked: there if asked.path == path else elsewhere


def test_the_other_api_is_used_if_a_model_has_only_that(server: ModelServer) -> None:
    for model, has, answers in (
        ("gpt-4o", "/v1/responses", USE_RESPONSES),
        ("gpt-6", "/v1/chat/completions", USE_CHAT),
    ):
        for answer in answers:
            works: Said = (200, response(said("fine")) if "responses" in has else CHAT, {})
            server.rule = both(has, works, answer)
            one = engine(server, model)
            server.asked.clear()
            assert [reply(one, ask(tools=TOOLS)).text for _ in range(2)] == ["fine", "fine"]
            assert [asked.path for asked in server.asked[1:]] == [has, has]
            server.asked.clear()
            with pytest.raises(ModelRefused):  # who names an API gets that one
                reply(engine(server, model, api="chat" if "responses" in has else "responses"), ask(tools=TOOLS))
    server.rule = lambda asked: refused("use /v1/responses" if "chat" in asked.path else "use /v1/chat/completions")
    with pytest.raises(ModelRefused):  # and a server that wants neither ends it
        reply(engine(server, "gpt-4o"))


def test_the_api_of_a_model_is_known_to_the_next_process(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path))
    monkeypatch.setenv("RETINUE_KNOWN_SERVERS", "on")
    server.rule = both("/v1/responses", (200, response(said("fine")), {}), USE_RESPONSES[0])
    for paths in (["/v1/chat/completions", "/v1/responses"], ["/v1/responses"]):
        server.asked.clear()
        known_servers.LEARNED.clear()
        reply(engine(server, "gpt-4o", api_key="sk-same"), ask(tools=TOOLS))
        assert [asked.path for asked in server.asked] == paths


def test_runs_call_natively_also_if_the_model_thinks_long_about_the_probe(server: ModelServer) -> None:
    server.rule = lambda asked: (
        server.sent(asked, response(reasoning(), **CUT))
        if asked.body and asked.body.get("max_output_tokens", 9999) < 600
        else None
    )
    server.replies += [response(reasoning(), call(a=1, b=2)), response(said("3"))]
    result = Agent(as_model(engine(server)), TOOLS).run("What is 1 + 2?")
    assert isinstance(result.events[0], Started)
    assert (result.answer, result.events[0].strategy) == ("3", "tool_calling")


def as_model(one: HttpEngine) -> Any:
    """The engine as an agent takes it, which takes any model."""
    return one


# ── what comes back ──────────────────────────────────────────────────────────────────────────────


def test_a_turn_is_sent_back_as_it_came(server: ModelServer) -> None:
    turn = [
        reasoning(1, "Hm."),
        said("I add.", phase="commentary"),
        WEB,
        reasoning(2),
        call(a=1, b=2) | {"namespace": "n"},
    ]
    server.replies += [response(*turn), response(reasoning(3), call("look", 2, what="Åbo")), response(said("3"))]
    agent = Agent(as_model(engine(server)), TOOLS, strategy="tool_calling")
    assert agent.run("What is 1 + 2?").answer == "3"
    second, third = server.bodies[-2:]
    assert second["input"][-len(turn) - 1 : -1] == turn
    assert second["input"][-1] == {"type": "function_call_output", "call_id": "call_v1", "output": "3"}
    assert third["input"][: len(second["input"])] == second["input"]
    assert third["input"][-1]["call_id"] == "call_v2"


def with_state(origin: str, turn: Sequence[Json], *calls: AgentAction) -> list[Message]:
    state = ProviderState(origin, json.dumps(turn))
    results = [Message("tool", "ok", call_id=one.id, tool=one.tool) for one in calls]
    return [Message("user", "Go"), Message("assistant", "I add.", calls, state=state), *results]


def own(server: ModelServer) -> str:
    """The origin of what this server wants back."""
    return f"responses {server.url.partition('://')[2]}"


FIRST = AgentAction("add", {"a": 1, "b": 2}, id="call_1_0")
BACK: Mapping[str, tuple[list[Json], list[AgentAction], list[Any]]] = {
    "only the first of two calls": (
        [reasoning(), call(a=1, b=2), call("look", 2, what="x")],
        [FIRST],
        ["rs_1", "fc_1"],
    ),
    "the first of two, each with its thought": (
        [reasoning(), call(a=1, b=2), reasoning(2), call("look", 2, what="x"), said("Done.")],
        [FIRST],
        ["rs_1", "fc_1"],
    ),
    "a thought that ended with nothing": (
        [reasoning(), call(a=1, b=2), reasoning(2)],
        [FIRST],
        ["rs_1", "fc_1", "rs_2"],
    ),
    "a repaired call": ([reasoning(), call("functions.add", a=1, b=2)], [FIRST], ["rs_1", None]),
    "edited arguments": ([reasoning(), call(a=1, b=3)], [FIRST], ["rs_1", None]),
}


def test_reasoning_is_followed_by_what_it_led_to(server: ModelServer) -> None:
    for name, (turn, calls, wanted) in BACK.items():
        reply(engine(server), ask(*with_state(own(server), turn, *calls), tools=TOOLS))
        items = server.bodies[-1]["input"][1:]
        assert [item.get("id") for item in items[:-1]] == wanted, name
        made = next(item for item in items if item.get("type") == "function_call")
        assert (made["name"], json.loads(made["arguments"])) == ("add", {"a": 1, "b": 2}), name
        assert items[-1]["call_id"] == made["call_id"]


def test_ids_of_calls_are_short_enough(server: ModelServer) -> None:
    long = [AgentAction("add", {"a": 1, "b": 2}, id=f"{'i' * 70}{number}") for number in range(2)]
    results = [Message("tool", "3", call_id=one.id, tool="add") for one in long]
    reply(engine(server), ask(Message("user", "Go"), Message("assistant", "", tuple(long)), *results, tools=TOOLS))
    ids = [item["call_id"] for item in server.bodies[-1]["input"][1:]]
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2
    assert max(map(len, ids)) <= 64


def test_another_vendors_state_is_left_out_and_said_to_be(server: ModelServer) -> None:
    told = with_state("messages api.anthropic.com", [{"type": "?"}], FIRST)
    got = reply(engine(server), ask(*told, tools=TOOLS))
    assert got.unsent == "messages api.anthropic.com"
    assert server.bodies[-1]["input"][1:] == [
        {"role": "assistant", "content": "I add."},
        {"type": "function_call", "call_id": "call_1_0", "name": "add", "arguments": '{"a": 1, "b": 2}'},
        {"type": "function_call_output", "call_id": "call_1_0", "output": "ok"},
    ]


UNACCEPTED = [
    refused("The encrypted content gAAA...DQ== could not be verified.", None, "invalid_encrypted_content"),
    refused(
        "The encrypted content for item rs_1 could not be verified. Reason: Encrypted content could not be decrypted"
        " or parsed.",
        None,
        "invalid_encrypted_content",
    ),
    refused("Item 'rs_1' of type 'reasoning' was provided without its required following item.", "input"),
    refused("Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.", "input"),
    refused("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.", "input", None, 404),
    refused("Unknown parameter: 'input[4].action.query'.", "input[4].action.query", "unknown_parameter"),
    events(
        {
            "type": "error",
            "code": "invalid_encrypted_content",
            "message": "The encrypted content could not be verified.",
        }
    ),
]


def test_state_that_is_refused_is_left_out(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    told = with_state(own(server), [reasoning(), call(a=1, b=2)], FIRST)
    for answer in UNACCEPTED:
        server.rule = to_those_with(SEALED, answer)
        with caplog.at_level(logging.WARNING):
            got = reply(engine(server), ask(*told, tools=TOOLS))
        assert got.text == "fine"
        assert got.unsent.startswith(own(server))
        server.rule = always(answer)
        with pytest.raises((ModelRefused, ModelUnavailable)):
            reply(engine(server), ask(*told, tools=TOOLS))
    assert "without their state" in caplog.text


def test_runs_keep_to_the_rules_whatever_happens_to_them() -> None:
    with VendorServer("openai") as at:
        model = PromptModel(at.model, base_url=at.url, api_key=at.key, api="responses", summary="auto")
        whole = Agent(model, TOOLS).run("What is 12 + 30, and what about Åbo?")
        one = Agent(model, TOOLS, strategy=ToolCalling(parallel=False)).run("What is 12 + 30?")
        resumed = Agent(model, TOOLS).resume(first_step(whole.events))
        forked = asyncio.run(fork(Agent(model, TOOLS), whole.events, 2).finish())
        other = PromptModel(
            at.model, base_url=at.url.replace("127.0.0.1", "localhost"), api_key=at.key, api="responses"
        )
        elsewhere = asyncio.run(fork(Agent(other, TOOLS), whole.events, 2).finish())
        asks = Tool("add", add, effects="once", approval=True)
        human = Agent(model, [asks, TOOLS[1]], human=lambda action, problem: Decision("edit", {"a": 1, "b": 1}))
        edited = human.run("What is 12 + 30?")
        at.window = 6000
        long = Tool("look", lambda what: f"{what}: " + "found " * 900, effects="read")
        short = Agent(model, [TOOLS[0], long]).run("What is 12 + 30?")
    every = (whole, one, resumed, forked, elsewhere, edited, short)
    assert {result.answer for result in every} == {SCRIPT[-1].text}
    assert {refusal.rule for refusal in at.refusals} <= {"too_long"}
    thoughts = [event.reply.reasoning for event in whole.events if isinstance(event, Replied)]
    assert thoughts == [turn.thought for turn in SCRIPT]
    assert [event.reply.unsent for event in elsewhere.events if isinstance(event, Replied)][-1]


# ── Retinue ──────────────────────────────────────────────────────────────────────────────────────


def test_retinues_own_server_is_an_engine(tmp_path: Any) -> None:
    script = [
        {"when": "5|is found", "say": "It is 5."},
        {"when": "", "call": {"tool": "add", "input": {"a": 2, "b": 3}}},
    ]
    served = Agent(PromptModel(script=script), name="helper", strategy="tool_calling")
    with Serving(tmp_path, {"helper": served}) as at:
        for stream in (True, False):
            model = PromptModel("openai:helper", base_url=at.url, api_key=KEY, api="responses", stream=stream)
            result = Agent(model, TOOLS, strategy="tool_calling").run("What is 2 + 3?")
            assert (result.answer, [step.actions[0].tool for step in result.steps]) == ("It is 5.", ["add"])
