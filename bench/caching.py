"""How much of each request the provider has read before: what is extended byte for byte can come from its cache."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from os.path import commonprefix
from statistics import mean
from typing import Any

from aiohttp import web

from retinue import Agent, Budget, PromptModel, tool
from retinue.core.events import Replied
from retinue.extend import Reply

STEPS = 12
ONE_CONVERSATION = ("react", "react_json", "tool_calling", "self_ask")


@tool(effects="read")
def note(fact: str) -> str:
    """Note a fact."""
    return f"{fact} is noted, and here is a sentence of some length that a tool might give back."


def measure() -> str:
    """A table: for each strategy, the share of a request that repeats the former one's beginning."""
    rows = []
    for name in ONE_CONVERSATION:
        bodies = asyncio.run(_bodies(name))
        conversations = [body[body.index(b'"messages": [') :] for body in bodies]
        kept = [len(commonprefix(pair)) for pair in pairwise(conversations)]  # noqa: RUF071 -- of bytes
        whole = [size >= len(before) - 2 for size, before in zip(kept, conversations, strict=False)]
        share = mean(size / len(body) for size, body in zip(kept, conversations[1:], strict=True))
        rows.append(f"| {name} | {sum(whole)} of {len(whole)} | {share:.1%} | {len(bodies[-1]):,} |")
    head = (
        "| strategy | requests that extend the former | of a request, repeated | bytes of the last |\n|---|---|---|---|"
    )
    return (
        f"A run of {STEPS} steps with chat messages, each with one tool call. Compared are the bytes of the "
        f"conversation in each request and in the one before (without the closing brackets).\n\n{head}\n"
        + "\n".join(rows)
        + "\n"
    )


async def _bodies(strategy: str) -> list[bytes]:
    """The requests of a run, as a server gets them."""
    replies = await _replies(strategy)
    bodies: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        if b"19 + 23" in body:  # the probe of tool calls
            return web.json_response(_completion("", [("add", {"a": 19, "b": 23})]))
        bodies.append(body)
        reply = replies[len(bodies) - 1]
        return web.json_response(_completion(reply.text, [(call.tool, call.tool_input) for call in reply.calls]))

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    model = PromptModel("m", base_url=f"http://{host}:{port}", api_key="none", api="chat", dialect="none", stream=False)
    await Agent(model, [note], strategy=strategy, budget=Budget(STEPS + 2)).run_async("What is there to note?")
    await model.close()
    await runner.cleanup()
    return bodies


async def _replies(strategy: str) -> Sequence[Reply]:
    """What a model would say in such a run, in the strategy's form."""
    calls = [{"call": {"tool": "note", "input": f"fact {step}"}, "times": 1} for step in range(STEPS - 1)]
    model = PromptModel(script=[*calls, {"finish": "done"}])
    result = await Agent(model, [note], strategy=strategy, budget=Budget(STEPS + 2)).run_async("What is there to note?")
    return [event.reply for event in result.events if isinstance(event, Replied)]


def _completion(text: str, calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    listed = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text} | ({"tool_calls": listed} if listed else {})
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if listed else "stop"}]}
