"""Some sixty schedules at each commit, 200 with the rest; `make simulate` tries many more."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from retinue.store.clock import CLOCK
from simulation.__main__ import find, shrunk
from simulation.planted import BUGS, planted
from simulation.schedule import planned, simulate

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # coroutines of machines that died
_SCHEDULES = range(1, 201)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """What died machines leave is collected where nobody minds how it ends, and this process has its clock again, which
    followed those of their databases."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "unraisablehook", lambda _: None)
        patched.setattr(CLOCK, "ahead", CLOCK.ahead)
        yield
        gc.collect()


def test_all_promises_are_kept(full: bool) -> None:
    faults: Counter[str] = Counter()
    for seed in _SCHEDULES if full else _SCHEDULES[:60]:
        outcome = simulate(seed)
        assert not outcome.problems, f"make simulate SEED={seed}: {outcome.problems}"
        faults += outcome.faults
    kinds = {"kill", "pause", "stop", "database away", "answer of a commit lost", "notification lost", "request lost"}
    assert kinds <= faults.keys()


@pytest.mark.parametrize("seed", [5220, 7256])
def test_what_a_schedule_once_found_does_not_come_back(seed: int) -> None:
    """A cancel that came while a helper was being begun: it took no members along, or its drive never ended."""
    outcome = simulate(seed)
    assert outcome.teams
    assert not outcome.problems, outcome.problems


def test_a_seed_gives_the_same_schedule_each_time() -> None:
    for seed in [one for one in range(1, 500) if len(planned(one).orders) > 1][:3]:
        first, second = simulate(seed, traced=True), simulate(seed, traced=True)
        assert first.trace == second.trace
        assert len(first.trace) > 10


@pytest.mark.full
def test_a_failing_schedule_is_shrunk_to_what_it_needs() -> None:
    with planted("an intent written late"):
        failing = next(one for seed in _SCHEDULES if (one := simulate(seed)).problems and one.parts > 3)
        drop = shrunk(failing)
        assert drop
        assert simulate(failing.seed, drop).problems
    plan = planned(failing.seed, drop)
    assert len(plan.orders) + len(plan.faults) == failing.parts - len(drop)
    assert not simulate(failing.seed, drop).problems


@pytest.mark.parametrize("bug", BUGS)
def test_what_a_planted_bug_replaces_is_there(bug: str) -> None:
    with planted(bug):
        pass


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_within_a_minute(bug: str) -> None:
    _, _, problem = find(bug)
    assert problem
