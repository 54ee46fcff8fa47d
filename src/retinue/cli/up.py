"""`retinue up`: a server and workers on this machine, for trying them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config.agent_code import Target
from ..display.terminal import is_terminal
from ..errors import UsageError
from .option_types import AGENTS, NEW_FOLDER

if TYPE_CHECKING:
    from ..cluster.local_cluster import LocalCluster

_EVERY = 1.0  # seconds between two looks
_GUARDIAN = "RETINUE_UP_GUARDIAN"  # in the environment of the process that starts the programs


@click.command("up")
@click.argument("file", type=AGENTS)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS]")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0 picks a free one.")
@click.option("--workers", type=click.IntRange(1, 20), default=2, show_default=True, help="How many.")
@click.option("--temporal", is_flag=True, help="Also Temporal's development server, which gives workers their runs.")
@click.option(
    "--data",
    type=NEW_FOLDER,
    default=Path("retinue-up"),
    show_default=True,
    help="A folder for the database and the logs.",
)
def command(file: Target, options: tuple[str, ...], port: int, workers: int, temporal: bool, data: Path) -> int:
    """Try FILE on a cluster on this machine: PostgreSQL, a server, and workers.

    Everything that is started is stopped again, also if this command is killed. The data and the key stay in a folder,
    and are there the next time. OPTIONS, after --, are passed to the server and the workers, e.g. -- --run-ttl 60.
    """
    try:
        from ..cluster.local_cluster import LocalCluster, Plan
        from ..server.agents.deployment import Deployment
    except ModuleNotFoundError as error:
        raise UsageError("retinue up needs the extra 'up': pip install 'retinue[up]'") from error
    if _GUARDIAN not in os.environ:
        Deployment.load(file)  # so that its problems are told here, and not in a log
        words = [str(file), "--port", str(port), "--workers", str(workers), *["--temporal"] * temporal]
        return _run_guarded([*words, "--data", str(data), "--", *options])
    stopped = threading.Event()

    def read_to_end() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=read_to_end, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    cluster = LocalCluster(Plan(file, data, port, workers, temporal, options), stopped)
    try:
        click.echo(f"Starting PostgreSQL,{' Temporal,' * temporal} a server and its workers …", err=True)
        cluster.start()
        if not stopped.is_set():
            click.echo(f"Retinue is ready on {cluster.address}\nAuthorization: Bearer {cluster.key}")
            click.echo(f"Its runs: retinue runs list --db '{cluster.database}'")
            _watch(cluster, stopped)
    finally:
        click.echo("Stopping …", err=True)
        cluster.close()
    return 0


def _run_guarded(words: list[str]) -> int:
    """Run the command again, in a session of its own, so that neither Ctrl-C nor `kill -9` of this process reaches what
    it started before it can stop them in order: it does so at the end of its input. Return its exit status."""
    guardian = subprocess.Popen(
        [sys.executable, "-m", "retinue", "up", *words],
        stdin=subprocess.PIPE,
        env={**os.environ, _GUARDIAN: "1"},
        start_new_session=True,
    )
    given = guardian.stdin
    assert given is not None
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: given.close())
    return guardian.wait()


def _watch(cluster: LocalCluster, stopped: threading.Event) -> None:
    """Show what the cluster does: on a terminal, a view that is rewritten; else, a line for each change."""
    from sqlalchemy.exc import SQLAlchemyError

    from ..store.engines import engine_of
    from ..store.run_queries import count_all_by_status

    engine = engine_of(cluster.database)
    before: dict[str, str] = {}
    while not stopped.wait(_EVERY if before else 0.0):
        for program in cluster.programs:
            program.look()
        states = {program.name: program.state for program in cluster.programs}
        if is_terminal(sys.stdout):
            counted: dict[str, int] = {}
            with suppress(SQLAlchemyError), engine.connect() as connection:
                counted = dict(count_all_by_status(connection))
            runs = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in sorted(counted.items()))
            up = f"\x1b[{len(states) + 1}A\x1b[J" if before else ""
            lines = [f"  {name:<10} {state}" for name, state in {**states, "runs": runs or "none yet"}.items()]
            click.echo(up + "\n".join(lines))
        else:
            changed = dict(states.items() - before.items())
            click.echo("".join(f"{name} {state}\n" for name, state in changed.items()), nl=False)
        before = states
    engine.dispose()
