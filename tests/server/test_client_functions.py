"""A client's functions: as they reach a native engine, what of them is refused, and the forms that Responses adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from fakes.app_server import KEY, Serving
from fakes.openai_server import Answer, OpenAIServer
from retinue import Agent, PromptModel, tool

BOOKED: list[str] = []
LONG = "Run a command.\n\n  Usage:\n\t- one\n\t- two\n" + "word " * 2_000
NESTED: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string", "description": "a\nb"}}}
for _ in range(10):
    NESTED = {"type": "object", "properties": {"in": NESTED}, "additionalProperties": False}
USABLE: dict[str, Any] = {  # schemas that clients send, and that an engine can be sent
    "described at length": {"type": "object", "properties": {"x": {"type": "string", "description": LONG}}},
    "required, not described": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x", "y"]},
    "required alone": {"type": "object", "required": ["y"]},
    "names with brackets": {"type": "object", "properties": {"filter[name]": {"type": "string"}, "é/ü": {}}},
    "long names": {"type": "object", "properties": {"x" * 100: {"type": "string"}}},
    "nullable": {"type": ["object", "null"], "properties": {"x": {"type": ["string", "null"]}}},
    "without a type": {"properties": {"x": {"type": "string"}}},
    "without properties": {"type": "object"},
    "null where nothing is": {"type": "object", "properties": None, "required": None},
    "empty": {},
    "keywords": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "T",
        "properties": {
            "a": {"type": "string", "format": "uri", "pattern": "^h(?=t)", "title": "A", "examples": ["x"]},
            "b": {"enum": [str(number) for number in range(300)]},
            "c": {"allOf": [{"type": "string"}, {"minLength": 2}], "not": {"const": "no"}},
            "d": {"type": "array", "prefixItems": [{"type": "integer"}], "uniqueItems": True},
            "e": {"$ref": "#/$defs/E"},
        },
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": {"type": "number"},
        "$defs": {"E": {"type": "object", "properties": {"again": {"$ref": "#/$defs/E"}}}},
        "required": ["b", "a"],
    },
    "a reference": {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"type": "object", "properties": {"x": {}}, "required": ["x"]}},
    },
    "deep": NESTED,
    "properties that are true": {"type": "object", "properties": {"x": True, "y": False}},
    "one of two": {"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": {"x": {}}},
}
UNUSABLE: dict[str, Any] = {
    "an array": {"type": "array", "items": {}},
    "a text": {"type": "string"},
    "properties in a list": {"type": "object", "properties": ["x"]},
    "a name that cannot be printed": {"type": "object", "properties": {"a\nb": {}}},
    "too large": {
        "type": "object",
        "properties": {f"x{n}": {"type": "string", "enum": ["y" * 900]} for n in range(90)},
    },
}


@tool(effects="once")
def book(place: str) -> str:
    """Book a table."""
    BOOKED.append(place)
    return "It is booked."


@pytest.fixture(scope="module")
def engine() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def served(engine: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    model = PromptModel("m", base_url=engine.url, api_key="none", sees=True)
    agents = {
        "plain": Agent(model, strategy="tool_calling", name="plain"),
        "waiter": Agent(model, [book], strategy="tool_calling", name="waiter", require_human_feedback=["book"]),
    }
    engine.replies[:] = [Answer(calls=[("add", {"a": 19, "b": 23})])]  # the engine calls tools natively
    with Serving(tmp_path_factory.mktemp("served"), agents) as serving:
        respond(serving, engine, [Answer("Hello.")], tools=[{"type": "function", "name": "f"}])
        yield serving


def post(served: Serving, path: str, body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.post(f"{served.url}/v1/{path}", json=body, headers=headers, timeout=30)


def respond(served: Serving, engine: OpenAIServer, replies: list[Answer], **asked: Any) -> Any:
    """The response to a request, whose model replies with these."""
    engine.replies[len(engine.replies) :] = replies
    answer = post(served, "responses", {"model": "plain", "input": "Go.", **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def request_of(family: str, function: dict[str, Any], times: int = 1) -> tuple[str, dict[str, Any]]:
    chat_tool = {"type": "function", "function": function}
    if family == "chat":
        said = [{"role": "user", "content": "Go."}]
        return "chat/completions", {"model": "plain", "messages": said, "tools": [chat_tool] * times}
    if family == "assistants":
        return "assistants", {"model": "plain", "tools": [chat_tool] * times}
    return "responses", {"model": "plain", "input": "Go.", "tools": [{"type": "function", **function}] * times}


@pytest.mark.full
def test_a_function_reaches_a_native_engine_as_it_was_sent(served: Serving, engine: OpenAIServer) -> None:
    for name, schema in USABLE.items():
        for strict in (None, True, False):
            function: dict[str, Any] = {"name": "run", "description": LONG, "parameters": schema, "strict": strict}
            for family in ("chat", "responses"):
                engine.replies[:] = [Answer("Hello.")]
                path, body = request_of(family, function)
                answer = post(served, path, body)
                assert answer.status_code == 200, (name, family, answer.text)
                (sent,) = engine.asked[-1].body["tools"]
                if strict is None:
                    function.pop("strict", None)
                expected = {**function, "parameters": schema or {"type": "object", "properties": {}}}
                got = sent["function"]
                assert got.keys() == expected.keys(), name
                assert [json.dumps(got[key]) for key in expected] == [json.dumps(expected[key]) for key in expected], (
                    name
                )


def test_a_function_that_cannot_be_used_is_the_clients_error(served: Serving) -> None:
    for name, schema in UNUSABLE.items():
        for family in ("chat", "assistants", "responses"):
            path, body = request_of(family, {"name": "run", "parameters": schema})
            refused = post(served, path, body)
            error = refused.json()["error"]
            place = "tools[0].parameters" if family == "responses" else "tools[0].function.parameters"
            assert (refused.status_code, error["code"], error["param"]) == (
                400, "invalid_function_parameters", place,
            ), name  # fmt: skip


@pytest.mark.parametrize("family", ["chat", "assistants", "responses"])
def test_two_functions_of_one_name_are_the_clients_error(served: Serving, family: str) -> None:
    path, body = request_of(family, {"name": "run"}, times=2)
    refused = post(served, path, body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tools")
    path, body = request_of(family, {"name": "book"})
    refused = post(served, path, {**body, "model": "waiter"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tools")


# ── the forms of Responses ───────────────────────────────────────────────────────────────────────

CODEX: list[dict[str, Any]] = [
    {"type": "function", "name": "exec", "description": "Run.", "strict": False, "parameters": {"type": "object"}},
    {
        "type": "namespace",
        "name": "agents",
        "description": "Other agents.",
        "tools": [{"type": "function", "name": "close", "parameters": {"type": "object", "properties": {"id": {}}}}],
    },
    {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}},
    {"type": "tool_search", "execution": "client"},
    {"type": "web_search", "external_web_access": False},
]


def test_functions_in_namespaces_and_custom_tools_go_there_and_back(served: Serving, engine: OpenAIServer) -> None:
    calls: list[tuple[str, Any]] = [("agents__close", {"id": "7"}), ("patch", {"input": "*** Begin\n"})]
    first = respond(served, engine, [Answer(calls=calls)], tools=CODEX)
    assert [one["function"]["name"] for one in engine.asked[-1].body["tools"]] == ["exec", "agents__close", "patch"]
    assert "start: X" in engine.asked[-1].body["tools"][2]["function"]["description"]
    called, custom = first["output"]
    assert (called["type"], called["namespace"], called["name"], json.loads(called["arguments"])) == (
        "function_call", "agents", "close", {"id": "7"},
    )  # fmt: skip
    assert (custom["type"], custom["name"], custom["input"]) == ("custom_tool_call", "patch", "*** Begin\n")
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    outputs: list[Any] = [
        {"type": "function_call_output", "call_id": called["call_id"], "output": [picture]},
        {"type": "custom_tool_call_output", "call_id": custom["call_id"], "output": "Done."},
    ]
    said = [{"role": "user", "content": "Go."}, *first["output"], *outputs]
    second = respond(served, engine, [Answer("All is done.")], tools=CODEX, input=said, store=False)
    assert second["output"][0]["content"][0]["text"] == "All is done."
    assert [one["content"] for one in engine.asked[-1].body["messages"] if one["role"] == "tool"] == [
        "(an image, which cannot be shown to you)", "Done.",
    ]  # fmt: skip
    for output in outputs:  # the run is over: a new one is told all that was said
        output["call_id"] = output["call_id"].replace("call_", "call_f")
    for one in (called, custom):
        one["call_id"] = one["call_id"].replace("call_", "call_f")
    respond(served, engine, [Answer("Again.")], tools=CODEX, input=[*said, {"role": "user", "content": "And now?"}])
    told = engine.asked[-1].body["messages"]
    named = [call["function"]["name"] for one in told for call in one.get("tool_calls", ())]
    assert named == ["agents__close", "patch"]
    assert [one["content"] for one in told if one["role"] == "tool"][-1] == "Done."


def test_namespaces_hold_so_many_functions_and_none_twice(served: Serving) -> None:
    functions = [{"type": "function", "name": f"f{number}"} for number in range(128)]
    many = [{"type": "namespace", "name": f"n{number}", "tools": functions} for number in range(3)]
    for tools, said in ((many, "the most is 256"), ([many[0], many[0]], "two tools are called 'n0__f0'")):
        refused = post(served, "responses", {"model": "plain", "input": "Go.", "tools": tools})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tools")
        assert said in refused.json()["error"]["message"]


def test_tools_among_the_items_are_tools(served: Serving, engine: OpenAIServer) -> None:
    added = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": CODEX[1:]}
    told = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    said = [added, {"role": "user", "content": "Go."}, told]
    asked = respond(served, engine, [Answer("Hello.")], tools=CODEX[:1], input=said)
    assert [one["function"]["name"] for one in engine.asked[-1].body["tools"]] == ["exec", "agents__close", "patch"]
    assert [one["type"] for one in asked["tools"]] == [one["type"] for one in CODEX]
    wrong: list[Any] = ["x", 5, {}, [5], [{"type": "no"}], [CODEX[0]]]
    for tools in wrong:
        body = {"model": "plain", "input": [{**added, "tools": tools}, said[1]], "tools": CODEX[:1]}
        assert post(served, "responses", body).status_code == 400, tools


def test_a_custom_tool_that_is_streamed_and_chosen(served: Serving, engine: OpenAIServer) -> None:
    engine.replies[:] = [Answer(calls=[("patch", {"input": "x"})])]
    choice = {"type": "custom", "name": "patch"}
    body = {"model": "plain", "input": "Go.", "tools": CODEX, "tool_choice": choice, "stream": True}
    lines = post(served, "responses", body).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert [event["type"] for event in events][2:-1] == [
        "response.output_item.added", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
        "response.output_item.done",
    ]  # fmt: skip
    assert [event.get("delta", event.get("input")) for event in events[3:5]] == ["x", "x"]
    assert [one["function"]["name"] for one in engine.asked[-1].body["tools"]] == ["patch"]


def test_tools_that_only_openai_runs(served: Serving) -> None:
    kinds = ["web_search", "web_search_preview", "image_generation", "computer", "computer_use_preview", "local_shell"]
    function = {"type": "function", "name": "f"}
    for kind in [*kinds, "shell", "apply_patch", "tool_search", "code_interpreter"]:
        refused = post(served, "responses", {"model": "plain", "input": "Go.", "tools": [{"type": kind}]})
        assert (refused.status_code, kind in refused.json()["error"]["message"]) == (400, True)
        if kind not in ("web_search", "tool_search"):
            body = {"model": "plain", "input": "Go.", "tools": [function, {"type": kind}]}
            assert post(served, "responses", body).status_code == 400, kind


# ── decisions of people, for clients that know functions only ───────────────────────────────────

HUMAN = {
    "type": "function",
    "name": "human_input",
    "parameters": {"type": "object", "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}}},
}


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_person_decides_by_a_function(served: Serving, engine: OpenAIServer, word: str) -> None:
    del BOOKED[:]
    asked: Any = {"model": "waiter", "tools": [HUMAN, {"type": "function", "name": "look"}]}
    first = respond(served, engine, [Answer(calls=[("book", {"place": "Nopi"})])], **asked)
    assert [one["function"]["name"] for one in engine.asked[-1].body["tools"]] == ["book", "look"]
    (call,) = first["output"]
    assert (call["type"], call["name"], json.loads(call["arguments"])) == (
        "function_call", "human_input", {"tool": "book", "arguments": {"place": "Nopi"}},
    )  # fmt: skip
    said = [
        {"role": "user", "content": "Go."},
        call,
        {"type": "function_call_output", "call_id": call["call_id"], "output": word},
    ]
    second = respond(served, engine, [Answer("Yes.")], input=said, **asked)
    assert [item["type"] for item in second["output"]] == ["message"]
    assert (["Nopi"] if word == "approve" else []) == BOOKED


@pytest.mark.parametrize("family", ["chat", "responses", "by function"])
def test_a_decision_that_something_follows_is_not_dropped_in_silence(
    served: Serving, engine: OpenAIServer, family: str
) -> None:
    del BOOKED[:]
    engine.replies[:] = [Answer(calls=[("book", {"place": "Nopi"})])]
    more = {"role": "user", "content": "And hurry."}
    if family == "chat":
        said: list[Any] = [{"role": "user", "content": "Go."}]
        message = post(served, "chat/completions", {"model": "waiter", "messages": said}).json()["choices"][0][
            "message"
        ]
        said += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "approve"}]
        refused = post(served, "chat/completions", {"model": "waiter", "messages": [*said, more]})
        param = "messages"
    else:
        asked: Any = {"model": "waiter", "tools": [HUMAN] if family == "by function" else []}
        (item,) = post(served, "responses", {**asked, "input": "Go."}).json()["output"]
        word: Any = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": True}
        if family == "by function":
            word = {"type": "function_call_output", "call_id": item["call_id"], "output": "approve"}
        said = [{"role": "user", "content": "Go."}, item, word]
        refused = post(served, "responses", {**asked, "input": [*said, more]})
        param = "input"
    assert (refused.status_code, refused.json()["error"]["param"], BOOKED) == (400, param, [])
    engine.replies[:] = [Answer("Yes.")]
    path = "chat/completions" if family == "chat" else "responses"
    kept = post(served, path, {"model": "waiter", "messages": said} if family == "chat" else {**asked, "input": said})
    assert (kept.status_code, BOOKED) == (200, ["Nopi"])
