"""Every engine with a server that stands in for its vendor, all used in one way.

    @pytest.mark.parametrize("engine", ENGINES)
    def test_it(engine: str) -> None:
        with ENGINES[engine]() as server:
            server.replies += ["Hello", Answer(calls=[("add", {"a": 1, "b": 2})]), failure(429, retry_after="0")]
            result = Agent(model(server), tools).run("…")
            server.asked[0].body  # what the vendor got, as JSON

A server refuses (400) what its vendor would refuse. `abilities(native=True)` asks it once: let the first of
its `replies` be `PROBED` for an engine and model whose native tool calls work, any text for one whose do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from retinue import PromptModel
from retinue.net.retry import Retries

from .anthropic_server import anthropic_server
from .cohere_server import cohere_server
from .gemini_server import gemini_server
from .ollama_server import ollama_server
from .openai_server import OpenAIServer
from .scripted_server import Answer, ScriptedServer

PROBED = Answer(calls=[("add", {"a": 19, "b": 23})])
SOON = Retries(tries=3, first_wait=0.001)


def model(server: ScriptedServer, **settings: Any) -> PromptModel:
    """A model of the engine that `server` stands in for; it asks again without waiting long."""
    chosen: dict[str, Any] = {"retries": SOON, "api_key": "sk-test"} | settings
    if server.engine == "openai":  # at another address than its own it would have to be recognised
        chosen = {"dialect": "openai"} | chosen
    return PromptModel("fake-model", engine=server.engine, base_url=server.url, **chosen)


def _openai() -> OpenAIServer:
    server = OpenAIServer("openai")
    server.strict = True
    return server


def _vllm() -> OpenAIServer:
    server = OpenAIServer("vllm")
    server.owned_by, server.window, server.strict = "vllm", 4096, True
    return server


def _llamacpp() -> OpenAIServer:
    server = OpenAIServer("llamacpp")
    server.owned_by, server.window, server.strict = "llamacpp", 4096, True
    return server


def _tgi() -> OpenAIServer:
    server = OpenAIServer("tgi")
    server.owned_by, server.tgi, server.window, server.strict = None, True, 4096, True
    return server


def _huggingface() -> OpenAIServer:
    server = OpenAIServer("huggingface")
    server.owned_by, server.strict = "Qwen", True
    return server


ENGINES: Mapping[str, Callable[[], ScriptedServer]] = {
    "openai": _openai,
    "vllm": _vllm,
    "tgi": _tgi,
    "llamacpp": _llamacpp,
    "huggingface": _huggingface,
    "anthropic": anthropic_server,
    "cohere": cohere_server,
    "gemini": gemini_server,
    "ollama": ollama_server,
}
