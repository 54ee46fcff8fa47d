"""Stored runs with hooks: killed anywhere, nothing is judged twice with another outcome, and nothing is done twice."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from fakes.fork_server import python
from fakes.judged_runs import SECRET, judging
from fakes.kept_runs import kept_runs
from retinue.core.events import Event, Finished, Judged, Observed, Started
from retinue.core.serialization import to_json

POINTS = (
    *(f"before event:{at}" for at in (1, 2, 4, 6)),
    *(f"before reply is written:{at}" for at in (1, 3, 5, 7)),
    *("before asking:3", "after intent:1", "before the end:2"),
)


def drive(url: str, ledger: Path, crash: str) -> int:
    """Drive the run in a process of its own; its exit status."""
    env = {**os.environ, "RETINUE_CRASHPOINT": crash, "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = python(["-m", "fakes.judged_runs", url, ledger], env=env)
    assert ended.returncode in (0, -9), ended.stderr
    return ended.returncode


async def read(url: str, ledger: Path) -> list[Event]:
    async with kept_runs(url, judging(ledger)) as kept:
        assert (await kept.row()).status == "completed"
        return await kept.log()


def verdicts(log: list[Event]) -> Counter[tuple[str, str, str, str]]:
    return Counter((one.point, one.hook, one.verdict, one.call_id) for one in log if isinstance(one, Judged))


EXPECTED = {
    ("before_run", "hide", "change", ""): 1,
    ("after_tool", "hide", "change", "call_1_0"): 1,
    ("before_tool", "gate", "ask", "call_2_0"): 1,
    ("after_tool", "hide", "change", "call_2_0"): 1,
    ("after_tool", "doubt", "ask", "call_2_0"): 1,
    ("before_answer", "last", "block", ""): 1,
}


def test_a_run_that_nobody_kills(any_url: str, tmp_path: Path) -> None:
    assert drive(any_url, tmp_path / "ledger", "") == 0
    log = asyncio.run(read(any_url, tmp_path / "ledger"))
    assert verdicts(log) == EXPECTED
    assert log[-1] == Finished("paid, I think", {"output": "paid, I think"})


@pytest.mark.parametrize("point", POINTS)
def test_a_run_killed_at_any_point_is_judged_and_paid_once(url: str, tmp_path: Path, point: str) -> None:
    ledger = tmp_path / "ledger"
    killed = drive(url, ledger, point)
    assert killed == -9, point
    assert drive(url, ledger, "") == 0
    log = asyncio.run(read(url, ledger))
    assert ledger.read_text() == "Ada\n"
    counts = verdicts(log)
    assert max(counts.values()) == 1
    unknown = {("after_tool", "hide", "change", "call_2_0"), ("after_tool", "doubt", "ask", "call_2_0")}
    assert EXPECTED.keys() - counts.keys() <= unknown  # where a person said what came of the call
    assert SECRET not in "".join(to_json(event) for event in log if isinstance(event, Started | Observed))
