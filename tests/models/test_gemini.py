"""What is Gemini's alone: parts and their signatures, the order of contents, thinking, and the words of its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest

from fakes.asking import chunks, reply, request
from fakes.engines import ENGINES, model
from fakes.gemini_server import problems
from fakes.scripted_server import Answer, ScriptedServer, sse
from fakes.vendors import VendorServer
from retinue import Agent, Context, Message, ModelError, ModelRefused, ModelUnavailable, PromptModel, Tool, tool
from retinue.core.events import Replied
from retinue.core.prompt import Ask, Prompt
from retinue.core.protocols import Retry
from retinue.core.schema.patterns import Constraint, Text
from retinue.core.values import AgentAction, ProviderState, Reply, Usage
from retinue.errors import ModelNotFound, WindowExceeded
from retinue.models.wire_format import Encoded, PartialReply, Terms
from retinue.models.wires.generate_content import GENERATE_CONTENT as WIRE
from retinue.net.retry import Retries
from retinue.run.fork import fork
from retinue.strategies.tool_calling import ToolCalling
from retinue.testing import SCRIPT

UNSIGNED = "skip_thought_signature_validator"
ADD = AgentAction("add", {"a": 1}, id="1.1")
LOOK = AgentAction("look", {"what": "x"}, id="1.2")
GO = Message("user", "Go")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ENGINES["gemini"]() as server:
        yield server


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def says(*parts: Any) -> dict[str, Any]:
    return user(*parts) | {"role": "model"}


def call(name: str, given: Any, **beside: Any) -> dict[str, Any]:
    more = {"id": beside.pop("id")} if "id" in beside else {}
    return {"functionCall": {"name": name, "args": given, **more}, **beside}


def result(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {**more, "name": name, "response": {"output": text}}}


def turn(calls: Sequence[AgentAction], *parts: Any) -> Message:
    """A model's turn as the engine gives it to the wire, with the vendor's own parts."""
    return Message("assistant", "", tuple(calls), state=ProviderState("", json.dumps(list(parts))))


def told(call: AgentAction, text: str) -> Message:
    return Message("tool", text, call_id=call.id, tool=call.tool)


def sent(*messages: Message) -> dict[str, Any]:
    """The body of a request with these messages, encoded one by one as a conversation grows, and at once."""
    grown = Encoded()
    for message in messages:
        grown = WIRE.encode_messages(grown, [message])
    whole: dict[str, Any] = json.loads(WIRE.write_body(b"{", WIRE.encode_messages(Encoded(), messages)))
    assert json.loads(WIRE.write_body(b"{", grown)) == whole
    return whole


# ── the order of contents ────────────────────────────────────────────────────────────────────────

EARLIER = "(The conversation began earlier.)"
SIGNED = call("add", {"a": 1}, id="x", thoughtSignature="U0lH")
EMPTY = {"text": "", "thoughtSignature": "VElH"}
GOOGLES = (
    {"text": "Hm", "thought": True},
    {"text": "a", "thoughtSignature": "UklH"},
    {"executableCode": {"code": "1.10", "language": "PYTHON"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "g"}},
)
CONVERSATIONS: dict[str, tuple[Sequence[Message], Sequence[Any]]] = {
    # https://ai.google.dev/gemini-api/docs/text-generation#system-instructions: the system prompt stands apart
    "a later system message is a user's": ([GO, Message("system", "Hurry.")], [user("Go", "Hurry.")]),
    "a lone system prompt is a user's": ([Message("system", "Say hello.")], [user("Say hello.")]),
    # "multiturn requests alternate between user and model": github.com/google-gemini/gemini-cli, historyHardening.ts
    "two of a user are one": ([GO, Message("user", "on")], [user("Go", "on")]),
    "two of the model are one": (
        [GO, Message("assistant", "a"), Message("assistant", "b"), GO], [user("Go"), says("a", "b"), user("Go")],
    ),
    # "must include at least one parts field": blank texts are no parts
    "blank ones are left out": ([GO, Message("assistant", " \n"), Message("user", ""), GO], [user("Go", "Go")]),
    "the user begins": ([Message("assistant", "Hi"), GO], [user(EARLIER), says("Hi"), user("Go")]),
    # "single turn requests end with a user role": github.com/crewAIInc/crewAI/pull/6973
    "the user ends": ([GO, Message("assistant", "Hi")], [user("Go"), says("Hi"), user("Continue.")]),
    # "function call turn comes immediately after a user turn": github.com/google-gemini/gemini-cli/issues/11814
    "a call does not begin": (
        [Message("assistant", "", (ADD,)), told(ADD, "3")],
        [user(EARLIER), says(call("add", {"a": 1}, thoughtSignature=UNSIGNED)), user(result("add", "3"))],
    ),
    # ids: only what it assigned itself, as Vertex AI knows none (github.com/pydantic/pydantic-ai/issues/5081)
    "calls of others have no ids, and only the first a stand-in for its signature": (
        [GO, Message("assistant", "I look.", (ADD, LOOK)), told(ADD, "3"), told(LOOK, ""), GO],
        [
            user("Go"),
            says("I look.", call("add", {"a": 1}, thoughtSignature=UNSIGNED), call("look", {"what": "x"})),
            user(result("add", "3"), result("look", ""), "Go"),
        ],
    ),
    "its own calls come back with their ids and signatures": (
        [GO, turn([ADD, LOOK], SIGNED, call("look", {"what": "x"}, id="y")), told(ADD, "3"), told(LOOK, "a town")],
        [
            user("Go"),
            says(SIGNED, call("look", {"what": "x"}, id="y")),
            user(result("add", "3", id="x"), result("look", "a town", id="y")),
        ],
    ),
    # "the number of function response parts is equal to the number of function call parts": gemini-cli, see above
    "a result that is missing is said to be": (
        [GO, Message("assistant", "", (ADD, LOOK)), told(LOOK, "x"), GO],
        [
            user("Go"),
            says(call("add", {"a": 1}, thoughtSignature=UNSIGNED), call("look", {"what": "x"})),
            user(
                result("look", "x"),
                {"functionResponse": {"name": "add", "response": {"error": "There is no result."}}}, "Go",
            ),
        ],
    ),
    "a result without a call is a text": ([GO, told(ADD, "3")], [user("Go", "3")]),
    "of a turn whose first call alone was taken, the rest is left out": (
        [GO, turn([ADD], {"text": "One."}, SIGNED, call("look", {}), EMPTY), told(ADD, "3")],
        [user("Go"), says("One.", SIGNED, EMPTY), user(result("add", "3", id="x"))],
    ),
    "a repaired call is sent as it was repaired, with its signature": (
        [GO, turn([ADD], call("default_api.add", {"a": "1"}, id="x", thoughtSignature="U0lH")), told(ADD, "3")],
        [user("Go"), says(SIGNED), user(result("add", "3", id="x"))],
    ),
    # what Google's own tools did, and signatures on texts: https://ai.google.dev/gemini-api/docs/thought-signatures
    "every part comes back as it came": (
        [GO, turn([ADD], *GOOGLES, SIGNED), told(ADD, "3")],
        [user("Go"), says(*GOOGLES, SIGNED), user(result("add", "3", id="x"))],
    ),
    # names begin with a letter or `_`: https://ai.google.dev/api/caching#FunctionDeclaration
    "names that it does not accept": (
        [GO, Message("assistant", "", (AgentAction("2x", "t", id="1"), AgentAction("a b/é", {}, id="2"))),
         Message("tool", "r", call_id="1"), Message("tool", "s", call_id="2")],
        [
            user("Go"),
            says(call("_2x", {"input": "t"}, thoughtSignature=UNSIGNED), call("a_b__", {})),
            user(result("_2x", "r"), result("a_b__", "s")),
        ],
    ),
}  # fmt: skip


def test_conversations_are_in_the_order_that_it_wants() -> None:
    for name, (messages, contents) in CONVERSATIONS.items():
        body = sent(*messages)
        assert body["contents"] == contents, name
        assert list(problems(body)) == [], name


def test_results_are_in_the_order_of_their_calls() -> None:
    said = Message("assistant", "", (ADD, LOOK))
    contents = json.loads(
        WIRE.write_body(b"{", WIRE.encode_messages(Encoded(), [GO, said, told(LOOK, "x"), told(ADD, "3")]))
    )
    assert contents["contents"][-1] == user(result("add", "3"), result("look", "x"))


def test_the_system_prompt_stands_apart() -> None:
    body = sent(Message("system", "Be brief.\n"), Message("system", "Be kind."), GO)
    assert body == {"systemInstruction": {"parts": [{"text": "Be brief.\n\nBe kind."}]}, "contents": [user("Go")]}


# ── what is kept of a reply ──────────────────────────────────────────────────────────────────────

STREAMS: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "pieces of a text are joined": (
        [{"text": "on"}, {"text": "e"}, call("add", {}, thoughtSignature="U0lH")],
        [{"text": "one"}, call("add", {}, thoughtSignature="U0lH")],
    ),
    "no piece with a signature is": (
        [{"text": "a"}, {"text": "b", "thoughtSignature": "UklH"}, {"text": "c"}, {"text": "d"}, call("add", {})],
        [{"text": "a"}, {"text": "b", "thoughtSignature": "UklH"}, {"text": "cd"}, call("add", {})],
    ),
    "thoughts stay apart": (
        [{"text": "H", "thought": True}, {"text": "m", "thought": True}, {"text": "So"}, call("add", {})],
        [{"text": "Hm", "thought": True}, {"text": "So"}, call("add", {})],
    ),
    "a signature in an empty part at the end": (
        [call("add", {}), {"text": ""}, {"text": "", "thoughtSignature": "VElH"}],
        [call("add", {}), {"text": "", "thoughtSignature": "VElH"}],
    ),
    "of several calls the first has it": (
        [call("add", {"a": 1}, thoughtSignature="U0lH"), call("look", {"what": 1.10})],
        [call("add", {"a": 1}, thoughtSignature="U0lH"), call("look", {"what": 1.1})],
    ),
    "a call without a name is none": ([{"functionCall": {"args": {}}}, call("add", {})], [call("add", {})]),
    "what has fields that nobody knows": (
        [{"text": "a", "partMetadata": {"x": 1}}, {"text": "b"}, {"newField": [1]}, call("add", {})],
        [{"text": "a", "partMetadata": {"x": 1}}, {"text": "b"}, {"newField": [1]}, call("add", {})],
    ),
}


def test_parts_are_kept_as_they_came() -> None:
    for name, (parts, kept) in STREAMS.items():
        for bodies in ([[part] for part in parts], [parts]):
            arriving = PartialReply()
            for some in bodies:
                WIRE.read_body({"candidates": [{"content": {"role": "model", "parts": some}}]}, arriving)
            WIRE.read_body({"candidates": [{"finishReason": "STOP"}]}, arriving)
            assert WIRE.keep_turn(arriving) == kept, name
            assert len(arriving.list_actions()) == sum("functionCall" in part for part in kept), name


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def candidate(reason: str | None, *parts: Any, **more: Any) -> dict[str, Any]:
    said = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
    return {"candidates": [said | ({"finishReason": reason} if reason else {})]}


HI = {"text": "Hi"}
FINISHED: dict[str, tuple[Any, Any]] = {  # https://ai.google.dev/api/generate-content#FinishReason
    "STOP": (candidate("STOP", HI), "stop"),
    "MAX_TOKENS": (candidate("MAX_TOKENS", HI), "length"),
    "nothing but thoughts": (candidate("MAX_TOKENS"), "length"),
    **{
        reason: (candidate(reason, HI), "content_filter")
        for reason in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
                       "IMAGE_SAFETY")
    },
    "blocked": ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}}, "content_filter"),
    "blocked for other reasons": ({"promptFeedback": {"blockReason": "OTHER"}}, "content_filter"),
    **{
        reason: (candidate(reason, finishMessage="print(default_api.x())"), ModelUnavailable)
        for reason in ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "OTHER",
                       "TOO_MANY_TOOL_CALLS")
    },
    "no candidates": ({"usageMetadata": {"promptTokenCount": 3}}, ModelUnavailable),
    "no reason": (candidate(None, HI), ModelUnavailable),
    "an error in an array": ([{"error": {"code": 503, "message": "overloaded"}}], ModelUnavailable),
}  # fmt: skip


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_each_end_of_a_reply(server: ScriptedServer, stream: bool) -> None:
    one = model(server, stream=stream, retries=Retries(tries=1))
    for name, (body, end) in FINISHED.items():
        server.replies[:] = [sse(body) if stream else Answer(body=json.dumps(body))]
        if isinstance(end, str):
            assert reply(one).finish == end, name
        else:
            with pytest.raises(end):
                reply(one)


def test_a_malformed_call_is_asked_for_again(server: ScriptedServer) -> None:
    server.replies += [sse(candidate("MALFORMED_FUNCTION_CALL")), "Hi"]
    asked, said, last = chunks(model(server))
    assert isinstance(asked, Retry)
    assert isinstance(last, Reply)
    assert (said, last.text) == (said, "Hi")


def test_tokens_of_thoughts_and_of_its_own_tools_count(server: ScriptedServer) -> None:
    first = {"promptTokenCount": 9, "candidatesTokenCount": 1, "thoughtsTokenCount": 2}
    last = first | {"candidatesTokenCount": 4, "cachedContentTokenCount": 5, "toolUsePromptTokenCount": 7}
    server.replies += [sse(candidate(None, HI) | {"usageMetadata": first}, candidate("STOP") | {"usageMetadata": last})]
    assert reply(model(server)).usage == Usage(16, 6, 5, 1, reasoning_tokens=2)


def test_thoughts_are_shown_apart_and_the_text_is_left_alone(server: ScriptedServer) -> None:
    thought, text = {"text": "**Hm** <think>", "thought": True}, "With </think> others end a thought."
    server.replies += [sse(candidate(None, thought), candidate("STOP", {"text": text}))]
    got = reply(model(server))
    assert (got.text, got.reasoning, got.state) == (text, "**Hm** <think>", None)


# ── parameters ───────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_sent_that_nobody_asked_for(server: ScriptedServer) -> None:
    server.replies += ["ok"]
    reply(model(server), request("Hi"))
    assert server.asked[0].body == {"contents": [user("Hi")]}
    assert (server.asked[0].headers["x-goog-api-key"], "Authorization" in server.asked[0].headers) == ("sk-test", False)


def test_an_address_may_have_a_query_of_its_own(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.replies += ["ok", "ok"]
    assert reply(PromptModel("gemini-3.8-flash", engine="gemini", base_url=f"{server.url}?user=1")).text == "ok"
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    assert reply(PromptModel("gemini:gemini-3.8-flash", api_key="k")).text == "ok"


SHOWN = {"includeThoughts": True}
# https://ai.google.dev/gemini-api/docs/thinking, and /openai#thinking for budgets by effort
THINKING: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("gemini-3.8-flash", {}, None),
    ("gemini-3.8-flash", {"effort": "high"}, {"thinkingLevel": "HIGH"}),
    ("gemini-3.8-flash", {"effort": "max", "summary": "auto"}, {"thinkingLevel": "HIGH", **SHOWN}),
    ("gemini-3.8-flash", {"summary": "auto"}, SHOWN),
    ("gemini-3.8-flash", {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}),
    ("gemini-3-flash-preview", {"effort": "minimal"}, {"thinkingLevel": "MINIMAL"}),
    ("gemini-flash-latest", {"effort": "none", "summary": "auto"}, {"thinkingLevel": "MINIMAL"}),
    ("gemini-3.1-pro-preview", {"thinking_tokens": 500}, {"thinkingBudget": 500}),
    ("gemini-2.5-flash", {"effort": "none"}, {"thinkingBudget": 0}),
    ("gemini-2.5-flash", {"effort": "low", "summary": "auto"}, {"thinkingBudget": 1024, **SHOWN}),
    ("gemini-2.5-pro", {"effort": "medium"}, {"thinkingBudget": 8192}),
    ("gemini-2.5-pro", {"effort": "xhigh"}, {"thinkingBudget": 24576}),
    ("gemini-2.5-flash", {"thinking_tokens": 0, "summary": "auto"}, {"thinkingBudget": 0}),
]


def terms(name: str = "gemini-3.8-flash", **more: Any) -> Terms:
    given = {"max_tokens": None, "stop": (), "temperature": None, "stream": True, "context": 0, "tools": ()}
    return Terms(**{"model": name, **given, "tool_choice": "auto", **more})


def test_thinking_as_each_model_takes_it() -> None:
    for name, settings, config in THINKING:
        made = WIRE.build_parameters(terms(name, **settings)).get("generationConfig", {})
        assert made.get("thinkingConfig") == config, (name, settings)


def test_options_are_merged_and_its_own_tools_come_beside_functions(server: ScriptedServer) -> None:
    options = {
        "tools": [{"googleSearch": {}}],
        "toolConfig": {"includeServerSideToolInvocations": True},
        "generationConfig": {"topK": 3},
        "safetySettings": [],
    }
    server.replies += ["ok"]
    asked = request("Hi", stop=["1", "", "2", "3", "4", "5", "6"], max_tokens=7)
    tools = (Tool("f", lambda a: a, "F", effects="read"),)
    calling = Ask(asked.prompt, asked.news, asked.write, asked.stop, max_tokens=7, tools=tools, tool_choice="required")
    reply(model(server, options=options, effort="low", summary="auto", temperature=0.0), calling)
    body = server.asked[0].body
    assert body["generationConfig"] == {
        "temperature": 0.0, "maxOutputTokens": 7, "stopSequences": ["1", "2", "3", "4", "5"], "topK": 3,
        "thinkingConfig": {"thinkingLevel": "LOW", **SHOWN},
    }  # fmt: skip
    assert [list(tool) for tool in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    mode = {"functionCallingConfig": {"mode": "ANY"}}
    assert body["toolConfig"] == {**mode, "includeServerSideToolInvocations": True}


def without(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("type", "description")}


def test_functions_as_it_declares_them() -> None:
    def count(votes: dict[str, int]) -> str:
        """Count."""
        return ""

    entries = {
        "type": ["null", "object"],
        "description": "E",
        "required": ["b"],
        "properties": {"b": {"type": "string"}},
    }
    properties = {"a": {"const": "b"}, "entries": entries}
    schema = {"$schema": "x", "type": "object", "properties": properties, "additionalProperties": False}
    client = Tool("client", lambda a: a, "C", effects="read", declared={"parameters": schema, "strict": True})
    tools = (Tool("count", count, effects="read"), Tool("9_now", lambda: "", "Now", effects="read"), client)
    (made,) = WIRE.build_parameters(terms(tools=tools))["tools"]
    counted, now, clients = made["functionDeclarations"]
    assert counted["parametersJsonSchema"]["properties"]["votes"]["additionalProperties"] == {"type": "integer"}
    assert now == {"name": "_9_now", "description": "Now"}
    assert clients["parametersJsonSchema"] == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "enum": ["b"]},
            "entries": {"description": "E", "anyOf": [{"type": "null"}, {"type": "object", **without(entries)}]},
        },
        "additionalProperties": False,
    }
    assert list(problems({"contents": [user("Hi")], "tools": [made]})) == []


def test_a_name_that_was_changed_is_changed_back() -> None:
    for name in ("9_now", "_9", "__9x", "_x", "__", "now", "x9"):
        (made,) = WIRE.build_parameters(terms(tools=(Tool(name, lambda: "", "Now", effects="read"),)))["tools"]
        arriving = PartialReply(finish="stop")
        WIRE.read_body(candidate("STOP", call(made["functionDeclarations"][0]["name"], {})), arriving)
        assert [action.tool for action in arriving.list_actions()] == [name]


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────

LEARNED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [  # what it was seen to answer, and what is sent then
    ("Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.",
     {"effort": "none"}, {"thinkingConfig": {"thinkingLevel": "LOW"}}),
    ("Thinking level is not supported for this model.", {"effort": "low"}, {}),
    ("Unable to submit request because thinking is not supported by this model.", {"effort": "low"}, {}),
    ("Penalty is not enabled for models/gemini-2.5-flash",
     {"options": {"generationConfig": {"frequencyPenalty": 1}}}, {}),
    ("Invalid JSON payload received. Unknown name \"topK\" at 'generation_config': Cannot find field.",
     {"options": {"generationConfig": {"topK": 1, "topP": 0.5}}}, {"topP": 0.5}),
    ("Invalid value at 'generation_config.temperature': not supported", {"temperature": 3.0}, {}),
    ("Unable to submit request because it has a maxOutputTokens value of 99999 but the supported range is from 1"
     " (inclusive) to 65537 (exclusive). Update the value and try again.",
     {"max_tokens": 99_999}, {"maxOutputTokens": 65_536}),
]  # fmt: skip


def test_what_it_refuses_is_learned() -> None:
    for said, settings, config in LEARNED:
        with ENGINES["gemini"]() as server:
            most = settings.pop("max_tokens", None)
            server.replies += [Answer(status=400, error=said), "fine", "fine"]
            one = model(server, **settings)
            assert [reply(one, request(max_tokens=most)).text for _ in range(2)] == ["fine", "fine"]
            for asked in server.asked[1:]:
                assert asked.body.get("generationConfig", {}) == config, said


def test_a_model_that_always_thinks_gets_the_least_budget() -> None:
    with ENGINES["gemini"]() as server:
        server.replies += [
            Answer(status=400, error="Budget 0 is invalid. This model only works in thinking mode."),
            "ok",
        ]
        pro = PromptModel("gemini-2.5-pro", engine="gemini", base_url=server.url, api_key="k", effort="none")
        assert reply(pro).text == "ok"
        assert server.asked[1].body["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 128}}


def test_a_form_that_is_refused_is_left_out_whole() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    for said in (
        "A schema in GenerationConfig in the request exceeds the maximum allowed nesting depth.",
        "The specified schema produces a constraint that has too many states for serving.",
        "JSON mode is not enabled for models/gemma-3-27b-it",
    ):
        with ENGINES["gemini"]() as server:
            server.replies += [Answer(status=400, error=said), "ok"]
            assert reply(model(server), request(constraint=Constraint(Text("x"), schema))).text == "ok", said
            first, second = (asked.body.get("generationConfig") for asked in server.asked)
            assert first == {"responseMimeType": "application/json", "responseJsonSchema": schema}
            assert second is None


def test_a_model_without_system_prompts_reads_them_as_a_users() -> None:
    with ENGINES["gemini"]() as server:
        said = "Developer instruction is not enabled for models/gemma-3-27b-it"
        server.replies += [Answer(status=400, error=said), "ok", "ok"]
        one = model(server)
        prompt = Prompt(Message("system", "Be brief.")).add(GO)
        assert [reply(one, request(prompt)).text for _ in range(2)] == ["ok", "ok"]
        for asked in server.asked[1:]:
            assert asked.body == {"contents": [user("Be brief.", "Go")]}


def test_functions_that_are_refused_are_described_in_words() -> None:
    for said in (
        "A FunctionDeclaration in the request exceeds the maximum allowed nesting depth.",
        "Unable to submit request because `look` functionDeclaration `parameters.x` schema specified other fields"
        " alongside any_of. When using any_of, it must be the only field set.",
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty",
    ):
        with ENGINES["gemini"]() as server:
            server.replies += [Answer(status=400, error=said), "ok"]
            asked = request()
            assert reply(model(server), Ask(asked.prompt, asked.news, asked.write, tools=(look,))).text == "ok"
            ((declared,),) = (tool["functionDeclarations"] for tool in server.asked[1].body["tools"])
            assert "Its arguments fit this JSON Schema" in declared["description"], said
            assert declared["parametersJsonSchema"]["properties"] == {}


def error(status: int, message: str, code: str, **detail: Any) -> Answer:
    said = {"code": status, "message": message, "status": code, "details": [detail] if detail else []}
    return Answer(status=status, body=json.dumps({"error": said}, indent=2))


WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}
KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
ERRORS: list[tuple[Answer, type[ModelError], float | None]] = [
    (error(429, "You exceeded your current quota. input_token_count, limit: 250000", "RESOURCE_EXHAUSTED", **WAIT),
     ModelUnavailable, 34.07),
    (error(503, "The model is overloaded. Please try again later.", "UNAVAILABLE"), ModelUnavailable, None),
    (error(500, "An internal error has occurred.", "INTERNAL"), ModelUnavailable, None),
    (error(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
           "INVALID_ARGUMENT"), WindowExceeded, None),
    (error(400, "Unable to submit request because the input token count is 40000 but model only supports up to 32768.",
           "INVALID_ARGUMENT"), WindowExceeded, None),
    (error(400, "Request payload size exceeds the limit: 20971520 bytes.", "INVALID_ARGUMENT"), WindowExceeded, None),
    (error(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT", **KEY), ModelRefused, None),
    (error(400, "User location is not supported for the API use.", "FAILED_PRECONDITION"), ModelRefused, None),
    (error(404, "models/x is not found for API version v1beta, or is not supported for generateContent.", "NOT_FOUND"),
     ModelNotFound, None),
]  # fmt: skip


def test_errors_are_what_they_say(server: ScriptedServer) -> None:
    one = model(server, retries=Retries(tries=1))
    for answer, kind, wait in ERRORS:
        server.replies[:] = [answer]
        with pytest.raises(kind) as raised:
            reply(one)
        assert type(raised.value) is kind
        assert getattr(raised.value, "retry_after", None) == wait


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────

QUESTION = "What is 12 + 30, and what about Åbo?"
PLAYED = {"anthropic": "anthropic", "gemini": "gemini", "vertex": "vertex", "gemini-chat": "openai"}  # and the engine


@tool(effects="read")
def add(a: int, b: int) -> str:
    """Add two integers."""
    return f"{a + b} " + "and more words " * 120


@tool(effects="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is a town. " * 100


def agent(played: VendorServer, *, context: Any = True, **strategy: Any) -> Agent:
    engine = PLAYED[played.vendor.name]
    one = PromptModel(played.model, engine=engine, base_url=played.url, api_key=played.key, effort="low")
    return Agent(one, [add, look], strategy=ToolCalling(**strategy), context=context)


def test_a_fork_goes_on_at_every_gemini_and_from_it_elsewhere() -> None:
    with ExitStack() as servers:
        stands = {name: servers.enter_context(VendorServer(name)) for name in PLAYED}
        others = {name: servers.enter_context(VendorServer(name)) for name in PLAYED}
        results = {name: agent(stands[name]).run(QUESTION) for name in PLAYED}
        for first, second in product(PLAYED, PLAYED):
            for step in (1, 2, 3):
                went_on = asyncio.run(fork(agent(others[second]), results[first], step).finish())
                assert (went_on.answer, others[second].refusals) == (SCRIPT[-1].text, []), (first, second, step)
                unsent = {one.reply.unsent for one in went_on.events[-3:] if isinstance(one, Replied)}
                assert any(unsent), (first, second)
            went_on = asyncio.run(fork(agent(stands[first]), results[first], 2).finish())
            assert (went_on.answer, stands[first].refusals) == (SCRIPT[-1].text, []), first
            assert not any(one.reply.unsent for one in went_on.events if isinstance(one, Replied))


def test_a_prompt_that_is_shortened_tears_no_call_from_its_signature_and_result() -> None:
    for name in ("gemini", "gemini-chat", "vertex"):
        for window in (4_500, 5_500):
            with VendorServer(name, window=window) as played:
                result = agent(played, context=Context(summary=None)).run(QUESTION)
                assert (result.answer, {one.rule for one in played.refusals}) == (SCRIPT[-1].text, {"too_long"})


def test_of_calls_at_once_only_the_first_is_made() -> None:
    for name in ("gemini", "vertex"):
        with VendorServer(name) as played:
            result = agent(played, parallel=False).run(QUESTION)
            assert (result.answer, played.refusals, len(result.evidence)) == (SCRIPT[-1].text, [], 3)
