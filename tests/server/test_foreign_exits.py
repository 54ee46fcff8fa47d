"""A real server, and tools that exit, cancel, stop its loop or fork: their runs end well, and no other run notices."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.served import Served, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenAI's of its assistants

TOOLS = """
import asyncio, os, sys, threading

held = threading.Event()


def hold(query: str) -> str:
    \"\"\"Waits until it is let go.\"\"\"
    held.wait(60)
    return "held to the end"


def free(query: str) -> str:
    \"\"\"Lets the others go.\"\"\"
    held.set()
    return "let go"


def now(how: str) -> str:
    \"\"\"Raises at once.\"\"\"
    return raising(how)


async def later(how: str) -> str:
    \"\"\"Raises after a while.\"\"\"
    await asyncio.sleep(0.01)
    return raising(how)


async def task(how: str) -> str:
    \"\"\"Raises in a task of its own, and lets the loop see it.\"\"\"
    await asyncio.gather(asyncio.create_task(later(how)), return_exceptions=True)
    return raising(how)


def raising(how):
    if how == "fork":
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        raise ValueError("in the parent")
    if how == "stop":
        asyncio.get_running_loop().stop()
    if how == "recursion":
        return raising("recursion")
    if how == "own":
        asyncio.current_task().cancel()
        raise asyncio.CancelledError
    raise {
        "exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "generator": GeneratorExit(),
        "cancelled": asyncio.CancelledError(), "group": BaseExceptionGroup("g", [SystemExit(1)]),
        "base": BaseException("bare"), "memory": MemoryError(),
    }.get(how, RuntimeError(how))
"""
YAML = """
components:
  - name: says
    type: PromptModel
    params:
      engine: scripted
      script:
        - {when: "failed|took effect|refused", finish: it failed}
        - {when: "held to the end|let go", finish: it held}
        - {when: hold, call: {tool: hold, input: x}}
        - {when: free, call: {tool: free, input: x}}
%s
agents:
%s
"""
ENTRY = '{name}: {{callable_api: "tools.py:{name}", effects: {effects}}}\n'
HOW = ["exit", "interrupt", "generator", "cancelled", "group", "base", "memory", "recursion", "fork", "stop", "own"]
NAMES = ("now", "later", "task")


STRATEGIES = ("tool_calling", "react", "react_json", "self_ask")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "tools.py").write_text(TOOLS)
    effects = {"hold": "read", "free": "read", "later": "read"}
    names = ("hold", "free", *NAMES)
    (tmp_path / "tools.yml").write_text(
        "".join(ENTRY.format(name=name, effects=effects.get(name, "once")) for name in names)
    )
    calls = "".join(
        f'        - {{when: "{name} {how}$", call: {{tool: {name}, input: {how}}}}}\n' for name in NAMES for how in HOW
    )
    agents = "\n".join(
        f"  - {{name: {one}, params: {{model: says, strategy: {one}, tools: tools.yml}}}}" for one in STRATEGIES
    )
    with serving(tmp_path, YAML % (calls.rstrip(), agents)) as server:
        yield server


def asked(client: openai.OpenAI, assistant: str, question: str) -> Any:
    run = client.beta.threads.create_and_run_poll(
        assistant_id=assistant, thread={"messages": [{"role": "user", "content": question}]}, poll_interval_ms=50
    )
    return run.status, run.last_error


def test_no_other_run_notices(server: Served) -> None:
    process = server.process.pid
    with server.client() as client, ThreadPoolExecutor(1 + len(HOW)) as threads:
        made = [client.beta.assistants.create(model=strategy).id for strategy in STRATEGIES]
        held = threads.submit(asked, client, made[0], "hold")
        for first, name in enumerate(NAMES):  # each of them under other strategies
            assistants = islice(cycle(made), first, None)
            runs = [threads.submit(asked, client, next(assistants), f"{name} {how}") for how in HOW]
            assert [(how, run.result(60)) for how, run in zip(HOW, runs, strict=True)] == [
                (how, ("completed", None)) for how in HOW
            ]
        assert not held.done()
        assert asked(client, made[0], "free") == ("completed", None)
        assert held.result(60) == ("completed", None)
    assert (server.process.poll(), server.process.pid) == (None, process)
    assert server.stop() == 0
    assert "Traceback" not in server.log
