"""`retinue worker`: drives the runs that servers of the same database accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .._internal.sync_bridge import limit_exit, run_to_completion
from ..config.price_file import use_prices
from ..errors import UsageError
from .driving_options import (
    MISSING,
    driving_options,
    leave_out_prompt_states,
    limits_of,
    logging_of,
    metrics_of,
    options_of,
    temporal_of,
)
from .garbage_collection import collect_seldom
from .server_database import database_url


@click.command("worker")
@click.argument("file", type=click.Path(path_type=Path))
@driving_options
def command(file: Path, **given: Any) -> int:
    """Drive the runs of the agents of FILE that servers of the same PostgreSQL database accept.

    FILE is that of the servers. While workers run, servers drive nothing themselves (see retinue serve --drive). Any
    number of workers may run, and end at any time. With --temporal, which the servers then have as well (retinue serve
    --dispatch temporal), Temporal tells workers of runs, too.
    """
    try:
        from ..limits.rate import Bounds
        from ..server.agents.deployment import Deployment
        from ..server.process import Serving, work
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    leave_out_prompt_states()
    use_prices(beside=file)
    database = database_url(given["db"])
    temporal = temporal_of(given, database)
    if not database.startswith("postgresql"):
        raise UsageError("a worker needs the database of its servers: --db postgresql://USER@HOST/NAME")
    how = Serving(
        database=database,
        options=options_of(given),
        grace=given["grace"],
        bounds=Bounds(runs=given["limit_runs"]),
        at_once=given["runs_at_once"],
        logging=logging_of(given),
        metrics=metrics_of(given),
        temporal=temporal,
        **limits_of(given),
    )
    run_to_completion(work(Deployment.load(file), how, _ready))
    limit_exit()
    return 0


def _ready() -> None:
    collect_seldom()
    click.echo("Retinue is at work")
