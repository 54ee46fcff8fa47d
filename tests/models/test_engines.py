"""What every engine does alike, each on its own wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from fakes.asking import chunks, chunks_async, reply, request, retries, shown
from fakes.engines import ENGINES, PROBED, model
from fakes.scripted_server import Answer, ScriptedServer, failure, html
from retinue import Delta, Message, ModelError, ModelRefused, ModelUnavailable, PromptModel, Tool, tool
from retinue.core.prompt import Ask, Prompt
from retinue.core.schema.patterns import Constraint, choice, print_gbnf, print_regex, seq
from retinue.core.values import AgentAction, Reply, Usage
from retinue.errors import WindowExceeded
from retinue.net.retry import Retries
from sampling import every

ONCE = Retries(tries=1)
streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
CHAT = {"llamacpp": {"api": "chat"}}  # which else completes


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    with ENGINES[request.param]() as server:
        yield server


@tool(effects="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects="read")
def now() -> str:
    """The time."""
    return "noon"


def with_tools(prompt: str | Prompt = "What is 1 + 2?", *tools: Tool, **more: Any) -> Ask:
    asked = request(prompt, stop=more.pop("stop", ()))
    return Ask(asked.prompt, asked.news, asked.write, asked.stop, tools=tools or (add, now), **more)


def chat(server: ScriptedServer, **settings: Any) -> PromptModel:
    return model(server, **(CHAT.get(server.engine, {}) | settings))


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


@streamed_or_not
def test_text_and_usage_arrive(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [Answer("four words — «in all»", cached=2)]
    got = reply(model(engine, stream=stream), request("three words here"))
    cached = 0 if engine.engine == "ollama" else 2
    written = 1 if engine.engine == "anthropic" else 0  # the others do not tell
    assert got == Reply("four words — «in all»", Usage(3, 5, cached, 1, cache_write_tokens=written))


def test_a_stream_shows_the_text_as_it_comes(engine: ScriptedServer) -> None:
    text = "word " * 400
    engine.replies += [Answer(text, cut=2000, then="hang")]

    async def first() -> Any:
        async with aclosing(model(engine).reply(request())) as pieces:
            return await anext(pieces)

    shown_first = asyncio.run(first())
    assert isinstance(shown_first, Delta)
    assert text.startswith(shown_first.text)


@streamed_or_not
def test_missing_usage_and_unknown_fields_do_no_harm(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [Answer("fine", usage=False, done=False, extra={"strange": {"id": 1}, "tier": None})]
    assert reply(model(engine, stream=stream)) == Reply("fine", Usage(requests=1))


@streamed_or_not
def test_a_reply_cut_at_its_token_limit_says_so(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [Answer("too lo", finish="length")]
    assert reply(model(engine, stream=stream), request(max_tokens=7)).finish == "length"
    assert 7 in [engine.asked[0].flat.get(name) for name in ("max_tokens", "num_predict", "maxOutputTokens")]


@streamed_or_not
def test_nothing_said_is_an_empty_text(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [Answer(None)]
    assert reply(model(engine, stream=stream)).text == ""


@streamed_or_not
@pytest.mark.parametrize("honours", [True, False], ids=["honoured", "ignored"])
def test_a_reply_ends_before_a_stop_word(engine: ScriptedServer, stream: bool, honours: bool) -> None:
    engine.honours_stop = honours
    engine.replies += ["one\nObservation: made up"]
    got = reply(model(engine, stream=stream), request(stop=["\nObservation:", "\n \n"]))
    assert (got.text, got.finish, got.usage.requests) == ("one", "stop", 1)
    body = engine.asked[0].flat
    sent = body.get("stop") or body.get("stop_sequences") or body["stopSequences"]
    assert sent == (["\nObservation:"] if engine.engine == "anthropic" else ["\nObservation:", "\n \n"])


# ── native tool calls ────────────────────────────────────────────────────────────────────────────


@streamed_or_not
def test_calls_arrive_with_their_inputs(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [Answer("I add «them»", calls=[("add", {"a": 1, "b": 2}), ("now", {})])]
    got = reply(model(engine, stream=stream), with_tools(stop=["\nObservation:"]))
    assert [(call.tool, call.tool_input) for call in got.calls] == [("add", {"a": 1, "b": 2}), ("now", {})]
    assert len({call.id for call in got.calls} - {""}) == 2
    shown = got.reasoning if engine.engine == "cohere" else got.text  # where it is a plan
    assert (shown, got.finish) == ("I add «them»", "stop")


@streamed_or_not
def test_calls_may_come_without_a_text(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [Answer(None, calls=[("add", {"a": 1, "b": 2})])]
    got = reply(model(engine, stream=stream), with_tools())
    assert (got.text, got.calls[0].tool_input) == ("", {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("given", "read"), [("{not json",) * 2, ('["a list"]',) * 2, ("3",) * 2, ('"text"', "text"), ("", {})]
)
def test_arguments_that_are_no_object_are_handed_on_as_a_text(engine: ScriptedServer, given: str, read: Any) -> None:
    if engine.engine == "gemini" and given.startswith("{"):
        return  # whose inputs are JSON
    engine.replies += [Answer(calls=[("add", given)])]
    assert reply(model(engine), with_tools()).calls[0].tool_input == read


@streamed_or_not
def test_of_a_reply_cut_at_its_limit_only_whole_calls_count(engine: ScriptedServer, stream: bool) -> None:
    can_break = stream if engine.engine == "anthropic" else engine.engine != "gemini"  # the rest come as objects
    broken = [("add", '{"a": 1, "b"')] * can_break
    engine.replies += [Answer("t", calls=[("now", {}), *broken], finish="length")]
    got = reply(model(engine, stream=stream), with_tools())
    assert ([call.tool for call in got.calls], got.finish) == (["now"], "length")


def conversation() -> Prompt:
    calls = (AgentAction("add", {"a": 1, "b": 2}, id="1.1"), AgentAction("now", "it", id="1.2"))
    return Prompt(Message("system", "Be brief.")).add(
        Message("user", "What is 1 + 2, and when?"),
        Message("assistant", "I look.", calls),
        Message("tool", "3", call_id="1.1", tool="add"),
        Message("tool", "", call_id="1.2", tool="now"),
        Message("user", "Go on."),
    )


def test_a_conversation_with_calls_is_one_the_vendor_accepts(engine: ScriptedServer) -> None:
    engine.replies += ["done", "done", "done"]
    got = [reply(chat(engine), with_tools(conversation(), tool_choice=c)) for c in ("auto", "required", "none")]
    assert [one.text for one in got] == ["done"] * 3


def test_native_calls_keep_an_engine_in_chat_until_the_end(engine: ScriptedServer) -> None:
    engine.replies += [Answer(calls=[("add", {"a": 1, "b": 2})]), "3"]
    asked = with_tools()
    (call,) = reply(model(engine), asked).calls
    told = asked.prompt.add(Message("assistant", "", (call,)), Message("tool", "3", call_id=call.id, tool="add"))
    tools = asked.tools if engine.engine == "anthropic" else ()
    assert reply(model(engine), Ask(told, "3", asked.write, tools=tools, tool_choice="none")).text == "3"
    assert len({one.path for one in engine.asked}) == 1


def test_what_was_sent_is_sent_again_byte_for_byte_in_front_of_what_is_new(engine: ScriptedServer) -> None:
    asks = [Prompt(one) for one in conversation().messages[:1]]
    for message in conversation().messages[1:]:
        asks.append(asks[-1].add(message))
    asks.append(asks[-1].add(Message("user", "é \ud800 🙂")))
    whole = [asks[1], asks[4], asks[5], asks[6]]  # those in which each call has its result
    engine.replies += ["ok"] * len(whole)
    kept = chat(engine)
    for prompt in whole:
        reply(kept, with_tools(prompt))
    sent = [one.raw.removesuffix(b"]}").removesuffix(b"]}") for one in engine.asked]
    assert all(after.startswith(before) for before, after in pairwise(sent))
    fresh = chat(engine)
    engine.replies += ["ok"]
    reply(fresh, with_tools(whole[-1]))
    assert engine.asked[-1].body == engine.asked[-2].body


# ── constraints ──────────────────────────────────────────────────────────────────────────────────

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
YES_OR_NO = Constraint(seq("Answer: ", choice("yes", "no")), SCHEMA)
IN_OPENAI = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}
}
DIALECTS: dict[str, dict[str, Any]] = {
    "openai": IN_OPENAI,
    "vllm": {"structured_outputs": {"regex": print_regex(YES_OR_NO.pattern)}},
    "tgi": {"response_format": {"type": "regex", "value": print_regex(YES_OR_NO.pattern)}},
    "llamacpp": {"grammar": print_gbnf(YES_OR_NO.pattern)},
    "huggingface": IN_OPENAI,
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "cohere": {"response_format": {"type": "json_object", "json_schema": SCHEMA}},
    "ollama": {"format": SCHEMA},
    "gemini": {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
}
ALL = {name for fields in DIALECTS.values() for name in fields} - {"generationConfig"} | {"responseJsonSchema"}


def test_a_constraint_is_said_in_the_engines_own_dialect(engine: ScriptedServer) -> None:
    engine.replies += ['{"a": "x\nstop"}']
    got = reply(model(engine), request(stop=["\nstop"], constraint=YES_OR_NO))
    body = engine.asked[0].flat
    expected = DIALECTS[engine.engine]
    assert {name: value for name, value in body.items() if name in expected} == expected
    assert not (ALL - set(expected) - {"responseJsonSchema"}) & set(body)
    holds = engine.engine in ("vllm", "tgi", "llamacpp")
    assert asyncio.run(model(engine).abilities()).constrains == holds
    assert (got.text, "stop" in str(body)) == (('{"a": "x', True) if holds else ('{"a": "x\nstop"}', False))


def test_tools_and_a_constraint_are_not_sent_together(engine: ScriptedServer) -> None:
    engine.replies += ["yes"]
    reply(model(engine), with_tools(constraint=YES_OR_NO))
    assert "tools" in engine.asked[0].body
    assert not ALL & set(engine.asked[0].flat)


def test_a_constraint_that_is_refused_is_left_out_from_then_on(engine: ScriptedServer) -> None:
    engine.unsupported = dict.fromkeys(ALL, "")
    engine.replies += ["Answer: yes\nso", "Answer: no\nso"]
    kept = model(engine)
    asked = request(stop=["\n"], constraint=YES_OR_NO)
    assert [reply(kept, asked).text for _ in range(2)] == ["Answer: yes", "Answer: no"]
    assert [bool(ALL & set(one.flat)) for one in engine.asked] == [True, False, False]


# ── what an engine and its model can do ──────────────────────────────────────────────────────────

WINDOWS = {"vllm": 4096, "tgi": 4096, "llamacpp": 4096, "ollama": 2048}


def test_the_window_is_what_the_server_says(engine: ScriptedServer) -> None:
    assert asyncio.run(model(engine, context=2048).abilities()).window == WINDOWS.get(engine.engine)
    assert engine.asked == []


@streamed_or_not
def test_tool_calls_are_tried_once(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [PROBED]
    able = asyncio.run(model(engine, stream=stream).abilities(native=True))
    assert (able.calls_tools, able.problem) == (True, "")
    assert asyncio.run(model(engine).abilities(native=True)) == able
    assert len(engine.asked) == 1
    assert not asyncio.run(model(engine).abilities()).calls_tools


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer("The answer\nis 42."), "asked for a tool call, it answered in words: 'The answer is 42.'"),
        (Answer(""), "it did not call the tool"),
        (Answer(calls=[("add", {"a": "19", "b": 23})]), "it called 'add' with {'a': '19', 'b': 23}"),
        (Answer(calls=[("sum", {"a": 19, "b": 23})]), "it called 'sum' with {'a': 19, 'b': 23}"),
        (failure(400, "tools are not supported"), "tool calls are refused: "),
        (failure(404, "no endpoints with tools"), "tool calls are refused: "),
    ],
)
def test_calls_that_do_not_work_are_said_and_remembered(engine: ScriptedServer, answer: Answer, problem: str) -> None:
    certain = "refused" in problem
    engine.replies += [answer] * (1 if certain else 2)  # one bad reply may be chance
    for _ in range(3):
        able = asyncio.run(model(engine).abilities(native=True))
        assert not able.calls_tools
        assert able.problem.startswith(problem)
    assert len(engine.asked) == (1 if certain else 2)


def test_one_bad_reply_to_the_probe_does_not_decide(engine: ScriptedServer) -> None:
    engine.replies += [Answer(""), PROBED]
    assert [asyncio.run(model(engine).abilities(native=True)).calls_tools for _ in range(3)] == [False, True, True]
    assert len(engine.asked) == 2


def test_a_failure_that_passes_is_no_answer_to_whether_calls_work(engine: ScriptedServer) -> None:
    engine.replies += [failure(503), failure(429, retry_after="0"), PROBED]
    assert asyncio.run(model(engine).abilities(native=True)).calls_tools
    with ENGINES[engine.engine]() as other:
        other.replies += [failure(503)] * 3
        with pytest.raises(ModelUnavailable):
            asyncio.run(model(other).abilities(native=True))
        other.replies += [PROBED]
        assert asyncio.run(model(other).abilities(native=True)).calls_tools


# ── failures ─────────────────────────────────────────────────────────────────────────────────────

PASSING = {
    "429": failure(429, "slow down"),
    "429 with its wait": failure(429, "slow down", retry_after="0"),
    "500": failure(500, "oops"),
    "529": failure(529, "overloaded"),
    "a page": html(502),
    "a page with status 200": html(200),
    "nothing": Answer(body=""),
    "nothing said": Answer(choices=False),
    "no finish reason": Answer("half", finish=None, done=False),
    "a connection that breaks": Answer("half a reply", cut=60),
    "a stream that ends too early": Answer("half a reply", cut=60, then="end"),
}


@pytest.mark.matrix
@streamed_or_not
@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
def test_a_passing_failure_is_asked_again(engine: ScriptedServer, answer: Answer, stream: bool) -> None:
    engine.replies += [answer, "whole"]
    seen = chunks(model(engine, stream=stream))
    assert len(retries(seen)) == 1
    assert shown(seen) == "whole"
    assert engine.asked[0].raw == engine.asked[-1].raw


@pytest.mark.parametrize("answer", [Answer("never", event="{no json"), Answer("never", broken="overloaded")])
def test_an_error_in_the_middle_of_a_stream_is_asked_again(engine: ScriptedServer, answer: Answer) -> None:
    engine.replies += [answer, "whole"]
    seen = chunks(model(engine))
    assert len(retries(seen)) == 1
    assert shown(seen) == "whole"


@streamed_or_not
def test_nobody_waits_longer_than_allowed(engine: ScriptedServer, stream: bool) -> None:
    engine.replies += [failure(429, "slow down", retry_after="3600")]
    with pytest.raises(ModelUnavailable, match="it asks to wait 3600 s"):
        chunks(model(engine, stream=stream))
    assert len(engine.asked) == 1


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
def test_a_refusal_is_final_and_says_why(engine: ScriptedServer, status: int) -> None:
    engine.replies += [failure(status, "not this way")]
    with pytest.raises(ModelRefused, match=f"answered {status}: not this way") as raised:
        chunks(model(engine))
    assert not isinstance(raised.value, WindowExceeded)
    assert len(engine.asked) == 1


KEY = "sk-very-secret-" + "x" * 20


@pytest.mark.parametrize(
    "answer", [None, failure(400, f"{'.' * 490} {KEY}"), Answer("x", broken=KEY), Answer(body=KEY)]
)
def test_no_error_repeats_the_key(engine: ScriptedServer, answer: Answer | None) -> None:
    if answer is None:
        engine.api_key = "another"
    else:
        engine.replies += [answer]
    with pytest.raises(ModelError) as raised:
        chunks(model(engine, api_key=KEY, retries=ONCE))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("then", ["close", "end"])
@pytest.mark.parametrize("name", ["openai", "anthropic", "cohere", "ollama", "gemini"])  # one for each wire that chats
def test_a_reply_cut_at_any_byte_is_never_taken_for_whole(name: str, then: Any, full: bool) -> None:
    answer, asked = Answer("Hé", calls=[("add", {"a": 1})], piece=9), with_tools()

    async def at_every_byte(server: ScriptedServer) -> None:
        for stream in (True, False):
            tried = model(server, stream=stream, retries=ONCE)
            server.replies[:] = [answer]
            whole = await chunks_async(tried, asked)
            cuts = range(0, server.sent[-1], 1 if stream or then == "end" else 9)
            for cut in cuts if full else every(cuts, 3, len(name)):
                server.replies[:] = [replace(answer, cut=cut, then=then)]
                try:
                    seen = await chunks_async(tried, asked)
                except ModelUnavailable:
                    continue
                assert isinstance(seen[-1], Reply)
                assert isinstance(whole[-1], Reply)
                assert replace(seen[-1], usage=whole[-1].usage) == whole[-1]  # which may come after the end

    with ENGINES[name]() as server:
        asyncio.run(at_every_byte(server))
