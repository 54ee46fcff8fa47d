"""The costs of a fleet's processes, out of two rounds on one worker and one in which nothing happens."""

from __future__ import annotations

from dataclasses import replace

from retinue.cluster.capacity.fleet_simulation import simulate
from retinue.cluster.capacity.process_costs import Cost, Costs
from retinue.cluster.capacity.workload import Endpoint, Fleet, Workload

from .fleet import PLACES
from .rounds import Load, Round

CORES = 2.0  # of the machine, which everything shares
_SIMULATED = 300.0  # seconds

IDLE = Load("idle", Workload(), Endpoint())
SHORT, LONG = (
    Load(name, Workload(clients=4, steps={steps: 1.0}), Endpoint(seconds=0.1))
    for name, steps in (("short", 2), ("long", 8))
)


def costs_of(idle: Round, short: Round, long: Round) -> Costs:
    """What a run and a step cost. What a run takes beyond its CPU and its model is waiting, for commits at each step
    and for messages between processes once a run."""
    each = {name: _cost(name, idle, short, long) for name in idle.cpu}
    transactions, size = (_each(name, idle, short, long) for name in ("transactions", "size"))
    costs = Costs(
        **each,
        dispatch_seconds=0.0,
        commit_seconds=0.0,
        commits_run=transactions[0],
        commits_step=transactions[1],
        bytes_run=size[0],
        bytes_step=size[1],
    )
    for _ in range(6):
        missing = [_missing(costs, load, seen) for load, seen in ((SHORT, short), (LONG, long))]
        step = (missing[1] - missing[0]) / (LONG.steps - SHORT.steps)
        run = missing[0] - step * (SHORT.steps + 2)  # a run has two commits besides those of its steps
        costs = replace(
            costs,
            commit_seconds=max(0.0, costs.commit_seconds + step),
            dispatch_seconds=max(0.0, costs.dispatch_seconds + run),
        )
    return costs


def simulated(costs: Costs, workers: int) -> Fleet:
    """The fleet that is simulated."""
    return Fleet(servers=1, workers=workers, places=PLACES, cores=CORES, costs=costs)


def _missing(costs: Costs, load: Load, seen: Round) -> float:
    """The seconds of a run that the simulation does not know of."""
    found = simulate(load.work, load.endpoint, simulated(costs, 1), seconds=_SIMULATED)
    return seen.seconds.mean - found.seconds.mean


def _cost(name: str, idle: Round, short: Round, long: Round) -> Cost:
    each = [max(0.0, seen.cpu[name] - idle.cpu[name]) / seen.per_second for seen in (short, long)]
    run, step = _line(*each)
    return Cost(run, step, idle.cpu[name])


def _each(name: str, idle: Round, short: Round, long: Round) -> tuple[float, float]:
    without: float = getattr(idle, name)
    return _line(*(max(0.0, getattr(seen, name) - without) / seen.per_second for seen in (short, long)))


def _line(short: float, long: float) -> tuple[float, float]:
    """What a run has, and each step, if runs of two lengths have so much; neither is less than nothing."""
    step = min(max(0.0, (long - short) / (LONG.steps - SHORT.steps)), short / SHORT.steps)
    return short - step * SHORT.steps, step
