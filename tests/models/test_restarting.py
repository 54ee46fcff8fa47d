"""A model server that is killed in the middle of a reply and started again: the run goes on."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from retinue import Agent, Budget, Delta, PromptModel, Run, StopReason
from retinue.events import Observed, Retried
from retinue.models import Retries
from retinue.tools import calculator

pytestmark = pytest.mark.model

SERVE = """
import sys, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.port = int(sys.argv[2])
parameters.n_ctx = 2048
parameters.n_parallel = 1
parameters.verbosity = -1
parameters.no_extra_bufts = True
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def llamacpp(weights: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", SERVE, str(weights), str(port)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return next(line.strip() for line in process.stdout if line.startswith("http"))


def test_killing_the_model_server_in_the_middle_of_a_stream_costs_a_retry_and_not_the_run(embedded_model: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def go(servers: ExitStack) -> Run:
        first = servers.enter_context(llamacpp(embedded_model, port))
        model = PromptModel(base_url=ready(first), retries=Retries(tries=20, first_wait=0.5, longest_wait=2.0))
        run = Agent(model, [calculator], budget=Budget(6)).start("What is 12.5 times 8?")
        pieces = 0
        async for event in run.events():
            pieces += isinstance(event, Delta)
            if pieces == 3 and first.poll() is None:
                first.kill()
                first.wait()
                servers.enter_context(llamacpp(embedded_model, port))
        await model.close()
        return run

    with ExitStack() as servers:
        run = asyncio.run(go(servers))
    assert run.result.stop_reason is StopReason.ANSWER, run.result
    assert "100" in run.result.answer
    assert [event.problem for event in run.log if isinstance(event, Retried)]
    assert [event for event in run.log if isinstance(event, Observed)]
