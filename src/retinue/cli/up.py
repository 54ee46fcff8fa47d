"""`retinue up`: servers and workers on this machine, for trying them."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..display.terminal import is_terminal
from ..errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ..cluster.local_cluster import LocalCluster

_EVERY = 1.0  # seconds between two looks


@click.command("up")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS]")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0 picks a free one.")
@click.option("--workers", type=click.IntRange(1, 20), default=2, show_default=True, help="How many.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("retinue-up"),
    show_default=True,
    help="A folder for the database and the logs.",
)
def command(file: Path, options: tuple[str, ...], port: int, workers: int, data: Path) -> int:
    """Try FILE on a cluster on this machine: PostgreSQL, Temporal's development server, a server, and workers.

    Everything that is started is stopped again, also if this command is killed. The data and the key stay in a folder,
    and are there the next time. OPTIONS, after --, are passed to the server and the workers, e.g. -- --run-ttl 60.
    """
    try:
        from ..cluster.local_cluster import LocalCluster, Plan
        from ..server.agents.deployment import Deployment
    except ModuleNotFoundError as error:
        raise UsageError("retinue up needs the extra 'up': pip install 'retinue[up]'") from error
    Deployment.load(file)  # so that its problems are told here, and not in a log
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stop.set())
    cluster = LocalCluster(Plan(file.resolve(), data, port, workers, options))
    try:
        click.echo("Starting PostgreSQL, Temporal, a server and its workers …", err=True)
        cluster.start(lambda: not stop.is_set())
        if not stop.is_set():
            click.echo(f"Retinue is ready on {cluster.address}\nAuthorization: Bearer {cluster.key}")
            click.echo(f"Its runs: retinue runs list --db '{cluster.database}'")
            _watch(cluster, stop)
    finally:
        click.echo("Stopping …", err=True)
        cluster.close()
    return 0


def _watch(cluster: LocalCluster, stop: threading.Event) -> None:
    """Show what the cluster does: on a terminal, a view that is rewritten; else, a line for each change."""
    from ..store.engines import engine_of

    engine = engine_of(cluster.database)
    shown: list[str] = []
    before: dict[str, str] = {}
    while not stop.wait(_EVERY if before else 0.0):
        cluster.look()
        if is_terminal(sys.stdout):
            up = f"\x1b[{len(shown)}A\x1b[J" if shown else ""
            shown = [*(f"  {name:<10} {state}" for name, state in cluster.states.items()), _runs(engine)]
            click.echo(up + "\n".join(shown))
        else:
            changes = dict(cluster.states.items() - before.items())
            click.echo("".join(f"{name} {state}\n" for name, state in changes.items()), nl=False)
        before = dict(cluster.states)
    engine.dispose()


def _runs(engine: Engine) -> str:
    """Return a line with the number of runs by status."""
    from sqlalchemy.exc import SQLAlchemyError

    from ..store.run_queries import count_all_by_status

    counted: Counter[str] = Counter()
    with suppress(SQLAlchemyError), engine.connect() as connection:
        counted.update(count_all_by_status(connection))
    said = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in sorted(counted.items()))
    return f"  {'runs':<10} {said or 'none yet'}"
