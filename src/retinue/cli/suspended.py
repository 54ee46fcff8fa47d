"""`retinue runs`: those that were suspended since their agents changed; also while the server runs."""

from __future__ import annotations

import json
import time

import click

from ..display.terminal import clean
from ..errors import StoreConflict, UsageError
from .server_database import DB_OPTION, server_database


@click.group("runs")
def command() -> None:
    """Runs that a server suspended, since it serves another agent than the one that they began with."""


@command.command("suspended")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@DB_OPTION
def suspended_(db: str, as_json: bool) -> int:
    """List the runs that were suspended, oldest first, and what changed of their agents."""
    with server_database(db) as connection:
        from ..store.run_queries import suspended_runs

        found = suspended_runs(connection)
    if as_json:
        shown = [
            {"id": run.id, "tenant": run.tenant, "agent": run.agent, "expires_at": run.expires_at}
            | {"problem": run.error.message if run.error else ""}
            for run in found
        ]
        click.echo(json.dumps(shown, indent=2))
        return 0
    for run in found:
        until = "" if run.expires_at is None else f" until {_date(run.expires_at)}"
        click.echo(f"{run.id} of {clean(run.tenant)} waits{until}: {clean(run.error.message if run.error else '')}")
    return 0


@command.command("continue")
@click.argument("run_id", metavar="RUN")
@click.option("--regardless", is_flag=True, help="With the agent as it is served now, whatever changed.")
@click.option("--run-ttl", type=click.IntRange(1), default=600, show_default=True, help="Seconds for the run.")
@DB_OPTION
def continue_(run_id: str, db: str, regardless: bool, run_ttl: int) -> int:
    """Let RUN go on. The server does so within a second, or when it is started.

    If its agent is still another than the one that it began with, the run is suspended again. With --regardless it
    goes on with the agent of today: what was done stays done, and the model sees what it did before under today's
    prompt. This can also be said of a run that still waits for a person.
    """
    with server_database(db) as connection:
        from ..runs.suspension import continue_run

        try:
            run = continue_run(connection, run_id, run_ttl, regardless=regardless)
        except StoreConflict as error:
            raise UsageError(f"{error}; try again") from error
    waits = "once a person has decided" if run.status == "requires_action" else "now"
    click.echo(f"{run.id} goes on {waits}{', with the agent as it is' if regardless else ''}")
    return 0


@command.command("fork")
@click.argument("run_id", metavar="RUN")
@click.option("--step", type=click.IntRange(0), help="The last step that is kept.  [default: all]")
@click.option("--run-ttl", type=click.IntRange(1), default=600, show_default=True, help="Seconds for the run.")
@DB_OPTION
def fork_(run_id: str, db: str, step: int | None, run_ttl: int) -> int:
    """Cancel RUN, and let a new one go on where it was, with the agent as it is served now.

    The new run begins with the log of RUN, up to the end of a step. What was done until then stays done. A person who
    was asked about a call of that step is asked again.
    """
    with server_database(db) as connection:
        from ..runs.run_fork import fork_run

        try:
            fork = fork_run(connection, run_id, run_ttl, step)
        except StoreConflict as error:
            raise UsageError(f"{error}; try again") from error
    click.echo(f"{fork.id} goes on in place of {run_id}, which is cancelled")
    return 0


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
