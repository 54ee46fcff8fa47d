"""A model that remembers what it was shown: what it says is a name for that.

Words are like `u17q`: a letter, a number, a `q`. It sees those in its instructions, in its tools and in the
conversation, and answers with a new one, under which they are kept in `seen`.
"""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any, NamedTuple

from aiohttp import web

from .loopback import Served

_WORD = re.compile(r"(?<![a-z0-9])[a-z]\d+q(?![a-z0-9])")
CALL = "please call"  # in a question: the tool is called first


def words(text: str) -> list[str]:
    """The words in a text, in their order."""
    return _WORD.findall(text)


class Seen(NamedTuple):
    """The words that it was shown."""

    system: frozenset[str]
    tools: frozenset[str]
    conversation: list[str]


class EchoModel(Served):
    """The model, while its `with` lasts."""

    def __init__(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._reply)
        super().__init__(app)
        self.seen: dict[str, Seen] = {}
        self._numbers = count()

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages, tools = body["messages"], body.get("tools", [])
        told = [one for one in messages if one["role"] != "system"]
        system = {word for one in messages if one["role"] == "system" for word in words(one["content"])}
        said = [word for one in told for word in words(str(one["content"] or ""))]
        name = f"a{next(self._numbers)}q"
        self.seen[name] = Seen(frozenset(system), frozenset(words(json.dumps(tools))), said)
        calls = told[-1]["role"] == "user" and CALL in told[-1]["content"]
        if "19 + 23" in str(told[-1]["content"]):
            delta = _call("add", {"a": 19, "b": 23})
        elif calls and tools:
            delta = _call(tools[-1]["function"]["name"], {"word": name})
        else:
            delta = {"content": name}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for choice in ({"delta": delta, "finish_reason": None}, {"delta": {}, "finish_reason": "stop"}):
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "echo"}
            data = json.dumps({**chunk, "choices": [{"index": 0, **choice}]})
            await response.write(f"data: {data}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response


def _call(name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": "call", "type": "function", "function": function}]}
