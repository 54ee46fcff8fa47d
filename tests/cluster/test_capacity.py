"""The simulation of a fleet: closed formulas where there are any, and what must hold for every load."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from retinue.cluster.capacity.capacity_figures import Figures
from retinue.cluster.capacity.fleet_simulation import simulate
from retinue.cluster.capacity.machine import Machine, Program
from retinue.cluster.capacity.process_costs import Cost, Costs
from retinue.cluster.capacity.run_places import CommitGroups
from retinue.cluster.capacity.virtual_time import Process, VirtualTime
from retinue.cluster.capacity.workload import Endpoint, Fleet, Workload

FREE = Costs(Cost(), Cost(), Cost(), Cost(), dispatch_seconds=0.0, commit_seconds=0.0)
BUSY = Costs(
    Cost(run=0.01), Cost(run=0.01, step=0.005), Cost(run=0.004, step=0.002), Cost(run=0.02), dispatch_seconds=0.02
)
ONE_STEP = {1: 1.0}


def erlang_c(servers: int, offered: float) -> float:
    """The share of requests that wait in M/M/c."""
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(offered**number / math.factorial(number) for number in range(servers)) + last)


@pytest.mark.parametrize(("servers", "rate"), [(1, 0.6), (3, 2.2), (8, 6.8)])
def test_a_model_with_places_is_m_m_c(servers: int, rate: float) -> None:
    load, endpoint = Workload(rate, steps=ONE_STEP), Endpoint(seconds=1.0, spread=1.0, places=servers)
    found = simulate(load, endpoint, Fleet(places=10_000, costs=FREE), seconds=14_000 / rate)
    waits = erlang_c(servers, rate) / (servers - rate)
    assert found.seconds.mean == pytest.approx(1.0 + waits, rel=0.12)
    assert found.used["model's places"] == pytest.approx(rate / servers, rel=0.03)


@pytest.mark.full
@pytest.mark.parametrize("places", [1, 4])
def test_a_workers_places_are_m_m_c(places: int) -> None:
    rate = 0.8 * places
    load, endpoint = Workload(rate, steps=ONE_STEP), Endpoint(seconds=1.0, spread=1.0)
    found = simulate(load, endpoint, Fleet(places=places, costs=FREE), seconds=14_000 / rate)
    assert found.waits.mean == pytest.approx(erlang_c(places, rate) / (places - rate), rel=0.15)
    assert found.used["places"] == pytest.approx(0.8, rel=0.03)


def served(cores: float, threads: float, draw: float, rate: float, seconds: float) -> float:
    """The mean seconds of jobs of `draw` seconds of CPU, at random times, on one program of a machine."""
    time, dice, took = VirtualTime(), random.Random(1), list[float]()
    program = Program(Machine(time, cores), threads)

    def job() -> Process:
        began = time.now
        yield program.work(draw)
        took.append(time.now - began)

    def arrivals() -> Process:
        while True:
            yield time.after(dice.expovariate(rate))
            time.start(job())

    time.start(arrivals())
    time.run(seconds)
    return sum(took) / len(took)


def test_a_program_of_one_thread_is_m_d_1_and_a_shared_core_is_processor_sharing() -> None:
    busy = 0.7
    assert served(math.inf, 1, 1.0, busy, 15_000) == pytest.approx(1 + busy / (2 * (1 - busy)), rel=0.05)
    assert served(1.0, math.inf, 1.0, busy, 15_000) == pytest.approx(1 / (1 - busy), rel=0.1)


def test_threads_beyond_the_cores_share_them_and_others_have_one_each() -> None:
    ends: list[tuple[str, float]] = []
    time = VirtualTime()
    machine = Machine(time, 2.0)

    def job(name: str, seconds: float) -> Process:
        yield Program(machine).work(seconds)
        ends.append((name, time.now))

    for name, seconds in (("short", 1.0), ("long", 2.0), ("longest", 4.0)):
        time.start(job(name, seconds))
    time.run(100)
    assert [(name, round(at, 9)) for name, at in ends] == [("short", 1.5), ("long", 2.5), ("longest", 4.5)]


def test_writes_that_come_while_others_are_committed_share_the_next_commit() -> None:
    time, ends = VirtualTime(), list[float]()
    commits = CommitGroups(time, Program(Machine(time)), 1.0)

    def write(at: float) -> Process:
        yield time.after(at)
        yield commits.write(0.0)
        ends.append(time.now)

    for at in (0.0, 0.1, 0.5, 0.9, 3.5):
        time.start(write(at))
    time.run(10)
    assert ends == [1.0, 2.0, 2.0, 2.0, 4.5]
    assert commits.commits == 3


LOADS = st.builds(
    Workload, per_second=st.floats(0.5, 12), steps=st.just({1: 1.0, 6: 1.0}), tool_seconds=st.floats(0, 1)
)
ENDPOINTS = st.builds(Endpoint, seconds=st.floats(0.05, 2), spread=st.sampled_from([0.0, 0.5, 1.0]))
FLEETS = st.builds(
    Fleet,
    workers=st.integers(1, 3),
    places=st.integers(20, 100),
    cores=st.sampled_from([0.0, 2.0]),
    costs=st.just(BUSY),
)


@given(load=LOADS, endpoint=ENDPOINTS, fleet=FLEETS)
@settings(max_examples=8, deadline=None)
def test_littles_law(load: Workload, endpoint: Endpoint, fleet: Fleet) -> None:
    """As many are in the queue as come while one waits, and as many are driven as come while one is driven."""
    found = simulate(load, endpoint, fleet, seconds=200)
    if found.per_second < 0.9 * found.offered:
        return  # a queue that grows has no mean
    assert found.queued == pytest.approx(found.per_second * found.waits.mean, rel=0.1, abs=0.5)
    outside = 0.02 + 2 * 0.01  # dispatching, and what the server does, at least
    driven = found.seconds.mean - found.waits.mean - outside
    assert found.under_way == pytest.approx(found.per_second * driven, rel=0.15, abs=0.5)


@pytest.mark.full
@pytest.mark.parametrize("clients", [1, 8, 40])
def test_clients_that_wait_for_their_runs_have_as_many_as_they_are(clients: int) -> None:
    found = simulate(Workload(clients=clients), Endpoint(seconds=0.2), Fleet(workers=2, costs=BUSY), seconds=150)
    assert found.per_second * found.seconds.mean == pytest.approx(clients, rel=0.03)


def test_shared_cores_bound_the_throughput() -> None:
    fleet = Fleet(workers=3, cores=2.0, costs=BUSY)
    found = simulate(Workload(clients=60, steps={4: 1.0}), Endpoint(seconds=0.05), fleet, seconds=200)
    cost = 0.01 + (0.01 + 4 * 0.005) + (0.004 + 4 * 0.002) + 0.02
    assert found.per_second == pytest.approx(2 / cost, rel=0.03)
    assert found.bottleneck == "cores"
    rested = simulate(
        Workload(clients=60, steps={4: 1.0}),
        Endpoint(seconds=0.05),
        replace(fleet, costs=replace(BUSY, temporal=Cost(run=0.02, idle=0.5))),
        seconds=200,
    )
    assert rested.per_second == pytest.approx(1.5 / cost, rel=0.03)  # half a core goes to one that does nothing


def test_an_endpoints_limit_bounds_the_throughput_and_refuses_the_rest() -> None:
    endpoint = Endpoint(seconds=0.3, requests_per_minute=600, burst_seconds=1)
    found = simulate(Workload(clients=12, steps={4: 1.0}), endpoint, Fleet(costs=FREE), seconds=300)
    assert found.used["model's requests"] == pytest.approx(1.0, rel=0.02)
    assert found.bottleneck == "model's requests"
    assert found.refused > 0.1
    assert found.failed + found.per_second == pytest.approx(found.offered, rel=0.02)
    few = simulate(Workload(clients=12, steps={4: 1.0}), replace(endpoint, requests_per_minute=6), Fleet(costs=FREE))
    assert few.failed > few.per_second


def test_a_limit_of_tokens_is_one_of_requests() -> None:
    load, fleet = Workload(clients=12, steps={4: 1.0}), Fleet(costs=FREE)
    requests = simulate(load, Endpoint(seconds=0.3, requests_per_minute=600, burst_seconds=1), fleet)
    tokens = simulate(load, Endpoint(seconds=0.3, tokens_per_minute=6e5, tokens=1_000, burst_seconds=1), fleet)
    assert tokens.per_second == pytest.approx(requests.per_second, rel=0.02)
    assert tokens.used["model's tokens"] == pytest.approx(1.0, rel=0.02)


def test_people_hold_no_place_and_their_time_is_not_the_runs() -> None:
    load, endpoint, fleet = Workload(per_second=5.0), Endpoint(seconds=0.2, spread=0.0), Fleet(places=50, costs=FREE)
    without, asked = (simulate(replace(load, asks=share), endpoint, fleet, seconds=300) for share in (0.0, 1.0))
    assert asked.under_way == pytest.approx(without.under_way, rel=0.1)
    assert asked.seconds.mean == pytest.approx(without.seconds.mean, rel=0.02)


def test_the_same_seed_gives_the_same_figures_and_another_one_others() -> None:
    def once(seed: int) -> Figures:
        return simulate(Workload(per_second=5.0, asks=0.1), Endpoint(), Fleet(costs=BUSY), seconds=60, seed=seed)

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_steps_are_drawn_by_their_shares() -> None:
    load = Workload(per_second=20.0, steps={1: 3.0, 9: 1.0})
    assert load.mean_steps == 3.0
    found = simulate(load, Endpoint(seconds=1.0, spread=0.0), Fleet(places=1_000, costs=FREE), seconds=300)
    assert found.seconds.mean == pytest.approx(3.0, rel=0.05)
    assert [found.seconds.p50, found.seconds.p95] == pytest.approx([1.0, 9.0])


@pytest.mark.parametrize("name", ["workers", "places", "cores"])
def test_more_of_anything_is_not_worse(name: str) -> None:
    few = Fleet(workers=1, places=10, cores=1.0, costs=BUSY)
    much = replace(few, **{name: getattr(few, name) * 3})
    load, endpoint = Workload(clients=50, steps={3: 1.0}), Endpoint(seconds=0.2)
    before, after = (simulate(load, endpoint, fleet, seconds=120) for fleet in (few, much))
    assert after.per_second >= before.per_second * 0.99
    assert after.seconds.mean <= before.seconds.mean * 1.01


def test_a_higher_limit_of_the_model_is_not_worse() -> None:
    load, fleet = Workload(clients=20, steps={3: 1.0}), Fleet(costs=BUSY)
    rates = [
        simulate(load, Endpoint(seconds=0.2, requests_per_minute=limit), fleet).per_second
        for limit in (300, 900, 2_700)
    ]
    assert rates == sorted(rates)
    assert rates[2] > 2 * rates[0]
