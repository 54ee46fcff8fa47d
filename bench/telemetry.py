"""What telemetry costs: CPU a step with it off and on, of runs in memory, of runs whose model is a server, and of runs
that are kept."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.by_hand import QUESTION, note
from bench.loop import agent_at, in_turn, model_server
from bench.persistence import Noting, keeping
from retinue import Agent, Budget, telemetry
from retinue.telemetry import activation as active

STEPS = {10: 60, 200: 3}  # by the steps of a run, how many of them are measured together
ROUNDS = 9
COLLECTOR = """
import http.server

class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *said):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
Work = Callable[[], Awaitable[Any]]


def measure() -> str:
    """A table: CPU a step in milliseconds without and with telemetry, and their ratio."""
    with model_server() as url, collector() as to, tempfile.TemporaryDirectory() as folder:
        telemetry.enable(to)
        try:
            return asyncio.run(_table(url, Path(folder)))
        finally:
            telemetry.disable()


@contextmanager
def collector() -> Iterator[str]:
    """The address of a collector that takes everything, in a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


async def _table(url: str, folder: Path) -> str:
    lines = []
    instant, served = Agent(Noting(), [note]), agent_at(url, "chat")
    for steps, runs in STEPS.items():
        instant.budget, served.budget = Budget(steps, stale_steps=None), Budget(steps)
        gc.freeze()
        async with keeping(instant, folder / f"{steps}.db", runs * (ROUNDS + 1) * 2) as kept:
            ways: dict[str, Work] = {
                "in memory, an instant model": partial(instant.run_async, QUESTION),
                "a model's server on this machine": partial(served.run_async, QUESTION),
                "kept by `Runs`": kept,
            }
            for way, run in ways.items():
                off, on = await _off_and_on(run, runs)
                cells = f"{off / steps / runs * 1e3:.3f} | {on / steps / runs * 1e3:.3f} | {on / off:.2f}"
                lines.append(f"| {way} | {steps} | {cells} |")
    await served.model.close()  # type: ignore[attr-defined]
    return (
        f"CPU of the process a step (medians of {ROUNDS} rounds each, made in turn), with telemetry off and on: the "
        "model is asked, a tool runs, and on, that makes two spans, which are folded, encoded, measured and sent to a "
        "collector in another process. The instant model is in the process and takes no time, so a step is the "
        "loop's own work alone; a model's server is asked over HTTP on loopback and streams its reply; a kept run is "
        "committed to SQLite before each next step, with the instant model.\n\n"
        "| runs | steps | off, ms | on, ms | ratio |\n|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


async def _off_and_on(run: Work, runs: int) -> list[float]:
    recorder = active.find_recorder()

    async def off() -> None:
        active.set_recorder(None)
        for _ in range(runs):
            await run()

    async def on() -> None:
        active.set_recorder(recorder)
        for _ in range(runs):
            await run()
        assert telemetry.flush()

    try:
        return await in_turn(off, on, rounds=ROUNDS)
    finally:
        active.set_recorder(recorder)
