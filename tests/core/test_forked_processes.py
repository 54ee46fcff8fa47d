"""State that is made on first use: forked and spawned children, preloaded workers, first calls from many threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, atexit, multiprocessing, os, sys, threading, time
from pathlib import Path
from retinue import Agent, Document, PromptModel, tool
from retinue.documents.document_store import DocumentStore
from retinue.memory import ConversationMemory

@tool(effects="read")
def look(place: str) -> str:
    "Look at a place."
    return f"It rains in {place}."

@tool(effects="read")
async def listen(place: str) -> str:
    "Listen to a place."
    await asyncio.sleep(0)
    return f"It thunders in {place}."

SCRIPT = [
    {"when": "thunders", "finish": "Wet."},
    {"when": "rains", "call": {"tool": "listen", "input": {"place": "Rome"}}},
    {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}},
]
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else None
agent = Agent(PromptModel(script=SCRIPT), [look, listen], strategy="react", trace=False, memory=ConversationMemory())

def ask(number=0):
    return agent.run("How is Rome?").answer

def in_process(queue):
    queue.put(ask())

def wait_for(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def fork(work):
    "Fork as a preloading server does: the child ends as a program ends, with its exit handlers."
    child = os.fork()
    if child == 0:
        sys.exit(work())
    return wait_for(child)

def prefork():
    assert ask() == "Wet."
    assert [fork(lambda: 0 if ask() == "Wet." else 1) for _ in range(3)] == [0, 0, 0]
    assert fork(lambda: fork(lambda: 0 if ask() == "Wet." else 1)) == 0  # a child of a child
    assert fork(lambda: 0 if asyncio.run(agent.run_async("How is Rome?")).answer == "Wet." else 1) == 0
    assert ask() == "Wet."

def prefork_under_load():
    "Fork while other threads have runs under way."
    going = True
    def keep_asking():
        while going:
            assert ask() == "Wet."
    threads = [threading.Thread(target=keep_asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert [fork(lambda: 0 if ask() == "Wet." else 1) for _ in range(10)] == [0] * 10
    going = False
    for thread in threads:
        thread.join()

def processes(method):
    assert ask() == "Wet."
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=in_process, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == "Wet."
    process.join()
    assert process.exitcode == 0
    with context.Pool(2) as pool:
        assert pool.map(ask, range(4)) == ["Wet."] * 4
    assert ask() == "Wet."

def threads():
    "First calls of all from 32 threads; afterwards an async tool that blocks does not stop other runs."
    answers, errors, ready = [], [], threading.Barrier(32)
    def first():
        ready.wait()
        answers.append(ask())
    threading.excepthook = lambda args: errors.append(args.exc_value)
    for thread in (all_of := [threading.Thread(target=first) for _ in range(32)]):
        thread.start()
    for thread in all_of:
        thread.join()
    assert (answers, errors) == (["Wet."] * 32, [])
    assert [one.name for one in threading.enumerate()].count("retinue") == 1

def documents():
    "A store on disk is written by the parent and its children, also while another thread holds its lock at the fork."
    store = DocumentStore(FOLDER / "store.db")
    store.write([Document("of the parent")])
    def write(number):
        store.write([Document(f"of child {number}")])
        found = len(store)
        store.close()
        return found
    assert [fork(lambda: write(number)) for number in range(3)] == [2, 3, 4]
    held, over = threading.Event(), threading.Event()
    def hold():
        with store.transaction():
            held.set()
            over.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert fork(lambda: len(store)) == 4
    over.set()
    thread.join()

def others():
    "An MCP server, an ONNX model and telemetry that were in use before the fork."
    from fakes import mcp_server, tiny_onnx
    from fakes.otlp_collector import OtlpCollector
    from retinue import telemetry
    from retinue.documents.embedding import OnnxEmbedder
    from retinue.mcp import MCPTools
    server = MCPTools("weather", command=sys.executable, args=[mcp_server.__file__])
    add = next(tool for tool in server.tools() if tool.name == "weather_add")
    assert "3" in add.run({"a": 1, "b": 2})
    collector = OtlpCollector().__enter__()
    telemetry.enable(collector.url)
    assert ask() == "Wet."
    def work():
        assert "42" in add.run({"a": 20, "b": 22})
        assert ask() == "Wet."
    assert fork(work) == 0
    tiny_onnx.embedder(FOLDER, [(1.0, 0.0)] * len(tiny_onnx.WORDS))
    model = OnnxEmbedder(FOLDER)
    assert model.embed(["paris"]).shape == (1, 2)
    def embed():
        os._exit(model.embed(["rome"]).shape != (1, 2))  # without exit handlers: onnxruntime's own hang in a child
    assert fork(embed) == 0
    assert "4" in add.run({"a": 2, "b": 2})
    telemetry.disable()
    collector.__exit__(None, None, None)
    assert [one.name for one in collector.arrived].count("invoke_agent agent") == 2
    server.stop()

if __name__ == "__main__":
    what, _, how = sys.argv[1].partition(":")
    globals()[what](*([how] if how else []))
    print("passed")
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "what",
    [
        "prefork",
        "threads",
        "documents",
        "processes:fork",
        pytest.param("processes:spawn", marks=pytest.mark.full),
        pytest.param("prefork_under_load", marks=pytest.mark.full),
        pytest.param("others", marks=pytest.mark.full),
    ],
)
def test_no_process_hangs_and_none_prints_a_traceback(what: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    ran = subprocess.run(
        [sys.executable, program, what, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("passed\n", "", 0)
