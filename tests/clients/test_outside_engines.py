"""Our models at other people's servers (`make engines` installs them): a gateway before our stand-ins, which do not
refuse what comes through it, and seven emulators of vendors' APIs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from fakes.until import until
from fakes.vendors import VendorServer
from retinue import Agent, PromptModel, tool
from retinue.core.events import Observed
from retinue.testing import SCRIPT

ENGINES = Path(__file__).parents[2] / ".engines"
NODE = Path(sys.executable).with_name("node")
AIMOCK = "node_modules/@copilotkit/aimock/dist/cli.js"
KEY = "sk-0123456789abcdef0123456789abcdef"

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (ENGINES / "installed").exists(), reason="the engines are not installed: `make engines`"),
]


@tool(effects="read")
def add(a: int, b: int) -> str:
    """Add two integers."""
    return f"{a + b}"


@tool(effects="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is a town."


@contextmanager
def running(folder: Path, ready: str, *words: str, **env: str) -> Iterator[str]:
    """A program of theirs in `folder` on a free port, with its address once it answers at the path `ready`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"http://127.0.0.1:{port}"
    program = [str(ENGINES / "bin" / words[0])] if words[0] != AIMOCK else [str(NODE), str(ENGINES / AIMOCK)]
    command = [*program, *words[1:], "--host", "127.0.0.1", "--port", port]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env={**os.environ, **env})

    def answers() -> bool:
        assert process.poll() is None, (folder / "log.txt").read_text()
        try:
            with urllib.request.urlopen(address + ready, timeout=5):
                return True
        except OSError:
            return False

    try:
        until(answers, seconds=180)
        yield address
    finally:
        process.kill()
        process.wait()


GATEWAY: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {  # what it calls a model: who has it, and how we ask
    "deepseek/deepseek-v4-pro": ("deepseek", "openai", {"api": "chat"}),
    "moonshot/kimi-k2.6": ("moonshot", "openai", {"api": "chat"}),
    "openai/gpt-5.6": ("openai", "openai", {"api": "responses"}),
    "anthropic/claude-opus-4-6": ("anthropic", "openai", {"api": "chat", "effort": "medium"}),
    "anthropic/claude-opus-4-7": ("anthropic", "anthropic", {"effort": "medium"}),
}


def test_vendors_behind_litellm_get_their_state_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = {one: stack.enter_context(VendorServer(one)) for one, _, _ in GATEWAY.values()}
        listed = []
        for name, (vendor, _, _) in GATEWAY.items():
            server = servers[vendor]
            base = server.address if vendor == "anthropic" else server.url
            listed.append(
                {"model_name": name, "litellm_params": {"model": name, "api_base": base, "api_key": server.key}}
            )
        (tmp_path / "config.yaml").write_text(json.dumps({"model_list": listed}))
        env = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
        words = ("litellm", "--config", "config.yaml", "--telemetry", "False")
        address = stack.enter_context(running(tmp_path, "/health/liveliness", *words, **env))
        for name, (vendor, engine, settings) in GATEWAY.items():
            for stream in (True, False):
                given: dict[str, Any] = {"base_url": f"{address}/v1", "api_key": KEY, "stream": stream, **settings}
                model = PromptModel(name, engine=engine, **given)
                result = Agent(model, [add, look], strategy="tool_calling").run("What is 12 + 30, and Åbo?")
                assert (servers[vendor].refusals, result.answer) == ([], SCRIPT[-1].text), (name, stream)


EMULATED = {
    "chat": ("openai", "/v1", "gpt-4o", {"api": "chat"}),
    "responses": ("openai", "/v1", "gpt-5", {"api": "responses"}),
    "anthropic": ("anthropic", "/anthropic/v1", "claude-sonnet-4-5", {}),
    "gemini": ("gemini", "/gemini/v1beta", "gemini-2.5-flash", {}),
    "cohere": ("cohere", "/cohere/v2", "command-a-03-2025", {}),
    "mistral": ("mistral", "/mistral/v1", "mistral-large-latest", {}),
    "groq": ("groq", "/groq/openai/v1", "llama-3.3-70b-versatile", {}),
    "together": ("together", "/together/v1", "meta-llama/Llama-3.3-70B-Instruct-Turbo", {}),
    "xai": ("xai", "/xai/v1", "grok-4", {}),
}


def test_vendors_as_llmock_plays_them(tmp_path: Path) -> None:
    with running(tmp_path, "/v1/models", "llmock", "serve") as address:
        for name, (engine, path, model, settings) in EMULATED.items():
            for stream in (True, False):
                given: dict[str, Any] = {"base_url": address + path, "api_key": "k", "stream": stream, **settings}
                result = Agent(PromptModel(model, engine=engine, **given), [add], strategy="tool_calling").run("Add.")
                assert result.answer, (name, stream)
                assert [event for event in result.events if isinstance(event, Observed)], (name, stream)


THINKS = [  # of aimock's model: what it calls, and what it says of the result
    {"match": {"hasToolResult": True}, "response": {"content": "It is 42.", "reasoning": "Now I know. "}},
    {
        "match": {"hasToolResult": False},
        "response": {
            "reasoning": "I add them. ",
            "reasoningSignature": "c2lnbmVk",
            "toolCalls": [{"name": "add", "arguments": '{"a": 19, "b": 23}'}],
        },
    },
]
AS_AIMOCK: Sequence[tuple[str, str, str, Mapping[str, Any]]] = (  # the engine, the path, the model, and its settings
    ("openai", "/v1", "gpt-4o", {"api": "chat"}),
    ("openai", "/v1", "gpt-5", {"api": "responses"}),
    ("azure", "/openai/v1", "gpt-4o", {"api": "chat"}),
    ("anthropic", "/v1", "claude-sonnet-4-5", {"effort": "low"}),
    ("gemini", "/v1beta", "gemini-2.5-flash", {"summary": "auto"}),
    ("ollama", "/api", "qwen3", {"effort": "low"}),
    ("cohere", "/v2", "command-a-03-2025", {}),
    ("openrouter", "/api/v1", "openai/gpt-5", {}),
    ("deepseek", "/v1", "deepseek-v4-pro", {}),
    ("mistral", "/v1", "mistral-large-latest", {}),
    ("groq", "/openai/v1", "llama-3.3-70b-versatile", {}),
    ("xai", "/v1", "grok-4", {}),
)


def test_vendors_as_aimock_plays_them(tmp_path: Path) -> None:
    (tmp_path / "says.json").write_text(json.dumps({"fixtures": THINKS}))
    with running(tmp_path, "/v1/models", AIMOCK, "--fixtures", "says.json", "--strict") as address:
        for engine, path, name, settings in AS_AIMOCK:
            for stream in (True, False):
                given: dict[str, Any] = {"base_url": address + path, "api_key": "k", "stream": stream, **settings}
                model = PromptModel(name, engine=engine, **given)
                result = Agent(model, [add], strategy="tool_calling").run("Add 19 and 23.")
                assert result.answer.endswith("It is 42."), (engine, stream, result.error)
                assert [one.observation.text for one in result.events if isinstance(one, Observed)] == ["42"]


def test_openai_as_fakeai_plays_it(tmp_path: Path) -> None:
    with running(tmp_path, "/v1/models", "fakeai-server", "server") as address:
        for api, name in (("chat", "gpt-4o"), ("responses", "gpt-5"), ("completions", "gpt-3.5-turbo-instruct")):
            for stream in (True, False):
                model = PromptModel(name, base_url=f"{address}/v1", api_key="k", api=api, stream=stream)
                assert model.run("What is 15 + 15?").text, (api, stream)


Asking: TypeAlias = tuple[str, str, str, Mapping[str, Any]]  # the engine, the path, the model, and its settings
CHAT: Asking = ("openai", "/v1", "gpt-4o", {"api": "chat"})
RESPONSES: Asking = ("openai", "/v1", "gpt-5", {"api": "responses"})
CLAUDE: Asking = ("anthropic", "/v1", "claude-3-5-sonnet-20241022", {})
WHOLE_CLAUDE: Asking = (*CLAUDE[:3], {"stream": False})  # where a stream lacks its last piece
GEMINI: Asking = ("gemini", "/v1beta", "gemini-2.0-flash", {})
FILES = {  # of which each emulator has one, to say the same
    "fakellm.yaml": {"version": 1, "rules": [{"name": "sum", "when": {}, "respond": {"content": "It is 30."}}]},
    "mockllm.yaml": {"responses": {}, "defaults": {"unknown_response": "It is 30."}},
    "stubllm.yaml": {"fixtures": [{"name": "sum", "match": {"provider": "any"}, "response": {"content": "It is 30."}}]},
}
OTHERS: Mapping[str, tuple[Sequence[str], Sequence[Asking]]] = {
    "fakellm": (("serve", "--config", "fakellm.yaml"), (CHAT, CLAUDE)),
    "llm-mock-api": (("start", "--fallback", "It is 30."), (CHAT, RESPONSES, CLAUDE)),
    "mockllm": (("start", "--responses", "mockllm.yaml"), (CHAT,)),  # it knows contents of Claude's that are texts
    "stubllm": (("serve", "--fixture-file", "stubllm.yaml"), (CHAT, WHOLE_CLAUDE, GEMINI)),
}


@pytest.mark.parametrize("program", OTHERS)
def test_vendors_as_others_play_them(program: str, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(json.dumps(content))
    words, vendors = OTHERS[program]
    with running(tmp_path, "/openapi.json", program, *words) as address:
        for engine, path, model, settings in vendors:
            for stream in (True, False):
                given: dict[str, Any] = {"base_url": address + path, "api_key": "k", "stream": stream, **settings}
                said = PromptModel(model, engine=engine, **given).run("What is 15 + 15?").text
                assert said == "It is 30.", (engine, stream)
