"""Model servers and remote agents that mean harm: what they send takes little memory and no turn of others, and ends in
one clear error."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from retinue import Agent, Budget, ModelError, PromptModel, StopReason, Usage, tool
from retinue.core.events import Delta
from retinue.core.run_result import sum_usage
from retinue.net.retry import Retries, TimeLimits

JSON, EVENTS, LINES = "application/json", "text/event-stream", "application/x-ndjson"
MEGABYTE = b"x" * 1_000_000


def event(**body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(**said: Any) -> bytes:
    return event(choices=[{"delta": said}])


def zipped(first: bytes, more: bytes, times: int = 2_400) -> Iterator[bytes]:
    packer = zlib.compressobj(wbits=31)
    yield packer.compress(first)
    for _ in range(times):
        yield packer.compress(more)
    yield packer.flush()


def silence() -> Iterator[bytes]:
    while True:
        time.sleep(0.1)
        yield b": ping\n"


def call(number: int) -> dict[str, Any]:
    return {"index": number, "id": f"c{number}", "function": {"name": "look", "arguments": "{}"}}


DEEP = "[" * 500 + "]" * 500
NOT_ASKED = ("br", "zstd", "gzip, gzip", "compress")
WHOLE = '{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}'
# What is sent: the status line and headers besides the connection's, and the body, perhaps without end.
SENT: dict[str, tuple[str, Any, str]] = {
    "gigabytes of gzip": (f"{JSON}\r\nContent-Encoding: gzip", lambda: zipped(b'"', MEGABYTE), "8,000,000 bytes"),
    "gigabytes of deflate": (
        f"{EVENTS}\r\nContent-Encoding: gzip",
        lambda: zipped(b"data: ", MEGABYTE),
        "8,000,000 bytes",
    ),
    "gzip of events": (
        f"{EVENTS}\r\nContent-Encoding: gzip",
        lambda: zipped(b"", delta(reasoning="x" * 1_000) * 1_000),
        "1,000,000 characters",
    ),
    "gzip behind its end": (
        f"{JSON}\r\nContent-Encoding: gzip",
        lambda: itertools.chain([gzip.compress(WHOLE.encode())], itertools.repeat(MEGABYTE, 300)),
        "",
    ),
    "an endless line": (EVENTS, lambda: itertools.chain([b"data: "], itertools.repeat(MEGABYTE)), "8,000,000 bytes"),
    "an endless event": (EVENTS, lambda: itertools.repeat(b"data: x\n" * 10_000), "8,000,000 bytes"),
    "an endless line of JSON": (LINES, lambda: itertools.repeat(MEGABYTE), "8,000,000 bytes"),
    "an endless body": (JSON, lambda: itertools.repeat(MEGABYTE), "8,000,000 bytes"),
    "endless comments": (EVENTS, lambda: itertools.repeat(b": " + MEGABYTE[:9_000] + b"\n"), "64,000,000 bytes"),
    "endless text": (EVENTS, lambda: itertools.repeat(delta(content="word " * 1_000) * 10), "1,000,000 characters"),
    "endless arguments": (
        EVENTS,
        lambda: itertools.repeat(
            delta(tool_calls=[{"index": 0, "function": {"name": "x", "arguments": "x" * 9_000}}]) * 10
        ),
        "1,000,000 characters",
    ),
    "endless calls": (EVENTS, lambda: (delta(tool_calls=[call(at)]) for at in itertools.count()), "128 tool calls"),
    "many values": (JSON, lambda: [b"[" + b"{}," * 2_600_000 + b"{}]"], "500,000 objects"),
    "deep values": (JSON, lambda: [f'{{"error": {DEEP}}}'.encode()], "64 levels"),
    "deep events": (EVENTS, lambda: [f"data: {DEEP}\n\n".encode()], "64 levels"),
    "not a number": (JSON, lambda: [b'{"choices": NaN}'], "not JSON"),
    "no finite number": (JSON, lambda: [b'{"choices": 1e999}'], "not JSON"),
    "a number of many digits": (JSON, lambda: [b'{"choices": ' + b"9" * 100_000 + b"}"], "not JSON"),
    "headers without end": (
        "x\r\n" + "\r\n".join(f"X-{at}: {'x' * 1_000}" for at in range(100)),
        lambda: [b"x"],
        "head does not end",
    ),
    **{coding: (f"{JSON}\r\nContent-Encoding: {coding}", lambda: [b"x"], coding) for coding in NOT_ASKED},
}
USAGES: list[Any] = [
    None,
    {},
    "many",
    {"prompt_tokens": -(10**9), "completion_tokens": -1},
    {"prompt_tokens": 10**30, "completion_tokens": 10**400},
    {"prompt_tokens": 1.5, "completion_tokens": "7"},
    {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 10**9}},
]
ACTION = {"message": {"content": "Action: look\nAction Input: x"}, "finish_reason": "stop"}
WORDS = delta(content="word " * 200)
SENT |= {
    f"usage {at}": (JSON, lambda usage=usage: [json.dumps({"choices": [ACTION], "usage": usage}).encode()], "Action")
    for at, usage in enumerate(USAGES)
}
SENT["half a stream"] = (EVENTS, lambda: [WORDS], "disconnected")
SENT["half a second"] = (EVENTS, lambda: itertools.chain([WORDS], silence()), "in time")
CODES = {"an error without end": 500, "a refusal without end": 400}


class Hostile(BaseHTTPRequestHandler):
    """Sends `SENT` by the path's first part, until the client has had enough."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = self.path.split("/")[1].replace("_", " ")
        kind, body, _ = SENT.get(name, (JSON, lambda: itertools.repeat(MEGABYTE), ""))
        try:
            head = f"HTTP/1.1 {CODES.get(name, 200)} x\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
            self.wfile.write(head.encode())
            for piece in body():
                self.wfile.write(piece)
        except OSError:
            pass
        self.close_connection = True

    do_GET = do_POST

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


CLIENT = """
import asyncio, json, resource, sys, time
from retinue import A2AAgent, Agent, PromptModel, RemoteAgent
from retinue.net.retry import Retries

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def watched(work):
    longest, last, ended = 0.0, time.monotonic(), False
    async def tick():
        nonlocal longest, last
        while not ended:
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            await asyncio.sleep(0.01)
    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        said = repr(await work)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    ended = True
    await ticking
    return said[:2000], longest

async def main(root, names):
    for name in names:
        url = f"{root}/{name.replace(' ', '_')}/v1"
        model = PromptModel("m", engine="vllm", base_url=url, api="chat", dialect="vllm", retries=Retries(tries=1))
        began, before = time.monotonic(), memory()
        said, longest = await watched(model.run_async("?"))
        print(json.dumps([name, said, longest, memory() - before, time.monotonic() - began]), flush=True)
    for agent in (RemoteAgent, A2AAgent):
        for name in ("an endless body", "gigabytes of gzip"):
            one = agent(f"{root}/{name.replace(' ', '_')}", name="other")
            said, longest = await watched(one.run_async("?"))
            print(json.dumps([name, said, longest, 0, 0]), flush=True)

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""


def test_what_they_send_takes_little_memory_and_ends_in_one_clear_error(hostile: str) -> None:
    names = [*SENT, *CODES]
    names.remove("half a second")
    command = [sys.executable, "-c", CLIENT, hostile, json.dumps(names)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert told.returncode == 0, told.stderr
    found = [json.loads(line) for line in told.stdout.splitlines()]
    assert [name for name, *_ in found[: len(names)]] == names
    for at, (name, said, longest, more, _) in enumerate(found):
        assert (SENT.get(name, ("", "", "answered"))[2] if at < len(names) else "000 bytes") in said, (name, said)
        assert longest < 1.0, (name, longest)
        assert more < 300_000_000, (name, more)


@tool(effects="read")
def look(what: str) -> str:
    """Looks."""
    LOOKED.append(what)
    return f"{len(LOOKED)}: {what}"


LOOKED: list[str] = []


def agent(hostile: str, name: str, **options: Any) -> Agent:
    url = f"{hostile}/{name.replace(' ', '_')}/v1"
    price = {"input": 10, "output": 30, "cached": 0}
    model = PromptModel("m", engine="vllm", base_url=url, api="chat", dialect="vllm", price=price, **options)
    budget = Budget(tokens=3_000, steps=50, stale_steps=None)
    return Agent(model, [look], strategy="react", budget=budget)


def test_what_an_engine_reports_wrongly_or_not_at_all_is_estimated_and_budgets_hold(hostile: str) -> None:
    for at, usage in enumerate(USAGES):
        result = agent(hostile, f"usage {at}").run("?")
        assert result.stop_reason is StopReason.TOKEN_BUDGET_EXCEEDED, (usage, result)
        assert 1_000 < result.usage.total_tokens < 4_000, (usage, result.usage)
        assert 0 < result.usage.cost < 0.1, (usage, result.usage)


def used(asked: Agent, *, left: bool = False) -> Usage:
    """What the log of a run says, which fails, or is `left` when the first text arrives."""

    async def followed() -> Usage:
        run = asked.start("?")
        with suppress(ModelError):
            async for event in run.events():
                if left and isinstance(event, Delta):
                    run.cancel()
        return sum_usage(run.log)

    return asyncio.run(followed())


def test_a_reply_that_is_cut_off_counts(hostile: str) -> None:
    once, thrice = Retries(tries=1), Retries(tries=3, first_wait=0.01)
    too_long = used(agent(hostile, "endless text"))
    late = used(agent(hostile, "half a second", limits=TimeLimits(total=0.3), retries=once))
    left = used(agent(hostile, "half a second"), left=True)
    broken = used(agent(hostile, "half a stream", retries=thrice))
    assert too_long.output_tokens > 250_000
    assert 200 < late.output_tokens < 1_000
    assert late.input_tokens > 0
    assert left == late
    assert broken.total_tokens == 3 * late.total_tokens
    assert broken.cost == pytest.approx((10 * broken.input_tokens + 30 * broken.output_tokens) / 1e6)
    assert used(agent(hostile, "a refusal without end")) == Usage()
