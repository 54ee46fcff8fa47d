"""`retinue capacity`: how many workers a load needs, by a simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from .load_types import A_MINUTE, PER_DAY, SHARE, STEPS

_SECONDS = click.FloatRange(0, 86_400)
_SPREAD = click.FloatRange(0, 5)


@click.command("capacity")
@click.option("--runs", type=PER_DAY, required=True, help="How many runs come, on average: 1e6/day.")
@click.option("--peak", type=click.FloatRange(1, 100), default=3.0, show_default=True, help="Times the average.")
@click.option(
    "--steps", type=STEPS, default="5", show_default=True, help="Replies of the model in a run: 5, or 2:70,20:30."
)
@click.option("--model-seconds", type=_SECONDS, default=2.0, show_default=True, help="That a reply takes.")
@click.option(
    "--model-spread", type=_SPREAD, default=0.5, show_default=True, help="Their standard deviation by their mean."
)
@click.option("--model-limit", type=A_MINUTE, help="Requests that the model's endpoint allows: 10000/min.")
@click.option("--token-limit", type=A_MINUTE, help="Tokens that it allows: 2e6/min.")
@click.option(
    "--tokens", type=click.IntRange(1, 10**7), default=2_000, show_default=True, help="Of a request and its reply."
)
@click.option("--model-places", type=click.IntRange(1), help="Replies that it makes at once; others wait.")
@click.option("--tool-seconds", type=_SECONDS, default=0.2, show_default=True, help="That a step's tools take.")
@click.option("--asks", type=SHARE, default="0%", show_default=True, help="Runs that wait for a person.")
@click.option(
    "--person-seconds", type=click.FloatRange(0), default=600.0, show_default=True, help="That a person takes."
)
@click.option("--places", type=click.IntRange(1), default=200, show_default=True, help="--runs-at-once of a worker.")
@click.option("--workers", type=click.IntRange(1, 100_000), help="Say what so many do, instead of how many are needed.")
@click.option("--database-cores", type=click.FloatRange(1), default=32.0, show_default=True, help="Of one PostgreSQL.")
@click.option("--costs", type=click.Path(path_type=Path), help="A file that make capacity wrote.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation's dice.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def command(**given: Any) -> int:
    """Say how many workers, servers, cores, connections and bytes a load needs, and what limits it.

    The load is simulated: requests that come by chance, servers, commits, workers and their places, a model's endpoint
    and its limits. The exit status is 1 if the load cannot be carried.
    """
    from ..cluster.capacity.capacity_text import size_text
    from ..cluster.capacity.fleet_size import Demand, size_fleet
    from ..cluster.capacity.process_costs import MEASURED, read_costs
    from ..cluster.capacity.workload import Endpoint, Fleet, Workload

    demand = Demand(given["runs"], given["peak"])
    load = Workload(
        steps=given["steps"],
        tool_seconds=given["tool_seconds"],
        tool_spread=1.0,
        asks=given["asks"],
        person_seconds=given["person_seconds"],
    )
    endpoint = Endpoint(
        seconds=given["model_seconds"],
        spread=given["model_spread"],
        places=given["model_places"] or 0,
        requests_per_minute=given["model_limit"] or 0.0,
        tokens_per_minute=given["token_limit"] or 0.0,
        tokens=given["tokens"],
    )
    costs = read_costs(given["costs"]) if given["costs"] else MEASURED
    fleet = Fleet(places=given["places"], database_cores=given["database_cores"], costs=costs)
    size = size_fleet(demand, load, endpoint, fleet, workers=given["workers"], seed=given["seed"])
    click.echo(json.dumps(_figures(size)) if given["as_json"] else size_text(demand, load, fleet, size))
    return 0 if size.enough else 1


def _figures(size: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(size), "enough": size.enough, "next_limit": size.next_limit}
