"""`retinue runs cancel` and `retinue runs resume`: end runs or let them go on, also while a server has the database."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..display.terminal import clean
from ..errors import StoreConflict, UsageError
from .runs_table import label
from .server_database import DB_OPTION, found_run, server_database

if TYPE_CHECKING:
    from ..store.run_row import RunRow

_ACTIVE = ("queued", "in_progress", "requires_action")
_MOST = 10_000
_ALL = "all"


@click.command("cancel", short_help="End runs.")
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--status", "statuses", multiple=True, type=click.Choice(_ACTIVE), help="All of this status; repeatable.")
@click.option("--agent", help="All of this agent.")
@click.option("--tenant", help="All of this tenant.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@DB_OPTION
def cancel(run_ids: tuple[str, ...], db: str, **given: Any) -> int:
    """Cancel each RUN, or all active runs that --status, --agent and --tenant select together.

    A run that waits ends at once. One that is driven is interrupted within a second, whichever process drives it. The
    exit status is 1 if a run was not cancelled, because it has ended or is a member of a team.
    """
    filters = {name: given[name] for name in ("statuses", "agent", "tenant") if given[name]}
    if bool(run_ids) == bool(filters):
        raise UsageError("say which runs to cancel: by their ids, or all of a --status, --agent or --tenant")
    chosen = run_ids or _selected(db, filters, asks=not given["yes"])
    said = [_cancelled(db, run_id, forgiving=not run_ids) for run_id in dict.fromkeys(chosen)]
    if given["as_json"]:
        click.echo(json.dumps(said, indent=2))
    else:
        for one in said:
            click.echo(
                f"{one['id']} {one['problem'] or _CANCELLED.get(one['status'], 'has ended')}", err=bool(one["problem"])
            )
    return 1 if any(one["problem"] for one in said) else 0


_CANCELLED = {
    "cancelled": "is cancelled",
    "cancelling": "is being cancelled",
    "failed": "has failed: its log cannot be read",
}


def _selected(db: str, filters: Mapping[str, Any], *, asks: bool) -> Sequence[str]:
    """Return the runs that filters select, if the user confirms it."""
    with server_database(db) as connection:
        from ..store.run_queries import RunFilter, newest_runs

        wanted = RunFilter(agent=filters.get("agent"), statuses=filters.get("statuses", _ACTIVE))
        found = newest_runs(connection, wanted, filters.get("tenant"), _MOST)
    if not found:
        click.echo("no such runs", err=True)
        return ()
    if asks:
        _confirm(found)
    return [run.id for run in found]


def _confirm(found: Sequence[RunRow]) -> None:
    number = f"{len(found):,} run{'s' * (len(found) != 1)}"
    if not sys.stdin.isatty():
        raise UsageError(f"this would cancel {number}; say --yes to do it")
    for word, many in (("agent", Counter(run.agent for run in found)), ("status", Counter(map(label, found)))):
        parts = ", ".join(f"{count:,} {clean(name)}" for name, count in many.most_common(8))
        click.echo(f"  {click.style(word.ljust(8), dim=True)}{parts}", err=True)
    click.confirm(f"Cancel {number}?", abort=True, err=True)


def _cancelled(db: str, run_id: str, *, forgiving: bool) -> dict[str, str]:
    """Cancel a run, in a transaction of its own, so that the server's are not held up. With `forgiving`, one that has
    ended meanwhile is no problem."""
    with server_database(db) as connection:
        from ..server.run_session import cancel_for
        from ..store.audit_author import system_user
        from ..store.run_queries import find_run

        run = find_run(connection, run_id, lock=True)
        if run is None:
            return {
                "id": run_id[:80],
                "status": "",
                "problem": "is no run of this database",
            }
        problem = ""
        if run.parent_id is not None:
            problem = f"was called by {run.root_id}: cancel that one"
        elif not run.active:
            problem = "" if forgiving else f"has ended: its status is {run.status}"
        elif run.status != "cancelling":
            try:
                run = cancel_for(connection, system_user(), run)
            except StoreConflict as error:
                raise UsageError(f"{error}; try again") from error
    return {"id": run.id, "status": run.status, "problem": problem}


@click.command("resume", short_help="Let runs go on that wait for an answer, or are suspended.")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--suspended", is_flag=True, help="Instead of RUN: all runs that are suspended.")
@click.option("--approve", "approved", multiple=True, metavar="CALL", help="Let a call be made. May be repeated.")
@click.option("--reject", "rejected", multiple=True, metavar="CALL[=WHY]", help="Do not let it be made.")
@click.option("--respond", "responded", multiple=True, metavar="CALL=TEXT", help="Give the call's result yourself.")
@click.option("--regardless", is_flag=True, help="With the agent as it is served now, whatever changed.")
@click.option("--run-ttl", type=click.IntRange(1), default=600, show_default=True, help="Seconds for the run.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, a line for each run.")
@DB_OPTION
def resume(run_id: str, db: str, as_json: bool, suspended: bool, **given: Any) -> int:
    """Let RUN go on. The server does so within a second, or when it is started.

    If RUN waits for a person or its client, answer each call that it waits for (`retinue runs show RUN` lists them), or
    `all`.

    If RUN is suspended because its agent changed, it is suspended again unless the agent is as it was by now. With
    --regardless it goes on with the agent of today: what was done stays done, and the model sees what it did before
    under today's prompt. This can also be said of a run that still waits for a person. With --suspended, all suspended
    runs go on.
    """
    answers = _answers(given)
    if bool(run_id) == suspended:
        raise UsageError("name a run to resume, or say --suspended for all that are suspended")
    for one in _suspended(db) if suspended else (run_id,):
        run = _resumed(db, one, answers, given)
        if as_json:
            click.echo(json.dumps({"id": run.id, "status": run.status}))
            continue
        when = "once a person has decided" if run.status == "requires_action" else "now"
        click.echo(f"{run.id} goes on {when}{', with the agent as it is' if given['regardless'] else ''}")
    return 0


def _suspended(db: str) -> Sequence[str]:
    """Return the ids of the suspended runs."""
    with server_database(db) as connection:
        from ..store.run_queries import suspended_runs

        found = [run.id for run in suspended_runs(connection)]
    if not found:
        click.echo("no run is suspended", err=True)
    return found


def _resumed(db: str, run_id: str, answers: Mapping[str, _Answer], given: Mapping[str, Any]) -> RunRow:
    """Let a run go on, in a transaction of its own. Return its new row."""
    with server_database(db) as connection:
        from ..runs.submissions import continue_run
        from ..store.audit_author import system_user
        from ..store.audit_log import record

        run = found_run(connection, run_id, lock=True)
        waits = run.status == "requires_action"
        try:
            if waits and run.parent_id is not None:
                raise UsageError(f"the run {run.id} was called by {run.root_id}: answer that one")
            if not waits and not run.suspended:
                raise UsageError(_why_not(run))
            if not waits and answers:
                raise UsageError(f"the run {run.id} waits for no answer: it is suspended")
            if waits and not answers and not given["regardless"]:
                raise UsageError(f"{_asked(run)}; say --approve, --reject or --respond")
            if run.suspended or given["regardless"]:
                run = continue_run(connection, run_id, given["run_ttl"], regardless=given["regardless"])
                detail = {"regardless": int(given["regardless"])}
                record(connection, system_user(), run.tenant, "run.continued", run.id, detail)
            if answers:
                run = _answered(connection, run, answers, given["run_ttl"])
        except StoreConflict as error:
            raise UsageError(f"{error}; try again") from error
    return run


@click.command("continue", hidden=True)
@click.argument("run_id", metavar="RUN")
@click.option("--regardless", is_flag=True)
@click.option("--run-ttl", type=click.IntRange(1), default=600)
@DB_OPTION
@click.pass_context
def continue_(context: click.Context, /, **given: Any) -> Any:
    """The former name of `resume`, for scripts."""
    return context.invoke(resume, **given)


def _why_not(run: RunRow) -> str:
    """Say why a run cannot be resumed, and what can be done instead."""
    if not run.active:
        ended = f"the run {run.id} has ended: its status is {run.status!r}"
        return f"{ended}; retinue runs fork {run.id} lets a new one go on from its last step"
    return f"the run {run.id} is neither suspended nor waiting: its status is {run.status!r}, so it goes on by itself"


class _Answer(NamedTuple):
    kind: str
    message: str

    def output(self, *, of_client: bool) -> str:
        """Return what a client would send."""
        return self.message if of_client else json.dumps({"decision": self.kind, "message": self.message})


def _answers(given: Mapping[str, Any]) -> dict[str, _Answer]:
    """Return what the options say of calls, by the calls' ids."""
    found: dict[str, _Answer] = {}
    for kind, option in (("approve", "approved"), ("reject", "rejected"), ("respond", "responded")):
        for said in given.get(option) or ():
            call, equals, text = said.partition("=") if kind != "approve" else (said, "", "")
            if kind == "respond" and (not equals or not call):
                raise UsageError(f"--respond {said[:80]!r}: want CALL=TEXT, such as call_1_0='It rains.'")
            if call in found:
                raise UsageError(f"the call {call[:80]!r} is answered twice")
            found[call] = _Answer(kind, text)
    if _ALL in found and len(found) > 1:
        raise UsageError(f"{_ALL!r} answers all calls, so say nothing of others beside it")
    return found


def _answered(connection: Any, run: RunRow, answers: Mapping[str, _Answer], ttl: int) -> RunRow:
    """Answer all calls that a run waits for."""
    from ..runs.status import pending_calls
    from ..server.agents.overrides import inner_name
    from ..server.http.api_errors import ApiError
    from ..server.http.objects import call_id
    from ..server.runs.answers import answer_run
    from ..store.audit_author import system_user

    waiting = pending_calls(run)
    ids = [one.action.id for one in waiting]
    if _ALL in answers:
        answers = dict.fromkeys(ids, answers[_ALL])
    if set(answers) != set(ids):
        raise UsageError(f"{_asked(run)}; answer each of these calls, and no other")
    functions = (one.get("function") for one in run.request.get("tools") or ())
    of_client = {inner_name(one["name"]) for one in functions if one}
    outputs = []
    for action, _, asked in waiting:
        answer, its = answers[action.id], action.tool in of_client
        if its and answer.kind != "respond":
            raise UsageError(f"{action.id} is a function of the run's client: give its result with --respond")
        outputs.append((call_id(run.id, action.id, asked), answer.output(of_client=its)))
    try:
        return answer_run(connection, system_user(), run, outputs, ttl)[0]
    except ApiError as error:
        raise UsageError(f"the run {run.id} does not take this answer: {error}") from error


def _asked(run: RunRow) -> str:
    """Say which calls a run waits for."""
    calls = (
        f"{one['id']} ({clean(one['tool'])} {json.dumps(one['arguments'], ensure_ascii=False)[:120]})"
        for one in run.waiting
    )
    return f"the run {run.id} waits for an answer to {clean(', '.join(calls))}"
