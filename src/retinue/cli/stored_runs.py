"""`retinue runs`: the runs in a server's database, also while the server runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..display.terminal import clean
from .run_control import cancel, continue_, resume
from .run_files import export, import_, pin
from .run_trials import fork, replay
from .runs_table import date, label, runs_table, summary_lines, took
from .server_database import DB_OPTION, found_run, server_database

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..store.run_row import RunRow

_STATUSES = (
    *("queued", "in_progress", "requires_action", "cancelling", "cancelled", "failed", "completed", "incomplete"),
    "expired",
)


@click.group("runs")
def command() -> None:
    """Runs of a server: look at them, end them or let them go on, try something else from where they were, and keep
    them as tests."""


for _one in (cancel, resume, fork, replay, export, import_, pin):
    command.add_command(_one)
command.add_command(continue_)


@command.command("list", short_help="List them, newest first.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(_STATUSES), help="Only these; may be repeated.")
@click.option("--agent", help="Only those of this agent.")
@click.option("--tenant", help="Only those of this tenant.  [default: all]")
@click.option("--forks-of", metavar="RUN", help="Only forks of RUN.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@DB_OPTION
def list_(db: str, as_json: bool, **given: object) -> int:
    """List the runs, newest first, without those of teams' members."""
    with server_database(db) as connection:
        from ..store.run_queries import RunFilter, newest_runs

        wanted = RunFilter(agent=given["agent"], statuses=given["statuses"], forked_from=given["forks_of"])  # type: ignore[arg-type]
        found = newest_runs(connection, wanted, given["tenant"], given["limit"])  # type: ignore[arg-type]
        questions = _questions(connection, found)
    if as_json:
        click.echo(json.dumps([_shown(run, questions.get(run.id, "")) for run in found], indent=2, ensure_ascii=False))
        return 0
    if not found:
        click.echo("no runs", err=True)
    for line in runs_table(found, questions, tenants=given["tenant"] is None):
        click.echo(line)
    return 0


@command.command("show", short_help="Show what became of a run.")
@click.argument("run_id", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@DB_OPTION
def show(run_id: str, db: str, as_json: bool) -> int:
    """Show what became of RUN. `retinue trace RUN` shows all that it did."""
    with server_database(db) as connection:
        from ..core.run_result import fold_result
        from ..store.event_log import read_events
        from ..store.run_queries import RunFilter, member_runs, newest_runs

        run = found_run(connection, run_id)
        log = [entry.event for entry in read_events(connection, run.id)]
        members = member_runs(connection, run.id)
        forks = newest_runs(connection, RunFilter(forked_from=run.id), run.tenant, 20)
    outcome = fold_result(log)
    if as_json:
        more = {"answer": outcome.answer, "steps": len(outcome.steps), "members": [one.id for one in members]}
        shown = _shown(run, outcome.question) | more | {"forks": [one.id for one in forks]}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return 0
    for line in summary_lines(run, outcome, members, forks):
        click.echo(line)
    return 0


@command.command("suspended", short_help="List those whose agents changed.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@DB_OPTION
def suspended_(db: str, as_json: bool) -> int:
    """List the runs that a server suspended, since it serves another agent than the one that they began with."""
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
        until = "" if run.expires_at is None else f" until {date(run.expires_at)}"
        click.echo(f"{run.id} of {clean(run.tenant)} waits{until}: {clean(run.error.message if run.error else '')}")
    return 0


def _questions(connection: Connection, found: Sequence[RunRow]) -> dict[str, str]:
    """Return the questions of runs that have begun, by their ids."""
    from ..core.events import Started
    from ..store.event_log import read_kinds

    begun = read_kinds(connection, [run.id for run in found], ["started"])
    return {run_id: event.question for run_id, event in begun if isinstance(event, Started)}


def _shown(run: RunRow, question: str) -> dict[str, object]:
    return {
        "id": run.id,
        "tenant": run.tenant,
        "agent": run.agent,
        "kind": run.kind,
        "status": label(run),
        "created_at": run.created_at,
        "seconds": took(run),
        "tokens": None if run.usage is None else run.usage.total_tokens,
        "question": question,
        "error": run.error.message if run.error else None,
        "forked_from": run.request.get("forked_from"),
        "imported_from": run.request.get("imported_from"),
    }
