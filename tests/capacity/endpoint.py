"""The model's stand-in, in a process of its own: replies take as long as it is told, and are refused beyond a limit.

`Work in 4 steps` is answered by three calls of `note`, one after the other, and an answer.

    python -m capacity.endpoint     (prints its address)
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import sys
import time
from typing import Any

from aiohttp import web

_STEPS = re.compile(r"Work in (\d+) steps")
_HEAD = {"id": "said", "object": "chat.completion.chunk", "created": 1, "model": "worker"}


class StandIn:
    """What it was told last, and what it did since."""

    def __init__(self) -> None:
        self._dice = random.Random(1)
        self._seconds = self._spread = self._rate = self._burst = self._left = self._filled = 0.0
        self._replies = self._refusals = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=10**7)
        app.router.add_post("/settings", self._set)
        app.router.add_get("/counts", self._count)
        app.router.add_post("/v1/chat/completions", self._reply)
        return app

    async def _set(self, request: web.Request) -> web.Response:
        told = await request.json()
        self._seconds, self._spread = told["seconds"], told["spread"]
        self._rate = told["requests_per_minute"] / 60
        self._burst = self._left = self._rate * told["burst_seconds"]
        self._filled = time.monotonic()
        return web.json_response({})

    async def _count(self, request: web.Request) -> web.Response:
        return web.json_response({"replies": self._replies, "refusals": self._refusals})

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if self._rate and (pause := self._pause()):
            self._refusals += 1
            error = {"error": {"message": "too many requests", "type": "rate_limit", "code": "rate_limit_exceeded"}}
            return web.json_response(error, status=429, headers={"Retry-After": str(pause)})
        await asyncio.sleep(self._drawn())
        self._replies += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for choice in ({"delta": _delta(asked["messages"])}, {"delta": {}, "finish_reason": "stop"}):
            chunk = {**_HEAD, "choices": [{"index": 0, "finish_reason": None, **choice}]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    def _pause(self) -> int:
        """Nothing for a request within the limit, else the whole seconds after which to try again."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._filled) * self._rate)
        self._filled = now
        if self._left < 1:
            return math.ceil((1 - self._left) / self._rate)
        self._left -= 1
        return 0

    def _drawn(self) -> float:
        if not self._spread or not self._seconds:
            return self._seconds
        shape = 1 / self._spread**2
        return self._dice.gammavariate(shape, self._seconds / shape)


def _delta(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A call, or the answer if there were calls enough."""
    said = next((found for one in messages if (found := _STEPS.search(str(one["content"])))), None)
    if said is None:  # it is tried out whether it makes native calls
        return _call("add", {"a": 19, "b": 23}, 0)
    done = sum(one["role"] == "tool" for one in messages)
    if done + 1 >= int(said[1]):
        return {"content": f"It is all noted, in {said[1]} steps."}
    return _call("note", {"fact": f"number {done} of what there is to note"}, done)


def _call(name: str, arguments: dict[str, Any], number: int) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]}


async def _serve() -> None:
    runner = web.AppRunner(StandIn().app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1_000).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
