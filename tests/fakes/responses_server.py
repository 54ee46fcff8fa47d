"""A server that speaks OpenAI's Responses API, and says and refuses what it is told to.

with ModelServer() as server:
    server.replies += [response(reasoning(), call("add", a=1, b=2)), response(said("3"))]
    server.rule = lambda asked: refused("No.") if "include" in asked.body else None
    ... engine(server) ...
    assert server.bodies[-1]["input"]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from retinue import Message, Tool
from retinue.core.prompt import Ask, Prompt
from retinue.models import Retries
from retinue.models.engine import HttpEngine
from retinue.models.settings import Settings
from retinue.models.vendors import openai

from .asking import request
from .json_service import Asked, JSONService, Said
from .vendors.openai_responses import RESPONSES

Json = dict[str, Any]
SOON = Retries(tries=3, first_wait=0.001)
SEALED = "gAAAA-sealed"
_KEYS = count()
CHAT: Json = {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}


def reasoning(number: int = 1, *summary: str, **more: Any) -> Json:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": parts,
        "encrypted_content": SEALED + str(number),
    } | more


def said(text: str, number: int = 1, **more: Any) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    } | more


def call(name: str = "add", number: int = 1, **given: Any) -> Json:
    head = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": f"call_v{number}"}
    return head | {"name": name, "arguments": json.dumps(given)}


def response(*output: Json, **more: Any) -> Json:
    used = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 9}
    used["output_tokens_details"] = {"reasoning_tokens": 5}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-6", "error": None}
    return whole | {"incomplete_details": None, "output": list(output), "usage": used} | more


def refused(message: str, param: str | None = None, code: str | None = None, status: int = 400, **more: Any) -> Said:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code, **more}
    return status, {"error": error}, {}


def events(*said: Any) -> Said:
    body = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in said)
    return 200, body, {"Content-Type": "text/event-stream"}


def always(answer: Said | None) -> Callable[[Asked], Said | None]:
    """A rule that gives this answer to each request."""
    return lambda asked: answer


def to_those_with(text: str, answer: Said) -> Callable[[Asked], Said | None]:
    """A rule that gives this answer to requests with `text` in their body."""
    return lambda asked: answer if text in json.dumps(asked.body) else None


class ModelServer(JSONService):
    """It answers with the next of `replies`, or with what `rule` says of the request; it streams if it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Json] = []
        self.rule: Callable[[Asked], Said | None] = lambda asked: None

    def answer(self, asked: Asked) -> Said:
        if asked.body is None:
            return 200, {"object": "list", "data": [{"id": "gpt-6", "object": "model", "owned_by": "system"}]}, {}
        if found := self.rule(asked):
            return found
        if "add" in [tool.get("name") for tool in asked.body.get("tools", ())] and "19" in json.dumps(asked.body):
            return self.sent(asked, response(call("add", 9, a=19, b=23)))
        return self.sent(asked, self.replies.pop(0) if self.replies else response(said("fine")))

    def sent(self, asked: Asked, whole: Json) -> Said:
        if not asked.body.get("stream"):
            return 200, whole, {}
        return 200, b"".join(RESPONSES.stream(whole)), {"Content-Type": "text/event-stream"}

    @property
    def bodies(self) -> list[Json]:
        """What was asked of the model."""
        return [one.body for one in self.asked if one.body is not None]


def engine(server: ModelServer, model: str = "gpt-6", **settings: Any) -> HttpEngine:
    """OpenAI's engine, as it is at OpenAI's own address, with a key of its own, so that it has learned nothing."""
    given: Json = {"api_key": f"sk-test-{next(_KEYS)}", "retries": SOON} | settings
    return HttpEngine(Settings(model=model, base_url=server.url, **given), openai.VENDOR)


def ask(*messages: Message, tools: Sequence[Tool] = (), **more: Any) -> Ask:
    given = messages or (Message("user", "Hello?"),)
    return replace(request(Prompt(given[0]).add(*given[1:])), tools=tuple(tools), **more)
