"""What is outside the server, in a process of its own that nobody kills: a ledger of effects, and a model.

The ledger does as a payment service would: an effect with an `Idempotency-Key` that it has seen is not done again; one
without is done each time. The model works off an order: `Order 7: look, note+pay` is a call of `look`, then calls of
`note` and `pay` side by side, each with what it is for (`7.0`, `7.1.0`, …), then an answer with all that they said. At
a step `refused` it answers 401, and at `empty` its replies are empty. Where the last step is `slowly`, the answer has
forty words more, and comes a word at a time; where it is `differently`, each time with other words. `at length` is an
answer of 600 kB. Where the tools are agents, it gives each of them its share of the order, `Order 7.m0: look` and
`Order 7.m1: note+pay`.

    python -m chaos.world BEFORE AFTER     (seconds from a request to its effect, and from there to the answer)
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

_ORDER = re.compile(r"Order ([\w.]+): ([a-z+, ]+)\s*$")
_THINKS = 0.01  # seconds before the model says anything
_PACE = 0.01  # seconds before each word of what it says slowly
_MANNERS = ("slowly", "differently", "at length")
_HEAD = {"id": "said", "object": "chat.completion.chunk", "created": 1, "model": "worker"}


class World:
    """The ledger's entries, and how long an effect takes."""

    def __init__(self, before: float, after: float) -> None:
        self._before = before
        self._after = after
        self._entries: list[dict[str, Any]] = []
        self._keys: set[str] = set()

    async def serve(self) -> None:
        """Serve until the process ends; the address is printed first."""
        app = web.Application()
        app.router.add_post("/effects", self._effect)
        app.router.add_get("/effects", self._read)
        app.router.add_post("/v1/chat/completions", _reply)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()

    async def _effect(self, request: web.Request) -> web.Response:
        asked = await request.json()
        await asyncio.sleep(self._before)
        key = request.headers.get("Idempotency-Key")
        if key is None or key not in self._keys:
            self._entries.append({**asked, "key": key, "at": time.time()})
        if key is not None:
            self._keys.add(key)
        await asyncio.sleep(self._after)
        return web.json_response({})

    async def _read(self, request: web.Request) -> web.Response:
        order = request.query.get("order")
        found = [one for one in self._entries if order is None or one["what"].partition(".")[0] == order]
        return web.json_response(found)


# ── the model ────────────────────────────────────────────────────────────────────────────────────


async def _reply(request: web.Request) -> web.StreamResponse:
    asked = await request.json()
    agents = [name for one in asked.get("tools", ()) if (name := one["function"]["name"]).startswith(("hand", "lead"))]
    await asyncio.sleep(_THINKS)
    choices = _choices(asked["messages"], agents)
    if choices is None:
        return web.json_response({"error": {"message": "no such key"}}, status=401)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for choice in choices:
        said = {"index": 0, "logprobs": None, "delta": choice["delta"], "finish_reason": choice["finish_reason"]}
        data = json.dumps({**_HEAD, "choices": [said]})
        await response.write(f"data: {data}\n\n".encode())
        await asyncio.sleep(choice.get("pace", 0))
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    await response.write(f"data: {json.dumps({**_HEAD, 'choices': [], 'usage': usage})}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


def _choices(messages: Sequence[Mapping[str, Any]], agents: Sequence[str]) -> list[dict[str, Any]] | None:
    """The pieces of what the model says to `messages`, if it does not refuse; `agents` are the tools that are such."""
    begin = max(at for at, one in enumerate(messages) if one["role"] == "user")
    order = _ORDER.search(messages[begin]["content"])
    if order is None:  # to find out whether this model calls tools
        return _calling([("add", {"a": 19, "b": 23})])
    number, steps = order[1], [step.strip().split("+") for step in order[2].split(",")]
    shares = shared_out(order[2], len(agents))
    if agents:
        steps = [list(agents)]
    manner = steps.pop()[0] if steps[-1][0] in _MANNERS else ""
    seen = [one["content"] for one in messages[begin:] if one["role"] == "tool"]
    done = sum(bool(one.get("tool_calls")) for one in messages[begin:])
    if done == len(steps):
        words = re.findall(r"\s*\S+", f"Order {number} is done: {'; '.join(seen)}.")
        pace = _PACE if manner in ("slowly", "differently") else 0.0
        said = _in_manner(words, manner)
        pieces = [{"delta": {"content": word}, "finish_reason": None, "pace": pace} for word in said]
        return [*pieces, {"delta": {}, "finish_reason": "stop"}]
    if agents:
        parts = [(f"{number}.m{at}" if len(agents) > 1 else number, share) for at, share in enumerate(shares)]
        asked = [{"query": f"Order {part}: {share}"} for part, share in parts]
        return _calling(list(zip(agents, asked, strict=True)))
    tools = steps[done]
    if tools == ["refused"]:
        return None
    if tools == ["empty"]:
        return [{"delta": {}, "finish_reason": "stop"}]
    names = [f"{number}.{done}.{at}" if len(tools) > 1 else f"{number}.{done}" for at in range(len(tools))]
    return _calling([(tool, {"what": name}) for tool, name in zip(tools, names, strict=True)])


def shared_out(steps: str, count: int) -> list[str]:
    """The steps of an order, shared among so many agents."""
    each = steps.split(", ")
    size = -(-len(each) // max(1, count))
    return [", ".join(each[start : start + size]) for start in range(0, len(each), size)]


def _in_manner(words: list[str], manner: str) -> list[str]:
    """The pieces of an answer."""
    match manner:
        case "slowly":
            return [*words, *(f" word {number}" for number in range(40))]
        case "differently":
            return [*words, *(f" {secrets.token_hex(2)}" for _ in range(40))]
        case "at length":
            return [*words, *(f" {number}" * 50 for number in range(2_000))]
    return words


def _calling(made: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    calls = [
        {"index": at, "id": f"{tool}{at}", "type": "function", "function": _function(tool, arguments)}
        for at, (tool, arguments) in enumerate(made)
    ]
    return [{"delta": {"tool_calls": calls}, "finish_reason": None}, {"delta": {}, "finish_reason": "tool_calls"}]


def _function(tool: str, arguments: Any) -> dict[str, str]:
    return {"name": tool, "arguments": json.dumps(arguments)}


if __name__ == "__main__":
    asyncio.run(World(*map(float, sys.argv[1:])).serve())
