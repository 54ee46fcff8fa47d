"""A model server that is killed in the middle of a reply and started again: the run goes on."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from fakes.llamacpp import address, llamacpp_server
from retinue import Agent, Budget, Delta, PromptModel, Run, StopReason
from retinue.core.events import Observed, Retried
from retinue.models import Retries
from retinue.tools import calculator

pytestmark = [pytest.mark.model, pytest.mark.full]


def test_killing_the_model_server_in_the_middle_of_a_stream_costs_a_retry_and_not_the_run(embedded_model: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def go(servers: ExitStack) -> Run:
        first = servers.enter_context(llamacpp_server(embedded_model, port))
        model = PromptModel(base_url=address(first), retries=Retries(tries=20, first_wait=0.5, longest_wait=2.0))
        run = Agent(model, [calculator], budget=Budget(6)).start("What is 12.5 times 8?")
        pieces = 0
        async for event in run.events():
            pieces += isinstance(event, Delta)
            if pieces == 3 and first.poll() is None:
                first.kill()
                first.wait()
                servers.enter_context(llamacpp_server(embedded_model, port))
        await model.close()
        return run

    with ExitStack() as servers:
        run = asyncio.run(go(servers))
    assert run.result.stop_reason is StopReason.ANSWER, run.result
    assert "100" in run.result.answer
    assert [event.problem for event in run.log if isinstance(event, Retried)]
    assert [event for event in run.log if isinstance(event, Observed)]
