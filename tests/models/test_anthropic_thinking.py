"""Claude thinks: what it is asked for by which model, and what it is sent back, by the rules of its stand-in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fakes.asking import chunks, reply, request
from fakes.engines import ENGINES, model
from fakes.scripted_server import Answer, sse
from fakes.vendors import VendorServer
from retinue import Agent, Context, Message, ModelRefused, PromptModel, RunResult, Tool, fork, tool
from retinue.core.events import Called, Delta, Replied
from retinue.core.prompt import Ask, Prompt
from retinue.core.schema.patterns import Constraint, Text
from retinue.core.values import AgentAction, ProviderState, Reply, Usage
from retinue.models.wire_format import Encoded, PartialReply, Terms
from retinue.models.wires.messages import MESSAGES, CloudMessages
from retinue.strategies.tool_calling import ToolCalling
from retinue.testing import SCRIPT, Rule, Turn

QUESTION = "What is 12 + 30, and what about Åbo?"
MODELS = (
    *("claude-opus-5-5", "claude-mythos-5", "claude-opus-4-7", "claude-opus-4-6", "claude-sonnet-4-5"),
    "claude-opus-4-1",
)

LONG = (*(Turn(f"Page {at}.", calls=[("look", {"what": f"page {at}"})]) for at in range(5)), Turn("So.", "All read."))
TEAM = (Turn("Who knows?", calls=[("sums", {"input": QUESTION})]), Turn("There.", "The sums are right."))


@tool(effects="read")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects="read")
def look(what: str) -> str:
    """Look something up."""
    return f"nothing about {what}"


def claude(server: VendorServer, name: str = "claude-sonnet-4-5", **settings: Any) -> PromptModel:
    return PromptModel(name, engine="anthropic", base_url=server.url, api_key=server.key, **settings)


def refusals(server: VendorServer) -> list[str]:
    return [one.rule for one in server.refusals]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_every_claude_takes_back_what_it_thought(stream: bool) -> None:
    asked: tuple[dict[str, Any], ...] = ({}, {"effort": "high"}, {"effort": "minimal", "temperature": 0.3})
    asked += ({"thinking_tokens": 3000}, {"effort": "xhigh", "options": {"top_p": 0.5}})
    for name in MODELS:
        for settings in asked:
            with VendorServer("anthropic") as server:
                result = Agent(claude(server, name, stream=stream, **settings), [add, look]).run(QUESTION)
                assert (refusals(server), result.answer) == ([], SCRIPT[-1].text), (name, settings)
                thinks = bool(settings) or name in MODELS[:2]
                kept = [event.reply.state for event in result.events if isinstance(event, Replied)]
                assert [state is not None for state in kept] == [thinks] * 3 + [False], (name, settings)


def test_thoughts_are_shown_and_never_the_answer() -> None:
    for name in ("claude-opus-4-7", "claude-sonnet-4-5"):  # of which the first shows nothing unless it is asked to
        with VendorServer("anthropic") as server:
            events = list(Agent(claude(server, name, effort="low", summary="auto"), [add, look]).stream(QUESTION))
            shown = "".join(event.reasoning for event in events if isinstance(event, Delta))
            assert shown == "".join(turn.thought for turn in SCRIPT)
            assert not any(
                turn.thought in event.text for event in events if isinstance(event, Delta) for turn in SCRIPT
            )


def test_thinking_is_turned_off_or_else_least() -> None:
    for name in MODELS:
        with VendorServer("anthropic") as server:
            assert Agent(claude(server, name, effort="none"), [add, look]).run(QUESTION).answer == SCRIPT[-1].text
            last = server.asked[-1].body
            always = name in MODELS[:2]
            assert refusals(server) == ["thinking cannot be turned off"] * always, name
            assert last.get("output_config") == ({"effort": "low"} if always else None), name


def terms(name: str, **more: Any) -> Terms:
    given: dict[str, Any] = {"effort": "", "thinking_tokens": None, "without": frozenset(), "max_tokens": None} | more
    tools, choice = given.pop("tools", ()), given.pop("tool_choice", "auto")
    most = given.pop("max_tokens")
    return Terms(name, most, (), None, True, 8192, tools, choice, **given)


def budget(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


ADAPTIVE = {"type": "adaptive"}
SHOWN = {"display": "summarized"}
BOUND = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
PARAMETERS: Sequence[tuple[str, dict[str, Any], Any, Any]] = (
    # the model, what is asked, the thinking, the effort
    ("claude-opus-4-8", {}, None, None),
    ("claude-3-5-sonnet-20241022", {"effort": "high"}, None, None),
    ("claude-instant-1.2", {"effort": "high"}, None, None),
    ("claude-3-7-sonnet-20250219", {"effort": "low"}, budget(2048), None),
    ("claude-opus-4-20250514", {"effort": "medium"}, budget(8192), None),
    ("claude-sonnet-4@20250514", {"effort": "max"}, budget(48_000), None),
    ("us.anthropic.claude-haiku-4-5-20251001-v1:0", {"thinking_tokens": 5000}, budget(5000), None),
    ("anthropic/claude-opus-4.6", {"effort": "xhigh"}, ADAPTIVE, "high"),
    ("anthropic.claude-opus-4-6-v1", {"thinking_tokens": 5000}, budget(5000), None),
    ("claude-sonnet-4-6", {"effort": "low", "thinking_tokens": 5000}, ADAPTIVE, "low"),
    ("claude-opus-4-7", {"effort": "xhigh"}, ADAPTIVE, "xhigh"),
    ("claude-opus-5", {"thinking_tokens": 5000}, ADAPTIVE, "medium"),
    ("claude-mythos-preview", {"effort": "minimal"}, ADAPTIVE, "low"),
    ("claude-of-the-future", {"effort": "max"}, ADAPTIVE, "max"),
    ("kimi-k2-thinking", {"effort": "low"}, budget(2048), None),
    ("claude-opus-4-7", {"effort": "none"}, {"type": "disabled"}, None),
    ("claude-sonnet-4-5", {"thinking_tokens": 0}, {"type": "disabled"}, None),
    ("claude-opus-4-7", {"effort": "low", "summary": "auto"}, ADAPTIVE | SHOWN, "low"),
    ("claude-sonnet-4-5", {"effort": "low", "summary": "detailed"}, budget(2048) | SHOWN, None),
    # room for the reply, and a budget that the API takes
    ("claude-sonnet-4-5", {"effort": "high", "max_tokens": 4000}, budget(3000), None),
    ("claude-sonnet-4-5", {"effort": "high", "max_tokens": 512}, None, None),
    ("claude-sonnet-4-5", {"thinking_tokens": 500}, None, None),
    # a forced call
    ("claude-sonnet-4-5", {"effort": "low", "tools": (add,), "tool_choice": "required"}, None, None),
    ("claude-opus-4-7", {"effort": "low", "tools": (add,), "tool_choice": "required"}, None, "low"),
    # what was learned, and what does not fit the conversation
    ("claude-sonnet-4-5", {"effort": "low", "without": {"thinking.enabled"}}, ADAPTIVE, "low"),
    ("claude-opus-9", {"effort": "low", "without": {"thinking.adaptive"}}, budget(2048), None),
    ("claude-opus-5-5", {"effort": "none", "without": {"thinking.disabled"}}, ADAPTIVE, "low"),
    ("claude-sonnet-4-5", {"effort": "low", "without": {"thinking.unopened"}}, None, None),
    ("claude-opus-4-7", {"effort": "low", "without": {"thinking.unopened"}}, ADAPTIVE, "low"),
    ("claude-opus-5-5", {"without": {"thinking.prefix"}}, {"type": "adaptive", **BOUND}, None),
    ("claude-opus-5-5", {"effort": "low", "without": {"thinking.prefix"}}, ADAPTIVE | BOUND, "low"),
)


@pytest.mark.parametrize(("name", "asked", "thinking", "effort"), PARAMETERS)
def test_thinking_is_asked_for_as_the_model_takes_it(
    name: str, asked: dict[str, Any], thinking: Any, effort: str | None
) -> None:
    without = frozenset(asked.get("without", ()))
    sent = MESSAGES.add_options(MESSAGES.build_parameters(terms(name, **{**asked, "without": without})), {})
    assert sent.get("thinking") == thinking
    assert sent.get("output_config") == (effort and {"effort": effort})
    assert thinking is None or thinking.get("budget_tokens", 0) < sent["max_tokens"]
    headers = MESSAGES.take_headers(sent)
    assert "betas" not in sent
    assert ("binding" in headers.get("anthropic-beta", "")) == ("thinking.prefix" in without)


def test_forced_calls_and_thinking() -> None:
    """The request that forces a call goes without thinking; who always thinks is not forced."""
    for name in MODELS:
        with VendorServer("anthropic") as server:
            kept, strategy = claude(server, name, effort="high"), ToolCalling(tool_choice="required")
            for _ in range(2):
                assert Agent(kept, [add, look], strategy=strategy).run(QUESTION).answer == SCRIPT[-1].text, name
            assert len(server.refusals) <= 2, name  # each of which is made once
            choices = [asked.body["tool_choice"]["type"] for asked in server.asked[-4:]]
            assert choices == ["auto" if name in MODELS[:2] else "any", "auto", "auto", "auto"], name


def test_a_budget_among_the_options_fits_too() -> None:
    """As people copy it from Anthropic's pages; the probe of tool calls asks for 512 tokens."""
    with VendorServer("anthropic") as server:
        kept = claude(server, options={"thinking": {"type": "enabled", "budget_tokens": 5000}, "temperature": 0.2})
        assert Agent(kept, [add, look]).run(QUESTION).answer == SCRIPT[-1].text
        forced = Agent(kept, [add, look], strategy=ToolCalling(tool_choice="required"))
        assert forced.run(QUESTION).answer == SCRIPT[-1].text
        assert refusals(server) == []
        assert server.asked[-1].body["thinking"] == budget(5000)


def test_trial_features_are_named_in_the_header() -> None:
    with VendorServer("anthropic") as server:
        options = {"betas": ["context-1m-2025-08-07"], "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
        kept = claude(server, effort="low", options=options)
        assert Agent(kept, [add, look]).run(QUESTION).answer == SCRIPT[-1].text
        sent = server.asked[-1]
        assert sent.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14,context-1m-2025-08-07"
        assert [one["name"] for one in sent.body["tools"]] == ["add", "look", "web_search"]


# ── other vendors' turns, crashes, forks, shortened prompts ──────────────────────────────────────


def ask(model: PromptModel, *messages: Message) -> Reply:
    prompt = Prompt(messages[0]).add(*messages[1:])
    return reply(model, Ask(prompt, "", lambda _: Reply(""), tools=(add, look), chat=True))


def test_calls_of_another_vendor_are_followed_without_a_budget_until_the_next_question() -> None:
    call = AgentAction("add", {"a": 12, "b": 30}, id="call_1_0")
    for state in (ProviderState("chat api.deepseek.com", '{"tool_calls": []}'), None):
        said = Message("assistant", "", (call,), state=state)
        talk = [Message("user", "12 + 30?"), said, Message("tool", "42", call_id=call.id, tool="add")]
        with VendorServer("anthropic") as server:
            kept = claude(server, effort="high")
            found = ask(kept, *talk)
            assert found.unsent == (state.origin if state else "")
            assert ask(kept, *talk, Message("user", "Answer now.")).finish == "stop"  # beside the results
            ask(kept, *talk, Message("assistant", "42"), Message("user", "And 13 + 30?"))
            assert refusals(server) == []
            assert ["thinking" in one.body for one in server.asked] == [False, False, True]


def test_a_run_goes_on_after_a_crash_and_a_fork() -> None:
    for name in ("claude-opus-5-5", "claude-sonnet-4-5"):
        with VendorServer("anthropic") as server:
            agent = Agent(claude(server, name, effort="low"), [add, look])
            result = agent.run(QUESTION)
            for at, event in enumerate(result.events):
                if isinstance(event, Called):  # it was killed between the call and its result
                    again = Agent(claude(server, name, effort="low"), [add, look]).resume(result.events[: at + 1])
                    assert again.answer == SCRIPT[-1].text
            for step in range(3):
                assert finish(fork(agent, result, step)).answer == SCRIPT[-1].text
            assert refusals(server) == []


def test_a_run_is_forked_to_another_vendor_and_back() -> None:
    with VendorServer("anthropic") as server, VendorServer("groq") as other:
        groq = PromptModel(other.model, engine="groq", base_url=other.url, api_key=other.key)
        agents = [Agent(claude(server, effort="low"), [add, look]), Agent(groq, [add, look])]
        for first, second in (agents, agents[::-1]):
            result = first.run(QUESTION)
            away = finish(fork(second, result, 1))
            back = finish(fork(first, away, 2))
            assert [one.answer for one in (away, back)] == [SCRIPT[-1].text] * 2
        assert refusals(server) == []


def finish(run: Any) -> RunResult:
    found: RunResult = asyncio.run(run.finish()) if asyncio.iscoroutinefunction(run.finish) else run.finish()
    return found


def test_thinking_before_which_something_changed_is_dropped_by_the_server_that_refuses_it() -> None:
    """A shortened prompt, a forked system prompt: the server is told once what to do."""
    with VendorServer("anthropic") as server:
        agent = Agent(claude(server, "claude-opus-5-5"), [add, look])
        result = agent.run(QUESTION)
        for words in ("Be kind.", "Be quick."):
            assert finish(fork(agent, result, 2, instructions=words)).answer == SCRIPT[-1].text
        assert refusals(server) == ["thinking is bound to what came before"]
        assert server.asked[-1].body["thinking"] == {"type": "adaptive", **BOUND}


def test_a_prompt_that_is_too_long_is_shortened() -> None:
    def long(what: str) -> str:
        return f"{what}: " + "words " * 900

    pages, clearing = Tool("look", long, effects="read"), Context(summary=None)  # a script writes no notes
    for name in ("claude-opus-5-5", "claude-sonnet-4-5"):
        with VendorServer("anthropic", scripts=(LONG,), window=14_000) as server:
            assert (
                Agent(claude(server, name, effort="low"), [pages], context=clearing).run("Look at all.").answer
                == LONG[-1].text
            )
            assert "too_long" in refusals(server)
            assert set(refusals(server)) <= {"too_long", "thinking is bound to what came before"}


def test_a_member_of_a_team_thinks_for_itself() -> None:
    with VendorServer("anthropic", scripts=(TEAM, SCRIPT)) as server:
        kept = claude(server, "claude-opus-5-5", effort="low")
        member = Agent(kept, [add, look], name="sums")
        assert Agent(kept, [member]).run("Ask about the sums.").answer == TEAM[-1].text
        assert refusals(server) == []


def test_only_the_first_of_two_calls() -> None:
    for name in ("claude-opus-5-5", "claude-sonnet-4-5"):
        with VendorServer("anthropic") as server:
            agent = Agent(claude(server, name, effort="low"), [add, look], strategy=ToolCalling(parallel=False))
            assert agent.run(QUESTION).answer == SCRIPT[-1].text
            assert refusals(server) == []


# ── the turn as it was ───────────────────────────────────────────────────────────────────────────

THOUGHT = {"type": "thinking", "thinking": "Hm…\n ", "signature": "c2ln=="}
REDACTED = {"type": "redacted_thinking", "data": "b3BhcXVl"}
OMITTED = {"type": "thinking", "thinking": "", "signature": "bm90aGluZw=="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Åbo"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"encrypted_content": "x"}]}
BLANK = {"type": "text", "text": "\n\n"}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def use(number: int, name: str = "add", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}


TURNS = {
    "thinking": [THOUGHT, use(1, a=1, b=2)],
    "redacted": [THOUGHT, REDACTED, text("So: "), use(1, a=1, b=2)],
    "omitted": [OMITTED, use(1)],
    "interleaved": [THOUGHT, use(1, a=1), OMITTED, text("And"), REDACTED, use(2, a=2)],
    "hosted": [SEARCH, FOUND, text("Åbo is", citations=[{"cited_text": "Å"}]), use(1, a=1, b=2)],
    "by code": [text("x"), use(1) | {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_9"}}],
    "what nobody knows yet": [{"type": "musing", "content": "mm", "seal": [1, {"a": None}]}, use(1)],
}


def events_of(blocks: Sequence[dict[str, Any]], reason: str = "tool_use") -> list[dict[str, Any]]:
    """The blocks as they are streamed."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {"input_tokens": 5}}}]
    for index, block in enumerate(blocks):
        start, deltas = dict(block), []
        for key, kind in (("thinking", "thinking_delta"), ("text", "text_delta"), ("signature", "signature_delta")):
            if key in block:
                start[key] = ""
                half = len(block[key]) // 2
                deltas += [{"type": kind, key: piece} for piece in (block[key][:half], block[key][half:])]
        if "input" in block:
            given = json.dumps(block["input"])
            start["input"] = {}
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in ("", given[:3], given[3:])]
        if "citations" in block:
            del start["citations"]
            deltas += [{"type": "citations_delta", "citation": one} for one in block["citations"]]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    return [*events, {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}}]


def arrived(events: Sequence[dict[str, Any]]) -> PartialReply:
    arriving = PartialReply()
    for event in events:
        MESSAGES.read_body(event, arriving)
    return arriving


def sent_back(arriving: PartialReply, calls: Sequence[AgentAction] | None = None) -> list[Any]:
    """The messages of the next request, with a result for each call."""
    state = ProviderState("here", json.dumps(MESSAGES.keep_turn(arriving)))
    made = arriving.list_actions() if calls is None else calls
    numbered = tuple(AgentAction(call.tool, call.tool_input, id=f"call_1_{at}") for at, call in enumerate(made))
    results = [Message("tool", "ok", call_id=call.id, tool=call.tool) for call in numbered]
    encoded = MESSAGES.encode_messages(
        Encoded(), [Message("user", "?"), Message("assistant", "", numbered, state=state), *results]
    )
    found: list[Any] = json.loads(MESSAGES.write_body(b'{"a": 1', encoded))["messages"]
    return found


@pytest.mark.parametrize("blocks", TURNS.values(), ids=TURNS)
def test_a_turn_is_sent_back_as_it_was(blocks: list[dict[str, Any]]) -> None:
    whole = [{"type": "message", "content": blocks, "stop_reason": "tool_use", "usage": {"input_tokens": 5}}]
    for events in (events_of(blocks), json.loads(json.dumps(whole))):
        arriving = arrived(events)
        _, turn, results = sent_back(arriving)
        assert turn == {"role": "assistant", "content": blocks}
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert [result["tool_use_id"] for result in results["content"]] == ids
        assert arriving.reasoning == "".join(block.get("thinking", "") for block in blocks)
        assert arriving.said == "".join(block.get("text", "") for block in blocks)


def test_what_is_no_more_than_text_and_calls_is_not_kept() -> None:
    assert MESSAGES.keep_turn(arrived(events_of([text("x"), use(1, a=1)]))) is None
    assert MESSAGES.keep_turn(arrived(events_of([use(1) | {"caller": {"type": "direct"}}]))) is None


def test_a_turn_of_which_something_was_left_out_or_mended() -> None:
    both = arrived(events_of([BLANK, THOUGHT, use(1, a=1), OMITTED, use(2, a=2)]))
    assert sent_back(both)[1]["content"] == [THOUGHT, use(1, a=1), OMITTED, use(2, a=2)]
    assert sent_back(both, both.list_actions()[:1])[1]["content"] == [THOUGHT, use(1, a=1)]
    mended = [AgentAction("look", {"what": "x"}), both.list_actions()[1]]
    assert sent_back(both, mended)[1]["content"] == [THOUGHT, use(1, "look", what="x"), OMITTED, use(2, a=2)]
    strange = arrived(events_of([THOUGHT, use(1, "functions.add")]))
    assert sent_back(strange)[1]["content"] == [THOUGHT, use(1, "functions.add")]
    cut = arrived([*events_of([THOUGHT, use(1, a=1), use(2, a=2)], "max_tokens")[:-3], events_of([], "max_tokens")[-1]])
    assert cut.finish == "length"
    assert sent_back(cut)[1]["content"] == [THOUGHT, use(1, a=1)]


def test_a_paused_turn_goes_on() -> None:
    """https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause-turn"""
    first, second = [THOUGHT, text("I look. "), SEARCH], [FOUND, text("Åbo is Turku.")]
    with ENGINES["anthropic"]() as server:
        server.replies += [sse(*events_of(first, "pause_turn")), sse(*events_of(second, "end_turn"))]
        found = reply(model(server), request("Åbo?"))
        assert (found.text, found.reasoning, found.usage) == (
            "I look. Åbo is Turku.",
            THOUGHT["thinking"],
            Usage(10, 6, 0, 2),
        )
        again = server.asked[1].body["messages"]
        assert again[1:] == [{"role": "assistant", "content": first}]
        calls: list[dict[str, Any]] = [SEARCH, FOUND, use(1, a=1, b=2)]
        server.replies += [sse(*events_of(first, "pause_turn")), sse(*events_of(calls, "tool_use"))]
        kept = reply(model(server), request("Åbo?")).state
        assert kept is not None
        assert json.loads(kept.turn) == {"content": [*first, *calls]}
        server.always = lambda _: sse(*events_of([SEARCH], "pause_turn"))  # for ever
        assert reply(model(server), request("Åbo?")).finish == "stop"


def test_how_replies_end() -> None:
    ends = {
        "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "content_filter",
        "model_context_window_exceeded": "length",
    }  # fmt: skip
    for reason, finish in ends.items():
        arriving = arrived(events_of([text("x"), use(1, a=1)], reason))
        assert (arriving.finish, len(arriving.list_whole_calls())) == (finish, 0 if reason == "refusal" else 1)


def test_thinking_tokens_are_counted() -> None:
    usage = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}
    arriving = arrived([{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}])
    assert arriving.usage == Usage(0, 9, 0, 1, reasoning_tokens=7)


# ── what may not be sent, and what is refused ────────────────────────────────────────────────────


def test_names_and_texts_are_such_as_the_api_takes() -> None:
    """https://platform.claude.com/docs/en/api/messages; https://github.com/langchain-ai/langchain/issues/26511"""
    calls = (AgentAction("functions.add", {}, id="call.1"), AgentAction("", "text", id="x"), AgentAction("n" * 200, {}))
    talk = [Message("user", " \n"), Message("user", "?"), Message("assistant", "Well. \n", calls)]
    talk += [Message("tool", " ", call_id=call.id) for call in calls]
    body = MESSAGES.write_body(b'{"a": 1', MESSAGES.encode_messages(Encoded(), [*talk, Message("system", "Hurry.")]))
    sent = json.loads(body)["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "user"]
    names = [block["name"] for block in sent[1]["content"] if block["type"] == "tool_use"]
    assert names == ["functions_add", "_", "n" * 128]
    assert sent[1]["content"][0] == text("Well.")
    assert sent[2]["content"][0] == {"type": "tool_result", "tool_use_id": "call_1"}


def test_ids_are_unique_in_a_conversation_of_several_runs() -> None:
    call = AgentAction("add", {"a": 1}, id="call_1_0")
    run = [Message("user", "?"), Message("assistant", "", (call,)), Message("tool", "1", call_id=call.id)]
    sent = json.loads(MESSAGES.write_body(b'{"a": 1', MESSAGES.encode_messages(Encoded(), [*run, *run, *run])))[
        "messages"
    ]
    used = [block["id"] for message in sent for block in message["content"] if block["type"] == "tool_use"]
    seen = [block["tool_use_id"] for message in sent for block in message["content"] if block["type"] == "tool_result"]
    assert used == seen == ["call_1_0", "call_1_0_", "call_1_0__"]


def test_a_conversation_begins_with_the_user() -> None:
    talk = [Message("system", "Be kind."), Message("assistant", "Hello."), Message("user", "Hi")]
    body = json.loads(MESSAGES.write_body(b'{"a": 1', MESSAGES.encode_messages(Encoded(), talk)))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_a_form_of_the_reply_and_an_effort_are_asked_for_together() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    with ENGINES["anthropic"]() as server:
        words = "output_config.format: Extra inputs are not permitted"
        server.replies += ["{}", Answer(status=400, error=words), "{}"]
        kept = PromptModel("claude-opus-4-8", engine="anthropic", base_url=server.url, api_key="k", effort="low")
        for _ in range(2):
            reply(kept, request(constraint=Constraint(Text("{}"), schema)))
        asked = [one.body["output_config"] for one in server.asked]
        both = {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
        assert asked == [both, both, {"effort": "low"}]


def test_sampling_is_left_out_beside_thinking_and_beside_itself() -> None:
    sampled = {"temperature": 0.5, "top_p": 0.9, "top_k": 5}
    for name, effort, left in (
        ("claude-sonnet-4-5", "low", set()),
        ("claude-sonnet-4-5", "", {"temperature", "top_k"}),
        ("claude-3-haiku", "", {"temperature", "top_p", "top_k"}),
    ):
        for add_them in (MESSAGES.add_sampling, MESSAGES.add_options):
            sent = add_them(MESSAGES.build_parameters(terms(name, effort=effort)), sampled)
            assert sampled.keys() & sent.keys() == left


LEARNED = {
    "`temperature` is deprecated for this model.": "temperature",
    "output_config.effort: Extra inputs are not permitted": "output_config.effort",
    "This model does not support the effort parameter.": "output_config.effort",
    "thinking.adaptive.display: Extra inputs are not permitted": "display",
    "thinking: Extra inputs are not permitted": '"thinking"',
    "cache_control: Extra inputs are not permitted": "cache_control",
    "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags": "adaptive",
}


def test_what_a_server_refuses_is_learned_once() -> None:
    for words, name in LEARNED.items():
        with ENGINES["anthropic"]() as server:
            server.replies += [Answer(status=400, error=words), "a", "b"]
            chosen: dict[str, Any] = {"effort": "low", "summary": "auto"}
            chosen = {"temperature": 0.5} if name == "temperature" else chosen
            kept = PromptModel("claude-opus-4-8", engine="anthropic", base_url=server.url, api_key="k", **chosen)
            assert [reply(kept).text for _ in range(2)] == ["a", "b"], words
            assert name not in json.dumps(server.asked[-1].body), words


def next_of(words: Iterator[str], _: Any) -> Iterator[str]:
    yield from words


def test_state_that_is_refused_is_left_out_of_that_request() -> None:
    for words in (
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        "messages.1.content: `thinking` blocks in the latest assistant message cannot be modified.",
    ):
        with VendorServer("anthropic") as server:
            kept = claude(server, effort="low")
            result = Agent(kept, [add, look]).run(QUESTION)
            server.vendor = replace(server.vendor, rules=(Rule("once", "", "", partial(next_of, iter([words]))),))
            assert finish(fork(Agent(kept, [add, look]), result, 1)).answer == SCRIPT[-1].text
            assert ["thinking" in json.dumps(one.body) for one in server.asked[-4:]] == [True, False, True, True], words


def test_a_refusal_of_something_else_is_final() -> None:
    with ENGINES["anthropic"]() as server:
        server.replies += [Answer(status=400, error="messages.0.content.1: Invalid `signature` in `thinking` block")]
        with pytest.raises(ModelRefused, match="Invalid `signature`"):
            chunks(model(server))


def test_clouds_are_told_what_to_cache() -> None:
    talk = [Message("system", "Be kind."), Message("user", "Hi")]
    body = json.loads(CloudMessages().write_body(b'{"a": 1', CloudMessages().encode_messages(Encoded(), talk)))
    assert body["messages"][-1]["content"] == [text("Hi", cache_control={"type": "ephemeral"})]
    assert "cache_control" not in CloudMessages().build_parameters(terms("claude-opus-4-7"))
