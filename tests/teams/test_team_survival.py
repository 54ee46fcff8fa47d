"""A team of three levels whose server dies, or is told to end: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import pytest

from chaos.points import names, passages

QUICK = 0.01


@pytest.mark.full
def test_wherever_the_process_dies_each_member_runs_once(full: bool) -> None:
    points, died_at = names(team=True)[2 :: 2 if full else 5], []  # `make chaos` has them all, at each passage
    for passage in passages(points, most=1, delay=QUICK, team=True):
        died_at.append(passage.point)
        assert not passage.tally.broken, (passage.point, passage.tally.problems)
    assert died_at == points
    assert {"before members have it", "after members have it"} <= set(names(team=True)) - set(names())


@pytest.mark.full
def test_told_to_end_while_members_work_the_next_process_goes_on() -> None:
    points = ["after members have it"]
    ended = list(passages(points, most=1, delay=QUICK, signal="TERM", grace="0.1", team=True))
    assert [(one.point, one.status, one.tally.problems) for one in ended] == [(point, 0, []) for point in points]
