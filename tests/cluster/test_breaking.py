"""Workers, servers, PostgreSQL and Temporal are killed, stopped and restarted under load, at a tenth of the size of
`make chaos-cluster`."""

from __future__ import annotations

import pytest

from chaos.cluster import break_all


@pytest.mark.full
@pytest.mark.parametrize("with_temporal", [False, True], ids=["PostgreSQL alone", "Temporal"])
def test_nothing_is_lost_or_done_twice(*, with_temporal: bool) -> None:
    told: list[str] = []
    seen = break_all(50, 10, 2, with_temporal=with_temporal, told=told.append)
    assert (seen.broken, seen.gaps, seen.late) == (0, 0, []), told
    assert (seen.kills, seen.stops) == (10, 2)
