"""`retinue runs`: the runs in a server's database, also while the server runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..core.run_result import RunResult, fold_result
from ..display.terminal import clean
from .output import format_date, print_json, table_lines
from .run_changes import cancel, export, fork, import_, label, resume
from .run_replay import pin, replay
from .server_database import DB_OPTION, JSON_OPTION, found_run, server_database

if TYPE_CHECKING:
    from ..store.run_row import RunRow

_STATUSES = ("queued", "in_progress", "requires_action", "cancelling", "cancelled", "failed", "completed", "incomplete")
_COLOURS = {"completed": "green", "failed": "red", "expired": "red", "incomplete": "yellow", "cancelled": "yellow"}


@click.group("runs")
def command() -> None:
    """Runs of a server: look at them, end them or let them go on, try something else from where they were, and keep
    them as tests."""


for _one in (cancel, resume, fork, replay, export, import_, pin):
    command.add_command(_one)


@command.command("list", short_help="List them, newest first.")
@click.option(
    "--status", multiple=True, type=click.Choice((*_STATUSES, "expired")), help="Only these; may be repeated."
)
@click.option("--agent", help="Only those of this agent.")
@click.option("--tenant", help="Only those of this tenant.  [default: all]")
@click.option("--forks-of", metavar="RUN", help="Only forks of RUN.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@JSON_OPTION
@DB_OPTION
def list_(db: str, as_json: bool, tenant: str | None, limit: int, **given: Any) -> int:
    """List the runs, newest first, without those of teams' members."""
    with server_database(db) as connection:
        from ..core.events import Started
        from ..store.event_log import read_kinds
        from ..store.run_queries import RunFilter, newest_runs

        wanted = RunFilter(agent=given["agent"], statuses=given["status"], forked_from=given["forks_of"])
        found = newest_runs(connection, wanted, tenant, limit)
        begun = read_kinds(connection, [run.id for run in found], ["started"])
        questions = {run_id: event.question for run_id, event in begun if isinstance(event, Started)}
    if as_json:
        print_json([_run_values(run, questions.get(run.id, "")) for run in found])
    elif not found:
        click.echo("no runs", err=True)
    else:
        for line in _runs_table(found, questions, tenants=tenant is None and len({run.tenant for run in found}) > 1):
            click.echo(line)
    return 0


def _runs_table(found: Sequence[RunRow], questions: Mapping[str, str], *, tenants: bool) -> Iterator[str]:
    names = ("RUN", "STATUS", "AGENT", *["TENANT"] * tenants, "MADE", "TOOK", "TOKENS", "QUESTION")
    rows = []
    for run in found:
        status = click.style(label(run), fg=_COLOURS.get(label(run), "cyan"))
        words = ("⑂ " if run.forked_from else "") + " ".join(clean(questions.get(run.id, "")).split())
        tokens = "" if run.usage is None else f"{run.usage.total_tokens:,}"
        origin = (run.id, status, clean(run.agent), *[clean(run.tenant)] * tenants, format_date(run.created_at))
        rows.append((*origin, _format_seconds(_seconds(run)), tokens, words))
    return table_lines(names, rows, ("TOOK", "TOKENS"), fits=True)


@command.command("show", short_help="Show what became of a run.")
@click.argument("run_id", metavar="RUN")
@JSON_OPTION
@DB_OPTION
def show(run_id: str, db: str, as_json: bool) -> int:
    """Show what became of RUN. `retinue trace RUN` shows all that it did."""
    with server_database(db) as connection:
        from ..store.event_log import read_events
        from ..store.run_queries import RunFilter, member_runs, newest_runs

        run = found_run(connection, run_id)
        outcome = fold_result([entry.event for entry in read_events(connection, run.id)])
        members = member_runs(connection, run.id)
        forks = newest_runs(connection, RunFilter(forked_from=run.id), run.tenant, 20)
    if as_json:
        more = {"answer": outcome.text, "steps": len(outcome.steps), "members": [one.id for one in members]}
        print_json(_run_values(run, outcome.question) | more | {"forks": [one.id for one in forks]})
        return 0
    status = click.style(label(run), fg=_COLOURS.get(label(run), "cyan"))
    click.echo(f"{click.style(run.id, bold=True)}  {status}")
    for name, value in _run_facts(run, outcome):
        if value:
            first, *rest = clean(value).splitlines() or [""]
            click.echo("\n".join([_fact(name, first), *(_fact("", line) for line in rest)]))
    for at, one in enumerate(members):
        click.echo(_fact("" if at else "members", f"{one.id}  {label(one)}  {clean(one.agent)}  {one.call_id or ''}"))
    for at, one in enumerate(forks):
        step = (one.request.get("forked_from") or {}).get("step")
        where = one.call_id or "" if step is None else f"from step {step}"
        click.echo(_fact("" if at else "forks", f"{one.id}  {label(one)}  {clean(one.agent)}  {where}"))
    click.secho(f"  retinue trace {run.id} shows all that it did", dim=True)
    return 0


def _fact(name: str, value: str) -> str:
    return f"  {click.style(name.ljust(10), dim=True)}{value}".rstrip()


def _run_facts(run: RunRow, outcome: RunResult) -> Iterator[tuple[str, str]]:
    seconds, usage = _seconds(run), run.usage
    yield "agent", f"{run.agent} ({run.kind} of {run.tenant})"
    yield "made", format_date(run.created_at) + ("" if seconds is None else f", took {_format_seconds(seconds)}")
    if usage is not None:
        steps = len(outcome.steps)
        yield "used", f"{usage.total_tokens:,} tokens, {steps} step{'s' * (steps != 1)} with tools"
    for name in ("forked_from", "imported_from"):
        if origin := run.request.get(name):
            step = f", step {origin['step']}" if "step" in origin else ""
            yield name.partition("_")[0], f"from {origin['run_id']}{step}"
    yield "question", outcome.question
    yield "answer", outcome.text
    for one in outcome.waiting:
        yield "waits", f"for a person's decision on {one.tool} ({one.id})"
    yield "problem", run.error.message if run.error else ""


def _run_values(run: RunRow, question: str) -> dict[str, object]:
    return {
        **{"id": run.id, "tenant": run.tenant, "agent": run.agent, "kind": run.kind, "status": label(run)},
        "created_at": run.created_at,
        "seconds": _seconds(run),
        "tokens": None if run.usage is None else run.usage.total_tokens,
        "question": question,
        "error": run.error.message if run.error else None,
        "forked_from": run.request.get("forked_from"),
        "imported_from": run.request.get("imported_from"),
    }


def _seconds(run: RunRow) -> int | None:
    """Return the seconds from a run's first drive to its end."""
    return None if run.started_at is None or run.ended_at is None else run.ended_at - run.started_at


def _format_seconds(seconds: int | None) -> str:
    """Return a length of time in at most two units."""
    if seconds is None:
        return ""
    for size, unit, below in ((3_600, "h", "m"), (60, "m", "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size * 60 // size:02}{below}"
    return f"{seconds}s" if seconds else "<1s"


@command.command("suspended", short_help="List those whose agents changed.")
@JSON_OPTION
@DB_OPTION
def suspended(db: str, as_json: bool) -> int:
    """List the runs that a server suspended, since it serves another agent than the one that they began with."""
    with server_database(db) as connection:
        from ..store.run_queries import suspended_runs

        found = [(run, run.error.message if run.error else "") for run in suspended_runs(connection)]
    if as_json:
        print_json([
            {"id": run.id, "tenant": run.tenant, "agent": run.agent, "expires_at": run.expires_at, "problem": problem}
            for run, problem in found
        ])  # fmt: skip
        return 0
    for run, problem in found:
        until = "" if run.expires_at is None else f" until {format_date(run.expires_at)}"
        click.echo(f"{run.id} of {clean(run.tenant)} waits{until}: {clean(problem)}")
    return 0
