"""A run of long work as its drive would have stored it: prompts that were compacted, files, commands, and a list of
what is to do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import insert

from fakes.app_server import Serving
from fakes.kept_runs import new_run
from fakes.pictures import png
from retinue.core.events import Asked, Called, Compacted, Event, Finished, Observed, Replied, Started
from retinue.core.serialization import dump
from retinue.core.values import AgentAction, Message, Observation, Reply, Usage
from retinue.store.run_queries import insert_run
from retinue.store.run_row import RunRow
from retinue.store.tables import events
from retinue.store.workspaces import Blob, change_files

FIRST = b'''\
"""Count words."""

import sys


def count(text: str) -> int:
\treturn len(text.split(" "))


if __name__ == "__main__":
    print(count(sys.stdin.read()))
'''
TEST = b"from words import count\n"
QUESTION = "Make a package that counts words, with tests. Never use regular expressions."
SUMMARY = "You wrote words.py and its test.\nThe user ordered: “Never use regular expressions.”"
PLAN = ("Write words.py", "Test it", "Mend what the test finds", "Say how to use it")
OUTPUT = "F.                                       [100%]\nE       assert 1 == 2\n1 failed, 1 passed in 0.04s"


def todos(done: int) -> Mapping[str, Any]:
    """The list of what is to do, of which so many are done."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(PLAN)
    return {"todos": [{"text": text, "status": status} for text, status in zip(PLAN, states, strict=False)]}


def changed(version: int, path: str, size: int | None, was: int | None = None) -> Mapping[str, Any]:
    """What a call says that changed a file."""
    return {"workspace": {"version": version, "changed": [{"path": path, "size": size, "was": was}]}}


CALLS: tuple[tuple[str, dict[str, Any], str, Any], ...] = (
    ("write_todos", {"items": todos(0)["todos"]}, "Noted: 0 of 4 done.", todos(0)),
    (
        "write_file",
        {"path": "words.py", "content": FIRST.decode()},
        "Wrote words.py.",
        changed(1, "words.py", len(FIRST)),
    ),
    (
        "write_file",
        {"path": "test_words.py", "content": TEST.decode()},
        "Wrote test_words.py.",
        changed(2, "test_words.py", len(TEST)),
    ),
    ("write_todos", {"items": todos(1)["todos"]}, "Noted: 1 of 4 done.", todos(1)),
    (
        "run_command",
        {"command": "python -m pytest -q"},
        OUTPUT,
        {"command": {"exit": 1, "seconds": 0.61, "cut": False}, **changed(3, ".pytest_cache/README.md", 27)},
    ),
    (
        "edit_file",
        {"path": "words.py", "old": 'split(" ")', "new": "split()"},
        "Edited words.py.",
        changed(4, "words.py", len(FIRST) - 3, len(FIRST)),
    ),
    (
        "run_command",
        {"command": "python -m pytest -q"},
        "2 passed",
        {"command": {"exit": 0, "seconds": 0.5, "cut": True}},
    ),
    ("write_todos", {"items": todos(3)["todos"]}, "Noted: 3 of 4 done.", todos(3)),
)


VERSIONS: tuple[Mapping[str, bytes | None], ...] = (
    {"words.py": FIRST, "docs/chart.png": png(240, 120), "words.bin": bytes(range(256)), "empty.txt": b""},
    {"test_words.py": TEST},
    {".pytest_cache/README.md": b"# pytest cache directory #\n", "empty.txt": None},
    {"words.py": FIRST.replace(b'split(" ")', b"split()")},
)


def long_work() -> Iterator[Event]:
    """The log. Before its fifth step old results are cleared, before its eighth all but the last turns are told in a
    summary."""
    yield Started(QUESTION, "coder", "tool_calling", "scripted", ("list_files", "run_command", "write_todos"))
    news: tuple[Message, ...] = (Message("system", "You write programs."), Message("user", QUESTION))
    for step, (tool, given, text, data) in enumerate(CALLS, 1):
        action = AgentAction(tool, given, id=f"call_{step}_0")
        if step == 5:
            cleared = tuple(f"[{CALLS[at][0]}: cleared, read_result shows it]" for at in (0, 1))
            yield Compacted(step, 0, "clear", (3, 5), cleared, 18_204, 9_120)
        if step == 8:
            usage = Usage(9_000, 300, cost=0.031, requests=1)
            yield Compacted(step, 0, "summary", tuple(range(2, 14)), (*[""] * 11, SUMMARY), 17_950, 4_210, usage)
        yield Asked(step, 0, news)
        yield Replied(step, Reply("", Usage(4_000, 80, cost=0.013), calls=(action,), seconds=0.3))
        yield Called(step, action)
        yield Observed(step, Observation(action.id, text, seconds=0.1, data=data))
        news = (Message("assistant", "", (action,)), Message("tool", text, call_id=action.id, tool=tool))
    last = len(CALLS) + 1
    yield Asked(last, 0, news)
    yield Replied(last, Reply("words.py counts words; its two tests pass.", Usage(4_400, 20), seconds=0.4))
    yield Finished("words.py counts words; its two tests pass.", {})


def add_log(served: Serving, run: str, log: Iterator[Event], tenant: str = "default") -> RunRow:
    """Store a run that has such a log; its row."""
    now = int(time.time()) - 60
    new = new_run(run, tenant=tenant, thread_id=None, kind="response", created_at=now, status="completed", holds=False)
    row = new._replace(agent="coder", request={"model": "coder"}, started_at=now)
    rows = [
        {"run_id": run, "seq": at, "epoch": 0, "at": now + at * 0.4, "kind": kind, "payload": payload}
        for at, (kind, payload) in enumerate(map(dump, log), 1)
    ]
    with served.database.engine.begin() as connection:
        insert_run(connection, row)
        connection.execute(insert(events), rows)
    return row


def add_versions(served: Serving, run: RunRow, versions: Iterable[Mapping[str, bytes | None]]) -> None:
    """Give a run's workspace these versions."""
    with served.database.engine.begin() as connection:
        for at, files in enumerate(versions, 1):
            blobs = {path: None if content is None else Blob.of(content) for path, content in files.items()}
            change_files(connection, run, blobs, f"{run.id}/{at}", lambda *_: None)


def add_long_work(served: Serving) -> str:
    """Store the run with its files; its id."""
    row = add_log(served, "run_" + "f1" * 12, long_work())
    add_versions(served, row, VERSIONS)
    return row.id
