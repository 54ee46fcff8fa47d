"""What an engine learns of its server, and what it must not: by refusals, at once from several requests, by key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.asking import chunks_async, reply, request
from fakes.engines import ENGINES, PROBED, model
from fakes.openai_server import Answer, OpenAIServer, Request, failure
from retinue import Agent, ModelRefused, PromptModel, RunResult, Tool
from retinue.core.events import Started
from retinue.core.values import Reply
from retinue.errors import WindowExceeded
from retinue.models.known_servers import LEARNED, PROBED as PROCESS_WIDE

LOOK = Tool("look", lambda name: f"{name} is found", "Look somebody up", effects="read")


def refusing(*names: str, said: str = "Unsupported value: '{}' does not support 0.0 with this model.") -> Any:
    """What a server of reasoning models says."""

    def answer(asked: Request) -> Answer:
        refused = next((name for name in names if name in asked.body), None)
        if refused:
            return failure(400, said.format(refused))
        if any(tool["function"]["name"] == "add" for tool in asked.body.get("tools", ())):
            return PROBED
        return Answer("fine")

    return answer


async def at_once(make: Callable[[], Awaitable[Any]], times: int = 4) -> list[Any]:
    return await asyncio.gather(*(make() for _ in range(times)))


def test_several_first_requests_at_once_learn_together(server: OpenAIServer) -> None:
    server.always = refusing("temperature", "stream_options", "max_tokens")
    one = model(server)
    seen = asyncio.run(at_once(lambda: chunks_async(one, request(max_tokens=9))))
    assert [last.text for *_, last in seen if isinstance(last, Reply)] == ["fine"] * 4


def strategy_of(result: RunResult) -> str:
    """By which strategy a run was made."""
    started = result.events[0]
    assert isinstance(started, Started)
    return started.strategy


def test_several_first_runs_at_once_all_call_natively(server: OpenAIServer) -> None:
    server.always = refusing("temperature")
    agent = Agent(model(server), [LOOK])
    results = asyncio.run(at_once(lambda: agent.run_async("Who?")))
    assert {(result.answer, strategy_of(result)) for result in results} == {("fine", "tool_calling")}


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: '{}' is not supported with this model.",
        "Unrecognized request argument supplied: {}",
        "{}: Extra inputs are not permitted",
        "Model grok-4 does not support parameter {}.",
        "`{}` is deprecated for this model.",
        "property '{}' is unsupported",
        'Invalid JSON payload received. Unknown name "{}": Cannot find field.',
        "[{{'type': 'extra_forbidden', 'loc': ('body', '{}'), 'msg': 'Extra inputs are not permitted'}}]",
        "[{{'type': 'extra_forbidden', 'loc': ['body', '{}'], 'msg': 'Extra inputs are not permitted', 'input': 1}}]",
        "body.{}: Extra inputs are not permitted",
        "Unsupported parameter: '{}.include' is not supported with this model.",
        "Argument not supported on this model: {}",
        "invalid {}: only 1 is allowed for this model",
        "This {} type is unavailable now",
    ],
)
def test_a_refused_parameter_is_known_in_any_words(server: OpenAIServer, said: str) -> None:
    for name in ("stop", "stream_options", "temperature"):
        server.always = refusing(name, said=said)
        assert reply(model(server), request(stop=["x"])).text == "fine"


def test_a_name_of_several_words_may_be_written_in_one(server: OpenAIServer) -> None:
    server.always = lambda asked: (
        failure(400, "Argument not supported on this model: streamOptions")
        if "stream_options" in asked.body
        else Answer("fine")
    )
    assert reply(model(server)).text == "fine"


@pytest.mark.parametrize(
    ("wish", "settings"),
    [
        ("reasoning_effort", {"effort": "high"}),
        ("verbosity", {"verbosity": "low"}),
        ("seed", {"options": {"seed": 7}}),
    ],
)
def test_a_setting_is_refused_aloud_though_the_same_wish_of_a_request_was_not(
    server: OpenAIServer, wish: str, settings: dict[str, Any]
) -> None:
    server.always = refusing(wish, said="Unsupported parameter: '{}' is not supported with this model.")
    wished = replace(request(), options={wish: 7 if wish == "seed" else "high"})
    assert reply(model(server), wished).text == "fine"
    with pytest.raises(ModelRefused, match=wish):
        reply(model(server, **settings))
    assert reply(model(server, **settings), wished).text == "fine", "what the request wishes is left out all the same"


OF_SOMETHING_ELSE = [
    "Unsupported parameter: 'reasoning.max_tokens' is not supported with this model.",
    "generation_config.max_tokens is not supported",
    "messages.0.temperature: Extra inputs are not permitted",
    "tools[0].stop: unknown field",
    "Unsupported parameter: 'top_p'",
]


def test_a_parameter_in_another_one_is_not_the_parameter(server: OpenAIServer) -> None:
    for at, said in enumerate(OF_SOMETHING_ELSE):
        server.requests.clear()
        server.replies += [failure(400, said)]
        one = PromptModel(f"m{at}", base_url=server.url, dialect="openai", temperature=0.5)
        with pytest.raises(ModelRefused):
            reply(one, request(stop=["x"], max_tokens=9))
        assert len(server.asked) == 1, said


def test_many_at_once_learn_together_and_nothing_for_another_key(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(asked: Request) -> Answer:
        refused = next((name for name in ("temperature", "stream_options") if name in asked.body), None)
        if asked.headers["Authorization"].endswith("poor") and refused:
            return failure(400, f"Unsupported parameter: '{refused}'")
        return Answer("fine")

    server.always = answer
    models = [model(server, api_key=f"sk-{key}", temperature=0.5) for key in ("poor", "rich") for _ in range(20)]

    async def all_of_them() -> list[str]:
        texts = []
        for one in await asyncio.gather(*[chunks_async(one, request()) for one in models for _ in range(3)]):
            assert isinstance(one[-1], Reply)
            texts.append(one[-1].text)
        return texts

    assert asyncio.run(all_of_them()) == ["fine"] * 120
    server.requests.clear()
    asyncio.run(all_of_them())
    assert len(server.asked) == 120, "each is known"
    sent = {(asked.headers["Authorization"], "temperature" in asked.body) for asked in server.asked}
    assert sent == {("Bearer sk-poor", False), ("Bearer sk-rich", True)}
    said = [record for record in caplog.records if "temperature" in record.message]
    assert len(said) == 20, "once by each model for which somebody set it"


def test_a_model_that_thinks_for_long_may_call_tools(server: OpenAIServer) -> None:
    server.replies += [Answer("", finish="length"), PROBED, "fine"]
    result = Agent(model(server), [LOOK]).run("Who?")
    assert (result.answer, strategy_of(result)) == ("fine", "tool_calling")


# ── the key ──────────────────────────────────────────────────────────────────────────────────────

OF_THE_ACCOUNT = [
    failure(401, "Incorrect API key provided"),
    failure(403, "not for you"),
    failure(402, "Insufficient credits"),
    failure(400, "API key not valid. Please pass a valid API key."),
    failure(429, "You exceeded your current quota", code="insufficient_quota"),
]


@pytest.mark.parametrize("answer", OF_THE_ACCOUNT, ids=lambda answer: str(answer.status))
def test_a_refused_key_says_nothing_of_tool_calls(server: OpenAIServer, answer: Answer) -> None:
    server.replies += [answer]
    with pytest.raises(ModelRefused):
        Agent(model(server, api_key="sk-wrong"), [LOOK]).run("Who?")
    server.replies += [PROBED, "fine"]
    result = Agent(model(server, api_key="sk-right"), [LOOK]).run("Who?")
    assert (result.answer, strategy_of(result)) == ("fine", "tool_calling")


def test_what_one_key_can_do_is_not_what_another_can(server: OpenAIServer) -> None:
    server.replies += [failure(400, "tools are not supported"), PROBED]
    able = [asyncio.run(model(server, api_key=key).abilities(native=True)).calls_tools for key in ("sk-one", "sk-two")]
    assert able == [False, True]


# ── from one process to the next ─────────────────────────────────────────────────────────────────


def test_what_is_known_of_a_model_is_kept(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path))
    monkeypatch.setenv("RETINUE_KNOWN_SERVERS", "on")
    server.always = refusing("temperature")
    for asked in (3, 1, 1):  # a refused probe, a probe, and the question; later only that
        server.requests.clear()
        PROCESS_WIDE.clear()
        LEARNED.clear()
        assert Agent(model(server, temperature=0), [LOOK]).run("Who?").answer == "fine"
        assert len(server.asked) == asked
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert server.url not in kept.read_text()
    for damaged in ("", "[]", '{"a": 1}', kept.read_text()[:-5], kept.read_text().replace("true", '"yes"')):
        kept.write_text(damaged)
        server.requests.clear()
        PROCESS_WIDE.clear()
        LEARNED.clear()
        assert Agent(model(server), [LOOK]).run("Who?").answer == "fine"
        assert len(server.asked) >= 2


def test_nothing_is_kept_of_a_server_on_this_machine(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path))
    server.always = refusing("temperature")
    assert Agent(model(server), [LOOK]).run("Who?").answer == "fine"
    assert list(tmp_path.iterdir()) == []


# ── how long a reply may be ──────────────────────────────────────────────────────────────────────

LIMITS = {
    "Anthropic": "max_tokens: {} > 3000, which is the maximum allowed number of output tokens for claude-x",
    "OpenAI": "max_tokens is too large: {}. This model supports at most 3000 completion tokens.",
    "DeepSeek": "Invalid max_tokens value, the valid range of max_tokens is [1, 3000]",
    "Groq": "`max_tokens` must be less than or equal to `3000`, the maximum value for `max_tokens`",
    "Bedrock": "The maximum tokens you requested exceeds the model limit of 3000. Try again with a lower value.",
    "beside the prompt": "input length and `max_tokens` exceed context limit: 197000 + {} > 200000, decrease either",
}


@pytest.mark.parametrize("said", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("engine", ["openai", "anthropic"])
def test_a_limit_of_the_reply_is_learned_from_the_refusal(engine: str, said: str) -> None:
    def answer(asked: Request) -> Answer:
        most = asked.body["max_tokens"]
        return failure(400, said.format(most)) if most > 3000 else Answer("fine")

    with ENGINES[engine]() as server:
        server.always = answer
        one = model(server)
        assert [reply(one, request(max_tokens=9000)).text for _ in range(2)] == ["fine", "fine"]
        assert [asked.body["max_tokens"] for asked in server.asked] == [9000, 3000, 3000]


def test_a_reply_of_anthropics_may_be_as_long_as_the_models() -> None:
    most = {
        "claude-3-haiku-20240307": 4_096,
        "claude-3-5-sonnet-20241022": 8_192,
        "claude-opus-4-1-20250805": 32_000,
        "claude-sonnet-4-5": 64_000,
        "claude-opus-4-6": 128_000,
        "kimi-k2": 8_192,
    }
    with ENGINES["anthropic"]() as server:
        server.replies += ["fine"] * len(most)
        for name in most:
            reply(PromptModel(name, engine="anthropic", base_url=server.url, api_key="sk"))
        assert [asked.body["max_tokens"] for asked in server.asked] == list(most.values())


# ── too long ─────────────────────────────────────────────────────────────────────────────────────

TOO_LONG = {
    "OpenAI": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
    "OpenAI's Responses": "Your input exceeds the context window of this model.",
    "OpenAI, at once": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000. The input or "
    "output tokens must be reduced in order to run successfully.",
    "Anthropic": "prompt is too long: 200001 tokens > 199999 maximum",
    "Bedrock": "Input is too long for requested model.",
    "Bedrock, newer": "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Vertex": "Unable to submit request because the input token count is 40000 but model only supports up to 32768.",
    "SGLang": "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
    "SGLang, with the reply": "Requested token count exceeds the model's maximum context length of 32768 tokens.",
    "LM Studio": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with "
    "context length of only 4096 tokens, which is not enough.",
    "LM Studio, older": "The number of tokens to keep from the initial prompt is greater than the context length",
    "Groq": "Please reduce the length of the messages or completion.",
    "Groq, at once": "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, please "
    "reduce your message size and try again.",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
    "Mistral": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "Moonshot": "Invalid request: Your request exceeded model token limit: 8192",
    "Zhipu": "Prompt exceeds max length",
    "Qwen": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    "MiniMax": "invalid params, context window exceeds limit (2013)",
    "Ollama": "the input length exceeds the context length",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "watsonx": "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
    "vLLM": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "vLLM, newer": "You passed 5000 input tokens and requested 1000 output tokens. The model's context length is "
    "only 4096 tokens.",
    "GitHub": "prompt token count of 140000 exceeds the limit of 128000",
    "Azure": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    "LM Studio, in the reply": "Context size has been exceeded.",
}
NOT_TOO_LONG = [
    "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
    "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.",
    "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000.",
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute",
    "You exceeded your current quota, please check your plan and billing details.",
    "Requests with max_tokens > 4096 must have stream=true",
]


def test_a_prompt_that_is_too_long_is_known_in_any_vendors_words(server: OpenAIServer) -> None:
    one, asked = model(server), request()
    event = '{{"error": {{"message": {}, "type": "error"}}}}'
    for vendor, said in TOO_LONG.items():
        inside = Answer("x", event=event.format(f'"{said}"'))
        for answer in (failure(400, said), failure(413, said), failure(500, said), failure(429, said), inside):
            server.replies[:] = [answer]
            with pytest.raises(WindowExceeded):
                reply(one, asked)
            assert not server.replies, vendor
    for said in NOT_TOO_LONG:
        server.replies[:] = [failure(400, said)]
        with pytest.raises(ModelRefused) as raised:
            reply(one, asked)
        assert not isinstance(raised.value, WindowExceeded), said


def test_an_agent_goes_on_with_a_shorter_prompt(server: OpenAIServer) -> None:
    long = Tool("read", lambda page: f"page {page} " + "word " * 2000, "Read a page.", effects="read")
    server.replies += [PROBED, Answer(calls=[("read", {"page": "1"})]), failure(400, TOO_LONG["Gemini"]), "fine"]
    assert Agent(model(server), [long], strategy="tool_calling").run("Go").answer == "fine"
    assert len(server.asked[-1].raw) < len(server.asked[-2].raw)


# ── how long to wait ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("wait", "known"), [("1500000", "1500 s"), ("2500000.5", "2500 s"), ("soon", "")])
def test_a_wait_in_milliseconds_is_kept_to(server: OpenAIServer, wait: str, known: str) -> None:
    server.replies += [Answer(status=429, error="slow", headers={"retry-after-ms": wait, "Retry-After": "3600"})]
    with pytest.raises(Exception, match=f"it asks to wait {known or '3600 s'}"):
        reply(model(server))
