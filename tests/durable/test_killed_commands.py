"""A coding task over the real tools survives kill -9 at every event: the files are the same at the end, and no command
that changes something runs twice without a person's word.

A program forks a process for each death, and one that goes on. Both write down each command that begins, and each word
of a person."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from retinue.runs.stored_workspace import StoredWorkspace
from retinue.store.database import Database
from retinue.store.run_queries import find_run
from retinue.store.tables import runs

PYTHON = [one for one in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(one).exists()]
pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None or not PYTHON, reason="needs bubblewrap, and a Python in /usr: make sandbox"
)
POINTS = (
    "after claim", "before asking", "before reply is written", "before intent", "after intent", "before event",
    "in command", "after command",
)  # fmt: skip
PROGRAM = """
import asyncio, json, os, sys
from retinue import Agent, Decision, PromptModel
from retinue.harness import Harness
from retinue.harness.sandbox import Sandbox
from retinue.runs.failpoints import await_crash, failpoint

MAKE = (
    "mkdir -p adder tests && printf 'def add(a, b):\\n    return a - b\\n' > adder/__init__.py"
    " && touch tests/__init__.py"
)
CHECK = (
    "import unittest, adder\\n\\nclass Check(unittest.TestCase):\\n"
    "    def test_sum(self):\\n        self.assertEqual(adder.add(2, 3), 5)\\n"
)
TEST = "python3 -m unittest discover"
SCRIPT = [
    ("Begin", "run_command", {"command": MAKE}),
    ("tests/__init__.py .0 bytes", "write_file", {"path": "tests/test_sum.py", "content": CHECK}),
    ("test_sum.py is written", "run_command", {"command": TEST}),
    ("Exit code 1", "edit_file", {"path": "adder/__init__.py", "old": "a - b", "new": "a + b"}),
    ("is changed", "run_command", {"command": TEST + " # again"}),
    ("Exit code 0(.|\\n)*OK", "run_command", {"command": "cat adder/*.py | grep -c return"}),
    ("\\n1", "run_command", {"command": "echo done >> NOTES"}),
]
key, ledger, real = "", sys.argv[4], Sandbox.run

def note(*what):
    with open(ledger, "a") as file:
        file.write(json.dumps([key, *what]) + "\\n")

async def run_noted(self, command, *given, **options):
    note("begins", command)
    running = asyncio.ensure_future(real(self, command, *given, **options))
    await asyncio.wait([running], timeout=0.004)
    failpoint("in command")
    end = await running
    failpoint("after command")
    return end

Sandbox.run = run_noted

def run(point):
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    await_crash(point)
    script = [{"when": when, "call": {"tool": tool, "input": given}} for when, tool, given in SCRIPT]
    script += [{"when": "NOTES", "finish": "Done."}, {"finish": "Lost."}]
    agent = Agent(PromptModel(engine="scripted", script=script), strategy="tool_calling", name="coder",
                  harness=Harness(), store=sys.argv[1])
    said = agent.run("Begin", key=key)
    while said.waiting:
        note("allowed", said.waiting[0].tool_input["command"])
        said = agent.resume([], {said.waiting[0].id: Decision("approve")}, key=said.run)
    agent.close()
    print(said.text, file=sys.stderr)
    os._exit(0 if said.text == "Done." else 1)

for point in json.loads(sys.argv[2]):
    for number in range(1, int(sys.argv[3])):
        key = f"{point} {number}".replace(" ", "-")
        died = run(f"{point}:{number}")
        print(json.dumps([key, died, run("")]), flush=True)
        if died == 0:
            break
"""


def read_files(url: str) -> list[dict[str, bytes]]:
    """The files of each run."""
    database = Database(url)

    async def main() -> list[dict[str, bytes]]:
        found = []
        for one in await database.read(lambda connection: connection.execute(select(runs.c.id)).scalars().all()):
            run = await database.read(partial(find_run, run_id=one))
            assert run is not None
            workspace = StoredWorkspace(database, run)
            found.append(dict(await workspace.read_files([file.path for file in await workspace.list_files()])))
        await database.close_async()
        return found

    return asyncio.run(main())


ALL = [pytest.param([point], 100, marks=pytest.mark.full, id=point.replace(" ", "-")) for point in POINTS]


@pytest.mark.parametrize(("points", "most"), [pytest.param(POINTS[-2:], 2, id="some"), *ALL])
def test_commands_survive_kills_at_every_event(any_url: str, tmp_path: Path, points: Any, most: int) -> None:
    words = [sys.executable, "-c", PROGRAM, any_url, json.dumps(points), str(most), str(tmp_path / "ledger")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, env=dict(os.environ))
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert {code for _, _, code in said} == {0}, done.stderr[-3_000:]
    assert sum(died == -9 for _, died, _ in said) >= len(points), done.stderr[-3_000:]
    found = read_files(any_url)
    assert len(found) == len(said)
    assert all(one == found[0] for one in found)
    assert b"return a + b" in found[0]["adder/__init__.py"]
    ledger = Counter(tuple(json.loads(line)) for line in (tmp_path / "ledger").read_text().splitlines())
    begun = {(key, command): many for (key, what, command), many in ledger.items() if what == "begins"}
    unasked = {one: many for one, many in begun.items() if many > 1 + ledger[(one[0], "allowed", one[1])]}
    assert {command for _, command in unasked} <= {"cat adder/*.py | grep -c return"}  # it only reads
