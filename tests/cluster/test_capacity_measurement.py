"""What `make capacity` makes of its measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from capacity.calibration import IDLE, LONG, SHORT, costs_of, simulated
from capacity.comparison import Compared, costs_table, picture, table
from capacity.rounds import Load, Round
from capacity.sizes import sizes_table
from retinue.cluster.capacity.fleet_simulation import simulate
from retinue.cluster.capacity.process_costs import Cost, Costs, read_costs
from retinue.cluster.capacity.workload import Endpoint, Workload

ROOT = Path(__file__).parents[2]
COSTS = Costs(
    server=Cost(0.012, 0.001, 0.01),
    worker=Cost(0.008, 0.006, 0.01),
    postgres=Cost(0.004, 0.001, 0.005),
    temporal=Cost(0.030, 0.0, 0.02),
    clients=Cost(0.001),
    endpoint=Cost(0.0, 0.001),
    dispatch_seconds=0.06,
    commit_seconds=0.004,
    commits_run=9.0,
    commits_step=4.0,
    bytes_run=3_000.0,
    bytes_step=1_000.0,
)
KINDS = ("server", "worker", "postgres", "temporal", "clients", "endpoint")


def seen_of(load: Load, seconds: float = 300) -> Round:
    """What would be seen of a fleet with these costs."""
    found = simulate(load.work, load.endpoint, simulated(COSTS, 1), seconds=seconds, seed=5)
    each = {name: getattr(COSTS, name) for name in KINDS}
    cpu = {name: one.idle + found.per_second * (one.run + load.steps * one.step) for name, one in each.items()}
    transactions = 40 + found.per_second * (COSTS.commits_run + load.steps * COSTS.commits_step)
    size = found.per_second * (COSTS.bytes_run + load.steps * COSTS.bytes_step)
    return Round(found.per_second, found.failed, found.seconds, cpu, 0.0, transactions, size)


@pytest.mark.full
def test_costs_are_found_again_from_two_rounds_on_one_worker() -> None:
    idle = replace(seen_of(SHORT, 1), per_second=0.0, cpu={name: getattr(COSTS, name).idle for name in KINDS})
    found = costs_of(replace(idle, transactions=40.0, size=0.0), seen_of(SHORT), seen_of(LONG))
    for name in KINDS:
        assert getattr(found, name).run == pytest.approx(getattr(COSTS, name).run, abs=1e-6)
        assert getattr(found, name).step == pytest.approx(getattr(COSTS, name).step, abs=1e-6)
    assert found.dispatch_seconds == pytest.approx(COSTS.dispatch_seconds, rel=0.2)
    assert found.commit_seconds == pytest.approx(COSTS.commit_seconds, rel=0.5)
    for name in ("commits_run", "commits_step", "bytes_run", "bytes_step"):
        assert getattr(found, name) == pytest.approx(getattr(COSTS, name), rel=1e-6)
    assert IDLE.work.clients == 0


def test_the_table_says_the_errors_and_what_disturbed() -> None:
    load = Load("a <load>", Workload(clients=4, steps={4: 1.0}), Endpoint(seconds=0.1))
    predicted = simulate(load.work, load.endpoint, simulated(COSTS, 3), seconds=60)
    measured = replace(seen_of(load), per_second=predicted.per_second * 2, seconds=predicted.seconds, others=0.4)
    text = table([Compared(load.name, predicted, measured)])
    assert "| -50% |" in text
    assert "| +0% |" in text
    assert "The largest error is 50%." in text
    assert "Other programs took up to 0.40 cores" in text
    drawn = picture([Compared(load.name, predicted, measured)])
    assert "a &lt;load&gt;" in drawn
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


def test_the_table_of_costs_names_each_process() -> None:
    text = costs_table(COSTS)
    for name in KINDS:
        assert f"| {name} |" in text
    assert "4.0 ms for each commit" in text


@pytest.mark.full
def test_the_page_sizes_fleets_by_the_costs_that_it_shows() -> None:
    page, costs = (ROOT / "docs/capacity.md").read_text(), read_costs(ROOT / "bench/capacity.json")
    assert f"<!-- costs -->\n{costs_table(costs)}<!-- /costs -->" in page
    assert f"<!-- sizes -->\n{sizes_table(costs)}<!-- /sizes -->" in page
