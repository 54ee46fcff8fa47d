"""A client of each wire format that does as the vendor documents it: it sends back what it was given, as it was.

    with VendorServer("anthropic") as server:
        assert converse(server, stream=False) == SCRIPT[-1].text

It shows that the stand-in refuses nothing that is right, so that what it refuses after a change is that change's fault.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from retinue.testing import VendorServer

Json = dict[str, Any]
_NUMBERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
SCHEMAS = {
    "add": {"type": "object", "properties": _NUMBERS, "required": ["a", "b"]},
    "look": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
}
QUESTION = "What is 12 + 30, and what about Åbo?"


def post(server: VendorServer, path: str, body: Any, headers: Json | None = None) -> Any:
    """Send a request; its answer, or `None` if it is refused."""
    key = server.vendor.key.split()[:1]
    sent = {name: server.key if name != "authorization" else f"Bearer {server.key}" for name in key}
    sent |= {"content-type": "application/json", "anthropic-version": "2023-06-01", **(headers or {})}
    request = urllib.request.Request(server.address + path, json.dumps(body).encode(), sent)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        error.close()
        return None


def converse(server: VendorServer, model: str = "", question: str = QUESTION) -> str | None:
    """Ask until the model answers; the answer, or `None` if a request was refused."""
    server.model = model or server.model
    return _TALKS.get(server.vendor.name, _chat)(server, question)


def _functions() -> list[Json]:
    return [
        {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
        for name, schema in SCHEMAS.items()
    ]


def _chat(server: VendorServer, question: str) -> str | None:
    traits = server.vendor.models[server.model].split()
    path = {"azure-chat": "/openai/v1/chat/completions"}.get(
        server.vendor.name, f"{server.vendor.root}/chat/completions"
    )
    messages: list[Json] = [{"role": "user", "content": question}]
    more = {"reasoning_effort": "none"} if "responses" in traits else {}
    while True:
        body = {"model": server.model, "messages": messages, "tools": _functions(), **more}
        if (reply := post(server, path, body)) is None:
            return None
        message = reply["choices"][0]["message"]
        if "old" in traits:
            message.pop("reasoning_content", None)
        messages = [*messages, message]
        if not message.get("tool_calls"):
            content = message["content"]
            return content if isinstance(content, str) else content[-1]["text"]
        messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]


def _responses(server: VendorServer, question: str) -> str | None:
    items: list[Json] = [{"role": "user", "content": question}]
    tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
    more: Json = {"store": False}
    if "reasoning" in server.vendor.models[server.model]:
        more |= {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    while True:
        body = {"model": server.model, "input": items, "tools": tools, **more}
        if (reply := post(server, f"{server.vendor.root}/responses", body)) is None:
            return None
        items = [*items, *reply["output"]]
        calls = [one for one in reply["output"] if one["type"] == "function_call"]
        if not calls:
            return str(reply["output"][-1]["content"][0]["text"])
        items += [{"type": "function_call_output", "call_id": one["call_id"], "output": "ok"} for one in calls]


def _messages(server: VendorServer, question: str) -> str | None:
    traits = server.vendor.models[server.model].split()
    thinking = {"type": "enabled", "budget_tokens": 1024} if "budget" in traits else {"type": "adaptive"}
    messages: list[Json] = [{"role": "user", "content": question}]
    tools = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
    while True:
        body: Json = {"messages": messages, "tools": tools, "max_tokens": 4000, "thinking": thinking}
        path = f"{server.vendor.root}/messages"
        if server.vendor.name == "anthropic-vertex":
            path = f"{server.vendor.root}/publishers/anthropic/models/{server.model}:rawPredict"
            body["anthropic_version"] = "vertex-2023-10-16"
        else:
            body["model"] = server.model
        if (reply := post(server, path, body)) is None:
            return None
        messages = [*messages, {"role": "assistant", "content": reply["content"]}]
        calls = [one for one in reply["content"] if one["type"] == "tool_use"]
        if not calls:
            return str(reply["content"][-1]["text"])
        results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "ok"} for one in calls]
        messages.append({"role": "user", "content": results})


def _gemini(server: VendorServer, question: str) -> str | None:
    contents: list[Json] = [{"role": "user", "parts": [{"text": question}]}]
    declared = [{"name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
    root = server.vendor.root + ("/publishers/google" if server.vendor.name == "vertex" else "")
    while True:
        config = {"thinkingConfig": {"includeThoughts": True}}
        body = {"contents": contents, "tools": [{"functionDeclarations": declared}], "generationConfig": config}
        if (reply := post(server, f"{root}/models/{server.model}:generateContent", body)) is None:
            return None
        content = reply["candidates"][0]["content"]
        contents = [*contents, content]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        if not calls:
            return "".join(part["text"] for part in content["parts"] if not part.get("thought"))
        results = [{"functionResponse": {**one, "response": {"result": "ok"}}} for one in calls]
        for one in results:
            del one["functionResponse"]["args"]
        contents.append({"role": "user", "parts": results})


def _cohere(server: VendorServer, question: str) -> str | None:
    messages: list[Json] = [{"role": "user", "content": question}]
    while True:
        body = {"model": server.model, "messages": messages, "tools": _functions()}
        if (reply := post(server, "/v2/chat", body)) is None:
            return None
        message = reply["message"]
        messages = [*messages, message]
        if not message.get("tool_calls"):
            return str(message["content"][-1]["text"])
        messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]


def _ollama(server: VendorServer, question: str) -> str | None:
    messages: list[Json] = [{"role": "user", "content": question}]
    while True:
        body = {"model": server.model, "messages": messages, "tools": _functions(), "stream": False}
        if (reply := post(server, "/api/chat", body)) is None:
            return None
        message = reply["message"]
        messages = [*messages, message]
        if not message.get("tool_calls"):
            return str(message["content"])
        names = [one["function"]["name"] for one in message["tool_calls"]]
        messages += [{"role": "tool", "tool_name": name, "content": "ok"} for name in names]


_TALKS: dict[str, Callable[[VendorServer, str], str | None]] = {
    "openai": _responses, "azure": _responses, "xai-responses": _responses, "anthropic": _messages,
    "bedrock": _messages, "anthropic-vertex": _messages, "gemini": _gemini, "vertex": _gemini, "cohere": _cohere,
    "ollama": _ollama,
}  # fmt: skip
