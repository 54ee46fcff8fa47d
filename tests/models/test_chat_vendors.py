"""Vendors that speak OpenAI's chat format: what each is sent, and what it gets back with the results of its calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fakes.asking import reply, request
from fakes.engines import PROBED
from fakes.openai_server import Answer, OpenAIServer, Request, failure
from fakes.scripted_server import sse
from retinue import Agent, Budget, Message, ModelRefused, PromptModel, RunResult, Tool, UsageError
from retinue.core.events import Replied
from retinue.core.prompt import Prompt
from retinue.core.values import AgentAction, ProviderState
from retinue.net.retry import Retries
from retinue.strategies.tool_calling import ToolCalling


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


ADD = Tool("add", add, effects="read")


def model(server: OpenAIServer, engine: str, name: str = "m", **settings: Any) -> PromptModel:
    chosen: dict[str, Any] = {"retries": Retries(tries=2, first_wait=0.001), "api_key": "sk"} | settings
    return PromptModel(name, engine=engine, base_url=f"{server.url}/v1", **chosen)


def run(server: OpenAIServer, one: PromptModel, *replies: str | Answer) -> RunResult:
    """An agent's run with these replies; it is known before that the model can call tools."""
    server.replies[:] = [PROBED]
    assert asyncio.run(one.abilities(native=True)).calls_tools
    server.replies[:] = replies
    server.requests.clear()
    return Agent(one, [ADD], strategy="tool_calling").run("What is 1 + 2?")


# ── how much to think ────────────────────────────────────────────────────────────────────────────

ON, OFF = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}
HIGH = {"reasoning_effort": "high"}
SPLIT = {"reasoning_split": True}
THINKING: Sequence[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]] = [  # vendor, model, settings, what is sent
    ("deepseek", "deepseek-v4-pro", {"effort": "high"}, HIGH),
    ("deepseek", "deepseek-v4-pro", {"effort": "none"}, OFF),
    ("moonshot", "kimi-k2.6", {"effort": "high"}, ON),
    ("moonshot", "kimi-k2.6", {"effort": "none"}, OFF),
    ("moonshot", "kimi-k3", {"effort": "max"}, {"reasoning_effort": "max"}),
    ("zai", "glm-5.2", {"effort": "high"}, ON | HIGH),
    ("zai", "glm-5.2", {"effort": "none"}, OFF),
    ("zai", "glm-5.2", {"options": {"thinking": {"type": "enabled", "clear_thinking": False}}},
     {"thinking": {"type": "enabled", "clear_thinking": False}}),
    ("dashscope", "qwen3-max", {"effort": "high"}, {"enable_thinking": True}),
    ("dashscope", "qwen3-max", {"effort": "none"}, {"enable_thinking": False}),
    ("dashscope", "qwen3-max", {"thinking_tokens": 900}, {"enable_thinking": True, "thinking_budget": 900}),
    ("minimax", "MiniMax-M2.5", {}, SPLIT),
    ("minimax", "MiniMax-M3", {"effort": "none"}, SPLIT | OFF),
    ("minimax", "MiniMax-M3", {"effort": "high"}, SPLIT | {"thinking": {"type": "adaptive"}}),
    ("openrouter", "z-ai/glm-5", {"effort": "low"}, {"reasoning": {"effort": "low"}}),
    ("openrouter", "anthropic/claude-opus-4.6", {"thinking_tokens": 2000}, {"reasoning": {"max_tokens": 2000}}),
    ("openrouter", "openai/gpt-5", {"verbosity": "low"}, {"verbosity": "low"}),
    ("mistral", "mistral-medium-3-5", {"effort": "high"}, HIGH),
    ("xai", "grok-4.3", {"effort": "high"}, HIGH),
    ("groq", "qwen/qwen3-32b", {"effort": "high"}, {"reasoning_effort": "default"}),
    ("groq", "qwen/qwen3-32b", {"effort": "none"}, {"reasoning_effort": "none"}),
    ("groq", "openai/gpt-oss-120b", {"effort": "high"}, HIGH),
    ("together", "zai-org/GLM-5", {"effort": "none"}, {"reasoning": {"enabled": False}}),
    ("together", "openai/gpt-oss-120b", {"effort": "high"}, HIGH),
    ("fireworks", "accounts/fireworks/models/kimi-k2p5", {"thinking_tokens": 1024},
     {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ("cerebras", "gpt-oss-120b", {"effort": "high"}, HIGH),
    ("nvidia", "nvidia/nemotron", {"effort": "high"}, HIGH),
    ("lmstudio", "qwen3", {"effort": "high"}, HIGH),
    ("openai", "gpt-5", {"effort": "high", "verbosity": "low", "api": "chat"}, HIGH | {"verbosity": "low"}),
]  # fmt: skip
PLAIN = {"model", "messages", "stream", "stream_options"}


def test_how_much_to_think_is_said_in_each_vendors_words(server: OpenAIServer) -> None:
    for engine, name, settings, wanted in THINKING:
        server.replies[:] = ["fine"]
        reply(model(server, engine, name, **settings))
        body = server.asked[-1].body
        assert ({key: body[key] for key in body if key not in PLAIN}, engine) == (wanted, engine)
    for engine in {engine for engine, *_ in THINKING} - {"minimax"}:
        server.replies[:] = ["fine"]
        reply(model(server, engine, api="chat"))
        assert set(server.asked[-1].body) <= PLAIN, engine


def test_a_number_of_tokens_that_no_parameter_takes_is_an_error(server: OpenAIServer) -> None:
    for engine in ("deepseek", "moonshot", "zai", "minimax", "mistral", "xai", "groq", "together"):
        with pytest.raises(UsageError, match="thinking_tokens"):
            reply(model(server, engine, thinking_tokens=100))
    assert server.asked == []


# ── what comes back ──────────────────────────────────────────────────────────────────────────────

FUNCTION = {"name": "add", "arguments": '{"a": 1,  "b": 2}'}  # its spaces are the vendor's
CALL = {"id": "Xy9Zt2Ab1", "type": "function", "function": FUNCTION}
SIGNED = CALL | {"extra_content": {"google": {"thought_signature": "c2ln"}}}


def detail(kind: str = "text", at: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": f"reasoning.{kind}", "index": at, "format": "anthropic-claude-v1", "id": None, **more}


@dataclass(frozen=True)
class Turn:
    """A reply with a call: `deltas` of a stream, what the whole `message` has, and the thoughts that may be `shown`."""

    engine: str
    deltas: Sequence[Mapping[str, Any]]
    message: Mapping[str, Any]
    shown: str = "First, add."
    call: Mapping[str, Any] = field(default_factory=lambda: CALL)

    def answers(self) -> Iterator[tuple[bool, Answer]]:
        called = {"tool_calls": [{"index": 0, **self.call}]}
        events = [{"choices": [{"index": 0, "delta": delta}]} for delta in (*self.deltas, called)]
        yield True, sse(*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}, "[DONE]")
        message = {"role": "assistant", "content": None, **self.message, "tool_calls": [self.call]}
        yield False, Answer(body=json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))


def in_pieces(key: str) -> Sequence[Mapping[str, Any]]:
    return [{key: "First, "}, {key: "add."}]


def thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


ENCRYPTED = detail("encrypted", 1, data="ZW5jcnlwdGVk", id="rs_1")
TURNS = {
    **{
        f"{engine}: {key}": Turn(engine, in_pieces(key), {key: "First, add."})
        for engine, key in [
            ("deepseek", "reasoning_content"), ("moonshot", "reasoning_content"), ("zai", "reasoning_content"),
            ("dashscope", "reasoning_content"), ("fireworks", "reasoning_content"), ("xai", "reasoning_content"),
            ("nvidia", "reasoning_content"), ("vllm", "reasoning"), ("groq", "reasoning"), ("cerebras", "reasoning"),
            ("together", "reasoning"), ("lmstudio", "reasoning"), ("openai", "reasoning_content"),
        ]
    },
    "DeepSeek, without a thought": Turn("deepseek", [{"reasoning_content": ""}], {"reasoning_content": ""}, ""),
    "OpenRouter, texts and what is encrypted": Turn(
        "openrouter",
        [
            {"reasoning": "First, ", "reasoning_details": [detail(text="First, ")]},
            {"reasoning": "add.", "reasoning_details": [detail(text="add.")]},
            {"reasoning_details": [detail(signature="c2lnbmVk")]},
            {"reasoning_details": [ENCRYPTED]},
            {"reasoning_details": [ENCRYPTED | {"id": "rs_2"}]},
        ],
        {"reasoning": "First, add.",
         "reasoning_details": [
            detail(text="First, add.", signature="c2lnbmVk"), ENCRYPTED, ENCRYPTED | {"id": "rs_2"}]},
    ),
    "OpenRouter, two thoughts and a summary": Turn(
        "openrouter",
        [{"reasoning_details": [one]} for one in (
            detail(text="First, "), detail(at=1, text="add"), detail("summary", 2, summary="."),)],
        {"reasoning_details": [
            detail(text="First, "), detail(at=1, text="add"), detail("summary", 2, summary=".")]},
    ),
    "MiniMax, the text so far": Turn(
        "minimax",
        [{"reasoning_details": [detail(text=text, format="MiniMax-response-v1")]} for text in ("First, ", "First, add.")],  # noqa: E501
        {"reasoning_details": [detail(text="First, add.", format="MiniMax-response-v1")]},
    ),
    "Gemini, a signature": Turn("openai", [], {}, "", SIGNED),
    "Mistral, parts": Turn(
        "mistral",
        [{"content": [thinking("First, ")]}, {"content": [thinking("add.") | {"closed": True}]}, {"content": "I "},
         {"content": "add."}],
        {"content": [thinking("First, add.") | {"closed": True}, {"type": "text", "text": "I add."}]},
    ),
    "Mistral, no thoughts": Turn("mistral", [{"content": "I add."}], {"content": "I add."}, ""),
}  # fmt: skip


def test_what_came_with_a_call_comes_back_as_it_was(server: OpenAIServer) -> None:
    for name, turn in TURNS.items():
        for stream, answer in turn.answers():
            result = run(server, model(server, turn.engine, stream=stream), answer, "3")
            assert result.answer == "3", (name, stream, result.events[-1])
            first = next(event.reply for event in result.events if isinstance(event, Replied))
            assert first.reasoning == turn.shown, (name, stream)
            sent, result_of_it = server.asked[-1].body["messages"][-2:]
            wanted = {"role": "assistant", "content": None, **turn.message, "tool_calls": [turn.call]}
            if not turn.message and turn.call is CALL:
                wanted["tool_calls"] = sent["tool_calls"]
            if name == "Mistral, no thoughts":  # nothing was kept, so the id is ours, in Mistral's form
                wanted["tool_calls"] = sent["tool_calls"]
                assert sent["tool_calls"][0]["id"].isalnum()
                assert len(sent["tool_calls"][0]["id"]) == 9
            assert sent == wanted, (name, stream)
            assert result_of_it["tool_call_id"] == sent["tool_calls"][0]["id"]


# ── turns of others ──────────────────────────────────────────────────────────────────────────────

FOREIGN = (
    Message("user", "What is 1 + 2?"),
    Message(
        "assistant", "", (AgentAction("add", {"a": 1, "b": 2}, id="call_1_0"),), state=ProviderState("messages x", "[]")
    ),
    Message("tool", "3", call_id="call_1_0", tool="add"),
    Message("assistant", "It is 3."),
    Message("user", "And 3 + 4?"),
)


def conversation(*messages: Message) -> Any:
    return request(Prompt(messages[0]).add(*messages[1:]))


def thinks(said: str, field: str = "reasoning_content") -> Any:
    """A server of a thinking model, to which each assistant's turn must say what was thought, if only a space."""

    def answer(asked: Request) -> Answer:
        turns = [(at, one) for at, one in enumerate(asked.body["messages"]) if one["role"] == "assistant"]
        missing = [at for at, one in turns if not one.get(field)]
        return failure(400, said.format(missing[0])) if missing else Answer("fine")

    return answer


MISSED = [
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "Missing `reasoning_content` field in the assistant message at message index {}. For more information, please refer"
    " to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls",
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index {}",
]


def test_a_turn_without_thoughts_gets_an_empty_one_where_the_server_wants_it(server: OpenAIServer) -> None:
    for at, said in enumerate(MISSED):
        server.always = thinks(said)
        server.requests.clear()
        one = model(server, "deepseek", f"model-{at}")
        answers = [reply(one, conversation(*FOREIGN)) for _ in range(2)]
        assert [answer.text for answer in answers] == ["fine", "fine"]
        assert answers[0].unsent == "messages x"
        assert len(server.asked) == 3, "it is learned once"
        assert [one.get("reasoning_content") for one in server.asked[-1].body["messages"]] == [
            None,
            " ",
            None,
            " ",
            None,
        ]
        assert reply(model(server, "deepseek", f"model-{at}"), conversation(*FOREIGN)).text == "fine"
        assert len(server.asked) == 4, "also by another engine"


GROQ = (
    "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property '{}' is unsupported"
)
REFUSED = [
    ("reasoning_content", GROQ.format("reasoning_content") + ")]"),
    ("reasoning", GROQ.format("reasoning") + ", did you mean 'role'?)]"),
    ("reasoning", "messages[1].reasoning: reasoning is not supported with this model"),
    (
        "reasoning_content",
        "messages.1.assistant.reasoning_content: property 'messages.1.assistant.reasoning_content' is unsupported",
    ),
    (
        "reasoning_content",
        "[{'type': 'extra_forbidden', 'loc': ['body', 'messages', 1, 'assistant', 'reasoning_content'], 'msg': 'Extra "
        "inputs are not permitted'}]",
    ),
    ("reasoning_details", "Additional properties are not allowed ('reasoning_details' was unexpected) - 'messages.1'"),
    ("extra_content", "Invalid JSON payload received. Unknown name \"extra_content\" at 'messages[1].tool_calls[0]'"),
]


def test_a_field_of_a_turn_that_the_server_rejects_is_left_out(server: OpenAIServer) -> None:
    for at, (name, said) in enumerate(REFUSED):

        def answer(asked: Request, name: str = name, said: str = said) -> Answer:
            turns = [one for one in asked.body["messages"] if one["role"] == "assistant"]
            sent = [one for turn in turns for one in (turn, *turn.get("tool_calls", ()))]
            return failure(400, said) if any(name in one for one in sent) else Answer("3")

        value: Any = [detail(text="First")] if name == "reasoning_details" else "First"
        call = SIGNED if name == "extra_content" else CALL
        had = {} if name == "extra_content" else {name: value}
        turn = Turn("groq", [had], had, call=call)
        first = next(first for stream, first in turn.answers() if stream == bool(at % 2))
        server.always = answer
        assert run(server, model(server, "groq", f"model-{at}", stream=bool(at % 2)), first).answer == "3", said
        assert len(server.asked) == 3


# ── Mistral ──────────────────────────────────────────────────────────────────────────────────────


def mistral_problem(asked: Request) -> str:
    """What mistral-common's validator says of a request."""
    if unknown := {"stream_options", "seed", "max_completion_tokens"} & set(asked.body):
        return f"Extra inputs are not permitted: {unknown}"
    before: Mapping[str, Any] = {"role": "system"}
    may_follow = {
        "system": {"system", "user", "assistant"},
        "user": {"user", "assistant"},
        "tool": {"tool", "assistant"},
    }
    for message in asked.body["messages"]:
        role, was = message["role"], before["role"]
        follows = may_follow.get(was, {"tool"} if before.get("tool_calls") else {"user", "assistant"})
        if role not in follows:
            return f"Unexpected role '{role}' after role '{was}'"
        for id in [*[one["id"] for one in message.get("tool_calls", ())], message.get("tool_call_id", "a" * 9)]:  # noqa: A001
            if len(id) != 9 or not id.isalnum():
                return f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
        before = message
    if before["role"] == "assistant" and not before.get("prefix"):
        return "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
    return ""


MISTRAL = {
    "turns of another vendor": FOREIGN,
    "a user after a tool": (*FOREIGN[:3], Message("user", "Answer now.")),
    "two tools, then a user": (
        FOREIGN[0],
        Message("assistant", "", tuple(AgentAction("add", {"a": 1, "b": 2}, id=f"call_1_{at}") for at in range(2))),
        *[Message("tool", "3", call_id=f"call_1_{at}", tool="add") for at in range(2)],
        Message("user", "Answer now."),
    ),
    "the beginning of the reply": (Message("user", "Hello"), Message("assistant", "Dear")),
}


def test_mistral_gets_its_order_of_roles_and_its_ids(server: OpenAIServer) -> None:
    def answer(asked: Request) -> Answer:
        problem = mistral_problem(asked)
        return failure(400, problem) if problem else Answer("fine")

    server.always = answer
    one = model(server, "mistral")
    for name, messages in MISTRAL.items():
        assert reply(one, conversation(*messages)).text == "fine", name
    prompt = Prompt(FOREIGN[0])
    for message in FOREIGN[1:]:  # one after the other, as a run goes on
        prompt = prompt.add(message)
        if message.role != "assistant":
            assert reply(one, request(prompt)).text == "fine"


# ── effort is not dropped ────────────────────────────────────────────────────────────────────────


def test_an_effort_that_the_vendor_refuses_is_its_error(server: OpenAIServer) -> None:
    server.replies += [failure(400, "Model grok-4 does not support parameter reasoningEffort.")]
    with pytest.raises(ModelRefused, match="reasoningEffort"):
        reply(model(server, "xai", "grok-4", effort="high"))
    assert len(server.asked) == 1


def test_a_last_answer_is_asked_for_where_calls_cannot_be_forbidden(server: OpenAIServer) -> None:
    def answer(asked: Request) -> Answer:
        if asked.body.get("tool_choice", "auto") != "auto":
            return failure(400, "tool_choice currently only supports auto")
        return Answer(calls=[("add", {"a": 19, "b": 23})]) if "tools" in asked.body else Answer("42")

    server.always = answer
    agent = Agent(model(server, "zai", "glm-5"), [ADD], strategy="tool_calling", budget=Budget(steps=2))
    assert [agent.run("What is 19 + 23?").answer for _ in range(2)] == ["42", "42"]
    with pytest.raises(ModelRefused, match="only supports auto"):
        Agent(model(server, "zai", "glm-5"), [ADD], strategy=ToolCalling(tool_choice="required")).run("19 + 23?")


def test_a_call_that_the_vendor_could_not_read_is_asked_for_again(server: OpenAIServer) -> None:
    server.replies += [
        failure(400, "Failed to call a function. Please adjust your prompt.", code="tool_use_failed"),
        "3",
    ]
    assert reply(model(server, "groq")).text == "3"
