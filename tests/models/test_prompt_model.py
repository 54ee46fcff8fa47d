"""`PromptModel` as people use it on its own: names, settings, run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fakes.openai_server import OpenAIServer
from retinue import Message, PromptModel, UsageError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path))


@pytest.fixture
def pulled(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF and so on")
    return path


# ── names ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "settings", "name"),
    [
        ("openai:gpt-5-mini", {"api_key": "k"}, "gpt-5-mini"),
        ("gpt-5-mini", {"api_key": "k"}, "gpt-5-mini"),
        ("gpt-5-mini", {"api_key": "k", "engine": "openai"}, "gpt-5-mini"),
        ("openai:ft:gpt-5:org::id", {"api_key": "k"}, "ft:gpt-5:org::id"),
        ("qwen2.5:7b", {"base_url": "http://127.0.0.1:9"}, "qwen2.5:7b"),
        ("Qwen/Qwen2.5", {"base_url": "http://127.0.0.1:9"}, "Qwen/Qwen2.5"),
        ("", {"base_url": "127.0.0.1:9"}, "http://127.0.0.1:9/v1"),
        ("local:tiny", {}, "tiny"),
        ("tiny", {"engine": "local"}, "tiny"),
        ("scripted", {"script": ["x"]}, "scripted"),
        ("", {"script": ["x"]}, "scripted"),
    ],
)
def test_a_name_says_which_model_of_which_engine(given: str, settings: dict[str, Any], name: str, pulled: Path) -> None:
    assert PromptModel(given, **settings).name == name


def test_a_path_is_a_local_model(pulled: Path) -> None:
    assert PromptModel(str(pulled)).name == "tiny"
    assert PromptModel(f"local:{pulled}").name == "tiny"


@pytest.mark.parametrize(
    ("given", "settings", "problem"),
    [
        ("x", {"engine": "frob"}, "no engine 'frob'; there are: local, openai, scripted"),
        ("frob:x", {}, "no engine 'frob'; there are: local, openai, scripted"),
        ("gpt-5-mini", {}, "OpenAI needs a key: set OPENAI_API_KEY (or name another server with --base-url)"),
        ("gpt-5-mini", {"api_key": "k", "temprature": 1}, "PromptModel: unknown setting temprature"),
        ("gpt-5-mini", {"api_key": "two\nlines"}, "the API key has characters that no key has, such as a line break"),
        ("local:nothing", {}, "no model 'nothing'"),
        ("local", {}, "the embedded model is not here yet; fetch it (1.1 GB) with: retinue models pull"),
    ],
)
def test_what_cannot_work_is_refused_at_once(given: str, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        PromptModel(given, **settings)
    assert str(raised.value).startswith(problem)


def test_key_and_address_may_come_from_the_environment(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.api_key = "sk-environment"
    server.replies += ["hello"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert PromptModel("some-model").run("hi").text == "hello"


# ── run ──────────────────────────────────────────────────────────────────────────────────────────


def test_run_gives_the_reply_to_a_text(server: OpenAIServer) -> None:
    server.replies += ["a blocking\nreply"]
    got = PromptModel("m", base_url=server.url).run("Say something.", stop=["\n"], max_tokens=9)
    assert (got.text, got.usage.requests) == ("a blocking", 1)
    body = server.asked[0].body
    assert body["messages"] == [{"role": "user", "content": "Say something."}]
    assert (body["stop"], body["max_tokens"]) == (["\n"], 9)


def test_run_async_gives_the_reply_to_a_conversation(server: OpenAIServer) -> None:
    server.replies += ["fine"]
    conversation = [
        Message("system", "Be kind."),
        Message("user", "Hi"),
        Message("assistant", "Hello"),
        Message("user", "?"),
    ]
    model = PromptModel("m", base_url=server.url)
    assert asyncio.run(model.run_async(conversation)).text == "fine"
    roles = [message["role"] for message in server.asked[0].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


def test_one_model_may_be_used_from_many_loops_and_none(server: OpenAIServer) -> None:
    server.replies += ["1", "2", "3"]
    model = PromptModel("m", base_url=server.url)
    texts = [model.run("?").text, asyncio.run(model.run_async("?")).text, asyncio.run(model.run_async("?")).text]
    assert texts == ["1", "2", "3"]


def test_a_closed_model_may_be_used_again(server: OpenAIServer) -> None:
    server.replies += ["1", "2"]
    model = PromptModel("m", base_url=server.url)

    async def closed_between() -> list[str]:
        first = await model.run_async("?")
        await model.close()
        return [first.text, (await model.run_async("?")).text]

    assert asyncio.run(closed_between()) == ["1", "2"]


def test_an_empty_conversation_is_refused(server: OpenAIServer) -> None:
    with pytest.raises(UsageError, match="needs something to reply to"):
        PromptModel("m", base_url=server.url).run([])


def test_a_server_elsewhere_is_reached_through_the_proxy_of_the_environment(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    server.replies += ["Hello"]
    model = PromptModel("m", base_url="http://models.example", api_key="k", dialect="none")
    assert model.run("Hello?").text == "Hello"
    assert server.requests[-1].headers["Host"] == "models.example"
