"""`PromptModel` as people use it on its own: names, settings, run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fakes.engines import ENGINES
from fakes.openai_server import OpenAIServer
from retinue import Message, PromptModel, UsageError

KEYS = {
    "OPENAI_API_KEY": ("openai", "OpenAI needs a key: set OPENAI_API_KEY ("),
    "ANTHROPIC_API_KEY": ("anthropic", "Anthropic needs a key: set ANTHROPIC_API_KEY ("),
    "GEMINI_API_KEY": ("gemini", "Gemini needs a key: set GEMINI_API_KEY or GOOGLE_API_KEY ("),
    "GOOGLE_API_KEY": ("gemini", "Gemini needs a key: set GEMINI_API_KEY or GOOGLE_API_KEY ("),
    "CO_API_KEY": ("cohere", "Cohere needs a key: set CO_API_KEY or COHERE_API_KEY ("),
    "COHERE_API_KEY": ("cohere", "Cohere needs a key: set CO_API_KEY or COHERE_API_KEY ("),
    "HF_TOKEN": ("huggingface", "Hugging Face needs a key: set HF_TOKEN ("),
}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_BASE_URL", *KEYS):
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
        ("vllm:Qwen/Qwen3-8B@http://host:8000", {}, "Qwen/Qwen3-8B"),
        ("openai:odd@name@https://host", {}, "odd@name"),
        ("Qwen/Qwen3-8B@http://host", {}, "Qwen/Qwen3-8B"),
        ("ollama:qwen3:8b", {}, "qwen3:8b"),
        ("vllm", {}, "http://localhost:8000/v1"),
        ("tgi", {}, "http://localhost:8080/v1"),
        ("llamacpp", {}, "http://localhost:8080/v1"),
        ("ollama", {}, "http://localhost:11434/api"),
        ("vllm@http://host/v1", {}, "http://host/v1"),
        ("", {"llm_engine": "vllm", "llm_endpoint_url": "http://host:1", "llm_model_id": "m"}, "m"),
        ("", {"llm_engine": "anthropic", "api_key": "k", "llm_model_id": "claude-x"}, "claude-x"),
        ("", {"llm_endpoint_url": "http://host:1"}, "http://host:1/v1"),
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
        ("x", {"engine": "frob"}, "no engine 'frob'; there are: local, openai"),
        ("frob:x", {}, "no engine 'frob'; there are: local, openai"),
        ("gpt-5-mini", {}, "OpenAI needs a key: set OPENAI_API_KEY (or name another server: base_url)"),
        ("openai", {"api_key": "k"}, "OpenAI has many models; name one: openai:MODEL"),
        ("anthropic", {"api_key": "k"}, "Anthropic has many models; name one: anthropic:MODEL"),
        ("anthropic:m", {"api_key": "k", "api": "completions"}, "Anthropic has no completions; omit `api`"),
        ("vllm:m", {"dialect": "frob"}, "no dialect 'frob'; there are: llamacpp, vllm,"),
        (
            "m",
            {"llm_model_id": "n"},
            "PromptModel: llm_model_id is an alias of model_name_or_path; set only one of them",
        ),
        ("m", {"engine": "vllm", "llm_engine": "tgi"}, "PromptModel: llm_engine is an alias of engine"),
        (
            "gpt-5-mini",
            {"api_key": "k", "temprature": 1},
            "PromptModel: unknown setting temprature; did you mean 'temperature'?",
        ),
        ("opnai:gpt-5", {}, "no engine 'opnai'; did you mean 'openai'?"),
        ("lokal", {}, "no engine 'lokal'; did you mean 'local'? (openai:lokal is a model of OpenAI)"),
        ("lokal", {"api_key": "k"}, "no engine 'lokal'; did you mean 'local'?"),
        ("m", {"base_url": "http://127.0.0.1:9", "api": "chatt"}, "no api 'chatt'; did you mean 'chat'?"),
        ("gpt-5-mini", {"api_key": "two\nlines"}, "the API key has characters that no key has, such as a line break"),
        ("local:nothing", {}, "no model 'nothing'"),
        ("local", {}, "the embedded model is not here yet; fetch it (1.1 GB) with: retinue models pull embedded"),
    ],
)
def test_what_cannot_work_is_refused_at_once(given: str, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        PromptModel(given, **settings)
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize("variable", KEYS)
def test_a_vendors_key_comes_from_its_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, problem = KEYS[variable]
    with pytest.raises(UsageError) as raised:
        PromptModel(f"{engine}:m")
    assert str(raised.value).startswith(problem)
    with ENGINES[engine]() as server:
        server.api_key = "from the environment"
        server.replies += ["hello"]
        monkeypatch.setenv(variable, "from the environment")
        assert PromptModel("m", engine=engine, base_url=server.url, dialect="none").run("hi").text == "hello"
        assert PromptModel(f"{engine}:m").name == "m"


def test_the_name_may_say_engine_model_and_address_at_once() -> None:
    with ENGINES["ollama"]() as server:
        server.replies += ["hello", "hello"]
        assert PromptModel(f"ollama:qwen3:8b@{server.url}").run("hi").text == "hello"
        assert PromptModel(f"ollama@{server.url}/api").run("hi").text == "hello"
        assert [one.body["model"] for one in server.asked] == ["qwen3:8b", "fake-model"]


def test_key_and_address_may_come_from_the_environment(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.api_key = "sk-environment"
    server.replies += ["hello"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert PromptModel("some-model").run("hi").text == "hello"


@pytest.mark.parametrize("name", ["opnai:gpt-5", "antropic:claude-sonnet-4-5", "olama:qwen3", "lokal"])
def test_a_misspelt_engine_is_refused_also_where_the_address_is_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    with pytest.raises(UsageError, match="did you mean"):
        PromptModel(name)


@pytest.mark.parametrize("name", ["llama3:8b", "qwen3:8b", "gpt-oss:20b", "llama:7b", "mistral", "command-r:35b"])
def test_names_of_models_at_a_server_may_contain_a_colon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    assert PromptModel(name).name == name


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


def test_a_closed_model_may_be_used_again(server: OpenAIServer) -> None:
    server.replies += ["1", "2"]
    model = PromptModel("m", base_url=server.url)

    async def closed_between() -> list[str]:
        first = await model.run_async("?")
        await model.close()
        return [first.text, (await model.run_async("?")).text]

    assert asyncio.run(closed_between()) == ["1", "2"]


def test_an_empty_conversation_is_refused(server: OpenAIServer) -> None:
    with pytest.raises(UsageError, match="give the model something to reply to"):
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


def test_a_model_that_could_not_be_made_can_be_shown() -> None:
    half = PromptModel.__new__(PromptModel)
    with pytest.raises(UsageError):
        half.__init__("gpt-5-mini", engine="no such engine")  # type: ignore[misc]
    assert repr(half) == "PromptModel(engine='no such engine')"
    assert repr(PromptModel.__new__(PromptModel)) == "PromptModel()"
