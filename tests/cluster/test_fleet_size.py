"""How large a fleet must be, and `retinue capacity`, which says it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from retinue.cli import main
from retinue.cluster.capacity.fleet_size import WORKER_CPU, Demand, Size, size_fleet
from retinue.cluster.capacity.process_costs import MEASURED, Costs, read_costs
from retinue.cluster.capacity.workload import Endpoint, Fleet, Workload
from retinue.errors import UsageError


def sized(per_day: float, endpoint: Endpoint = Endpoint(), fleet: Fleet = Fleet(), workers: int | None = None) -> Size:
    return size_fleet(Demand(per_day), Workload(steps={5: 1.0}, tool_seconds=0.2), endpoint, fleet, workers=workers)


def test_a_fleet_is_large_enough_and_one_of_half_as_many_workers_is_not() -> None:
    size = sized(2e6)
    assert size.enough
    assert size.figures.waits.p95 <= 0.5
    assert size.figures.used["workers"] < 0.74
    half = sized(2e6, workers=size.workers // 2)
    assert half.figures.waits.p95 > 0.5 or half.figures.used["workers"] > 0.74


@pytest.mark.full
def test_a_slice_of_a_large_fleet_is_like_the_whole_of_a_small_one() -> None:
    small, large = sized(1e6), sized(1e8)
    assert large.slices > 20
    assert large.workers / small.workers == pytest.approx(100, rel=0.25)
    assert large.figures.seconds.mean == pytest.approx(small.figures.seconds.mean, rel=0.05)
    assert large.databases > small.databases == 1


def test_few_runs_have_two_of_each_so_that_one_may_die() -> None:
    size = sized(100)
    assert (size.workers, size.servers, size.databases) == (2, 2, 1)
    assert size.enough


@pytest.mark.full
def test_little_places_and_dear_steps_need_more_workers() -> None:
    usual = sized(1e6)
    assert sized(1e6, fleet=Fleet(places=50)).workers > usual.workers
    dear = replace(MEASURED, worker=replace(MEASURED.worker, step=MEASURED.worker.step * 10))
    assert sized(1e6, fleet=Fleet(costs=dear)).workers > usual.workers


@pytest.mark.full
def test_servers_are_sized_by_their_runs_and_steps() -> None:
    dear = replace(MEASURED, server=replace(MEASURED.server, step=0.02))
    rate, cost = Demand(1e6).per_second, dear.server.run + 5 * dear.server.step
    assert sized(1e6, fleet=Fleet(costs=dear)).servers == math.ceil(rate * cost / WORKER_CPU) > sized(1e6).servers


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        (Endpoint(requests_per_minute=10_000), "requests a minute"),
        (Endpoint(tokens_per_minute=1e7, tokens=2_000), "tokens a minute"),
        (Endpoint(places=300), "replies at once"),
    ],
)
def test_a_limit_of_the_model_that_is_too_low_is_named(endpoint: Endpoint, name: str) -> None:
    size = sized(1e6, endpoint)
    assert list(size.too_low) == [name]
    assert not size.enough
    wanted, allowed = size.too_low[name]
    assert wanted > allowed * 0.9


def test_costs_that_were_written_are_read(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(asdict(MEASURED)), "utf-8")
    assert read_costs(file) == MEASURED


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"worker": {"run": "much"}}, "worker.run: "),
        ({"wroker": {"run": 1.0}}, "wroker: "),
        ({"dispatch_seconds": -1.0}, "dispatch_seconds: "),
        ({"worker": {"step": -0.1}}, "worker.step: "),
        ({"server": None}, "server: "),
    ],
)
def test_costs_that_are_none_are_refused(change: dict[str, object], problem: str, tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps({**asdict(MEASURED), **change}), "utf-8")
    with pytest.raises(UsageError, match=f"costs.json: {problem}.*make capacity writes such files"):
        read_costs(file)


def test_a_file_of_costs_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*: No such file or directory"):
        read_costs(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{", "utf-8")
    with pytest.raises(UsageError, match=r"broken\.json: the file: Invalid JSON"):
        read_costs(tmp_path / "broken.json")


def test_the_command_says_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", "--runs", "1e6/day", "--asks", "5%", "--steps", "2:70,12:30"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1,000,000 runs a day of 5 steps\n34.7 runs a second at the peak, 3 times the average\n")
    for word in ("workers", "servers", "PostgreSQL", "disk", "model", "a run takes", "for people", "No bottleneck"):
        assert word in said
    assert max(map(len, said.splitlines())) <= 110


def test_the_commands_json_has_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", "--runs", "12/s", "--peak", "1", "--json", "--seed", "3"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["enough"] is True
    assert said["figures"]["offered"] == pytest.approx(12, rel=0.1)
    assert said["connections"] == (said["workers"] + said["servers"]) * 17


def test_a_load_that_cannot_be_carried_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", "--runs", "1e6/day", "--model-limit", "10000/min"]) == 1
    said = capsys.readouterr().out
    assert "bottleneck: 10,417 requests a minute are wanted, and 10,000 allowed." in said
    assert "Have 11,574 allowed, or make 86% of the runs." in said
    assert main(["capacity", "--runs", "1e6/day", "--workers", "1"]) == 1
    assert "This fleet does not keep up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--runs", "many"], "'many' is not a rate, such as 1e6/day"),
        (["--runs", "5/year"], "units: s, min, h, day"),
        (["--runs", "0/day"], "is not a rate"),
        (["--runs", "nan"], "is not a rate"),
        (["--runs", "1", "--steps", "0"], "is not a number of steps, such as 5"),
        (["--runs", "1", "--steps", "2:x"], "2:70,20:30"),
        (["--runs", "1", "--steps", "2:-1"], "is not a number of steps"),
        (["--runs", "1", "--asks", "120%"], "is not a share, such as 5%"),
        (["--runs", "1", "--model-limit", "-1/min"], "such as 10000/min"),
        ([], "Missing option '--runs'"),
    ],
)
def test_a_wrong_option_is_told(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", *words]) == 2
    assert problem in capsys.readouterr().err


def test_the_costs_are_those_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dear: Costs = replace(MEASURED, bytes_run=1e6, bytes_step=0.0)
    (tmp_path / "costs.json").write_text(json.dumps(asdict(dear)), "utf-8")
    assert main(["capacity", "--runs", "1000/day", "--costs", str(tmp_path / "costs.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes_per_day"] == pytest.approx(1e9)
