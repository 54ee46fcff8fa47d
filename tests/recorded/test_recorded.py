"""Logs that former versions recorded are replayed to the same events, from wherever they were cut."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from recorded.recordings import Recorded, told
from recorded.worlds import WORLDS
from sampling import every

FILES = sorted(Path(__file__).parent.glob("v*/*.jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_recorded_log_goes_on_as_it_did_from_each_of_its_events(path: Path, full: bool) -> None:
    recorded, world = Recorded(path), WORLDS[path.stem]
    assert recorded.tails
    with asyncio.Runner() as runner:
        for log, how, then in recorded.tails if full else every(recorded.tails, 8, FILES.index(path)):
            now = runner.run(told(world, log, how))
            if path.stem.startswith("window"):  # the former version cut prompts in another way
                now, then = done(now), done(then)
            assert now == then, f"after {len(log)} events, {how}"


def done(told: list[Any]) -> list[Any]:
    """What was done, and how it ended."""
    return [one for one in told if one.get("kind") in ("called", "finished", "stopped")]
