"""What is around the server goes wrong for a while, at the scale of a test; `make chaos` does the same at full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.faults import Fault, Suffered, faked_clock, limited, locked, restarted, set_clock, suffer
from chaos.harness import Site, client_of, path_of, site, waiting
from chaos.points import names, passages
from fakes.postgres import postgres
from fakes.until import until_async

pytestmark = pytest.mark.anyio
QUICK = 0.002  # seconds before and after an effect


def unharmed(seen: Suffered) -> bool:
    assert not seen.broken, seen
    assert seen.tally.runs >= 4
    return True


async def endured(at: Site, fault: Fault, seconds: float) -> Suffered:
    return await suffer(at, fault, seconds, at_once=4)


@pytest.mark.full
async def test_who_locks_the_database_delays_what_writes_and_nothing_else() -> None:
    with site(delay=QUICK) as at:
        seen = await endured(at, locked, 1.0)
    assert unharmed(seen)
    assert set(seen.answers) == {200}


@pytest.mark.full
async def test_a_full_disk_refuses_what_is_new_and_runs_wait_for_room() -> None:
    with site(delay=QUICK) as at:
        seen = await endured(at, limited, 1.0)
    assert unharmed(seen)
    assert 503 in seen.answers


@pytest.mark.full
async def test_runs_outlast_a_restart_of_postgresql() -> None:
    with postgres() as server, site(db=server.database(), delay=QUICK) as at:
        assert unharmed(await endured(at, restarted(server), 0.2))


@pytest.mark.full
async def test_setting_the_clock_ends_no_run_and_keeps_none(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    with site("--human-ttl", "600", "--run-ttl", "600", delay=QUICK, env=faked_clock(clock)) as at:
        async with client_of(at) as client:
            run = await client.rests(await client.start(await client.thread("Order w: sign")))
            clock.write_text("+3600")
            await until_async(lambda: told(at, "changed by +3600 s"))
            moved = await client.ask("GET", path_of(run))
            assert (moved["status"], round((moved["expires_at"] - run["expires_at"]) / 60)) == ("requires_action", 60)
            assert unharmed(await endured(at, set_clock(clock, -3600), 1.5))
            (call,) = waiting(run)
            run = await client.rests(await client.submit(run, {call: "approve"}))
            assert run["status"] == "completed"


@pytest.mark.full
async def test_a_run_has_no_more_time_when_the_clock_is_set_back(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    with site("--run-ttl", "1", env=faked_clock(clock)) as at:
        async with client_of(at) as client:
            run = await client.start(await client.thread(f"Order 1: {', '.join(['look'] * 40)}"))
            clock.write_text("-3600")
            run = await asyncio.wait_for(client.rests(run), 20)
            assert run["status"] == "expired"


async def told(at: Site, what: str) -> bool:
    return what in at.server.log


@pytest.mark.full
def test_told_to_end_anywhere_it_ends_well_and_the_next_process_goes_on(full: bool) -> None:
    points = names()[1 :: 6 if full else 12]  # `make chaos` has them all
    ended = list(passages(points, most=1, delay=QUICK, signal="TERM", grace="0.1"))
    assert [(one.point, one.status, one.tally.problems) for one in ended] == [(point, 0, []) for point in points]
