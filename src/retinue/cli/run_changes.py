"""`retinue runs cancel`, `resume`, `fork`, `export` and `import`: what changes a database's runs, also while a server
has it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..display.terminal import clean
from ..errors import StoreConflict, UsageError
from .output import print_json
from .server_database import DB_OPTION, JSON_OPTION, found_run, record_act, server_database, system_user

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..store.run_row import RunRow

_ACTIVE = ("queued", "in_progress", "requires_action")
_MOST = 10_000  # runs that are cancelled at once
_MOST_TEXT = 1_000_000  # characters of an observation
_ALL = "all"
_CANCELLED = {
    "cancelled": "is cancelled",
    "cancelling": "is being cancelled",
    "failed": "has failed: its log cannot be read",
}
_TTL_OPTION = click.option(
    "--run-ttl", type=click.IntRange(1), default=600, show_default=True, help="Seconds for the run."
)
Answers = Mapping[str, tuple[str, str]]  # by call: approve, reject or respond, and what is said with it


def label(run: RunRow) -> str:
    """Return a run's status, or that it is suspended."""
    return "suspended" if run.suspended else run.status


@contextmanager
def _change(db: str) -> Iterator[Connection]:
    """Open a transaction of its own for one run, so that the server's are not held up."""
    with server_database(db) as connection:
        try:
            yield connection
        except StoreConflict as error:
            raise UsageError(f"{error}; try again") from error


@click.command("cancel", short_help="End runs.")
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--status", "statuses", multiple=True, type=click.Choice(_ACTIVE), help="All of this status; repeatable.")
@click.option("--agent", help="All of this agent.")
@click.option("--tenant", help="All of this tenant.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON_OPTION
@DB_OPTION
def cancel(run_ids: tuple[str, ...], db: str, yes: bool, as_json: bool, **filters: Any) -> int:
    """Cancel each RUN, or all active runs that --status, --agent and --tenant select together.

    A run that waits ends at once. One that is driven is interrupted within a second, whichever process drives it. The
    exit status is 1 if a run was not cancelled, because it has ended or is a member of a team.
    """
    if bool(run_ids) == any(filters.values()):
        raise UsageError("say which runs to cancel: by their ids, or all of a --status, --agent or --tenant")
    chosen = run_ids or _select_runs(db, asks=not yes, **filters)
    said = [_cancel(db, run_id, forgiving=not run_ids) for run_id in dict.fromkeys(chosen)]
    if as_json:
        print_json(said)
    for one in () if as_json else said:
        outcome = one["problem"] or _CANCELLED.get(one["status"], "has ended")
        click.echo(f"{one['id']} {outcome}", err=bool(one["problem"]))
    return int(any(one["problem"] for one in said))


def _select_runs(
    db: str, *, statuses: Sequence[str], agent: str | None, tenant: str | None, asks: bool
) -> Sequence[str]:
    """Return the runs that filters select, if the user confirms it."""
    with server_database(db) as connection:
        from ..store.run_queries import RunFilter, newest_runs

        found = newest_runs(connection, RunFilter(agent=agent, statuses=statuses or _ACTIVE), tenant, _MOST)
    if not found:
        click.echo("no such runs", err=True)
    elif asks:
        number = f"{len(found):,} run{'s' * (len(found) != 1)}"
        if not sys.stdin.isatty():
            raise UsageError(f"this would cancel {number}; say --yes to do it")
        for word, many in (("agent", Counter(run.agent for run in found)), ("status", Counter(map(label, found)))):
            parts = ", ".join(f"{count:,} {clean(name)}" for name, count in many.most_common(8))
            click.echo(f"  {click.style(word.ljust(8), dim=True)}{parts}", err=True)
        click.confirm(f"Cancel {number}?", abort=True, err=True)
    return [run.id for run in found]


def _cancel(db: str, run_id: str, *, forgiving: bool) -> dict[str, str]:
    """Cancel a run. With `forgiving`, one that has ended meanwhile is no problem."""
    with _change(db) as connection:
        from ..server.run_session import cancel_for
        from ..store.run_queries import find_run

        run = find_run(connection, run_id, lock=True)
        if run is None:
            return {"id": run_id[:80], "status": "", "problem": "is no run of this database"}
        problem = ""
        if run.parent_id is not None:
            problem = f"was called by {run.root_id}: cancel that one"
        elif not run.active:
            problem = "" if forgiving else f"has ended: its status is {run.status}"
        elif run.status != "cancelling":
            run = cancel_for(connection, system_user(), run)
    return {"id": run.id, "status": run.status, "problem": problem}


@click.command("resume", short_help="Let runs go on that wait for an answer, or are suspended.")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--suspended", is_flag=True, help="Instead of RUN: all runs that are suspended.")
@click.option("--approve", multiple=True, metavar="CALL", help="Let a call be made. May be repeated.")
@click.option("--reject", multiple=True, metavar="CALL[=WHY]", help="Do not let it be made.")
@click.option("--respond", multiple=True, metavar="CALL=TEXT", help="Give the call's result yourself.")
@click.option("--regardless", is_flag=True, help="With the agent as it is served now, whatever changed.")
@_TTL_OPTION
@click.option("--json", "as_json", is_flag=True, help="As JSON, a line for each run.")
@DB_OPTION
def resume(
    run_id: str, db: str, as_json: bool, suspended: bool, regardless: bool, run_ttl: int, **given: tuple[str, ...]
) -> int:
    """Let RUN go on. The server does so within a second, or when it is started.

    If RUN waits for a person or its client, answer each call that it waits for (`retinue runs show RUN` lists them), or
    `all`.

    If RUN is suspended because its agent changed, it is suspended again unless the agent is as it was by now. With
    --regardless it goes on with the agent of today: what was done stays done, and the model sees what it did before
    under today's prompt. This can also be said of a run that still waits for a person. With --suspended, all suspended
    runs go on.
    """
    answers = _parse_answers(given)
    if bool(run_id) == suspended:
        raise UsageError("name a run to resume, or say --suspended for all that are suspended")
    for one in _suspended_runs(db) if suspended else (run_id,):
        with _change(db) as connection:
            run = _resume(connection, found_run(connection, one, lock=True), answers, run_ttl, regardless=regardless)
        if as_json:
            click.echo(json.dumps({"id": run.id, "status": run.status}))
            continue
        when = "once a person has decided" if run.status == "requires_action" else "now"
        click.echo(f"{run.id} goes on {when}{', with the agent as it is' if regardless else ''}")
    return 0


def _parse_answers(given: Mapping[str, tuple[str, ...]]) -> Answers:
    """Return what the options say of calls, by the calls' ids."""
    found: dict[str, tuple[str, str]] = {}
    for kind, texts in given.items():
        for said in texts:
            call, equals, text = said.partition("=") if kind != "approve" else (said, "", "")
            if kind == "respond" and (not equals or not call):
                raise UsageError(f"--respond {said[:80]!r}: want CALL=TEXT, such as call_1_0='It rains.'")
            if call in found:
                raise UsageError(f"the call {call[:80]!r} is answered twice")
            found[call] = kind, text
    if _ALL in found and len(found) > 1:
        raise UsageError(f"{_ALL!r} answers all calls, so say nothing of others beside it")
    return found


def _suspended_runs(db: str) -> Sequence[str]:
    with server_database(db) as connection:
        from ..store.run_queries import suspended_runs

        found = [run.id for run in suspended_runs(connection)]
    if not found:
        click.echo("no run is suspended", err=True)
    return found


def _resume(connection: Connection, run: RunRow, answers: Answers, ttl: int, *, regardless: bool) -> RunRow:
    """Let a run go on. Return its new row."""
    from ..runs.submissions import continue_run

    waits = run.status == "requires_action"
    if not waits and not run.suspended:
        if run.active:
            status = f"its status is {run.status!r}, so it goes on by itself"
            raise UsageError(f"the run {run.id} is neither suspended nor waiting: {status}")
        ended = f"the run {run.id} has ended: its status is {run.status!r}"
        raise UsageError(f"{ended}; retinue runs fork {run.id} lets a new one go on from its last step")
    if waits and run.parent_id is not None:
        raise UsageError(f"the run {run.id} was called by {run.root_id}: answer that one")
    if not waits and answers:
        raise UsageError(f"the run {run.id} waits for no answer: it is suspended")
    if waits and not answers and not regardless:
        raise UsageError(f"{_list_calls(run)}; say --approve, --reject or --respond")
    if run.suspended or regardless:
        run = continue_run(connection, run.id, ttl, regardless=regardless)
        record_act(connection, run.tenant, "run.continued", run.id, {"regardless": int(regardless)})
    return _answer(connection, run, answers, ttl) if answers else run


def _answer(connection: Connection, run: RunRow, answers: Answers, ttl: int) -> RunRow:
    """Answer all calls that a run waits for."""
    from ..runs.status import pending_calls
    from ..server.agents.overrides import inner_name
    from ..server.http.api_errors import ApiError
    from ..server.http.objects import call_id
    from ..server.run_session import answer_as_client

    waiting = pending_calls(run)
    ids = [one.action.id for one in waiting]
    if _ALL in answers:
        answers = dict.fromkeys(ids, answers[_ALL])
    if set(answers) != set(ids):
        raise UsageError(f"{_list_calls(run)}; answer each of these calls, and no other")
    functions = (one.get("function") for one in run.request.get("tools") or ())
    of_client = {inner_name(one["name"]) for one in functions if one}
    outputs = []
    for action, _, asked in waiting:
        kind, text = answers[action.id]
        if action.tool not in of_client:
            text = json.dumps({"decision": kind, "message": text})
        elif kind != "respond":
            raise UsageError(f"{action.id} is a function of the run's client: give its result with --respond")
        outputs.append((call_id(run.id, action.id, asked), text))
    try:
        return answer_as_client(connection, system_user(), run, outputs, ttl)[0]
    except ApiError as error:
        raise UsageError(f"the run {run.id} does not take this answer: {error}") from error


def _list_calls(run: RunRow) -> str:
    """Say which calls a run waits for."""
    calls = (
        f"{one['id']} ({clean(one['tool'])} {json.dumps(one['arguments'], ensure_ascii=False)[:120]})"
        for one in run.waiting
    )
    return f"the run {run.id} waits for an answer to {clean(', '.join(calls))}"


@click.command("fork", short_help="Go on from any step, differently.")
@click.argument("run_id", metavar="RUN")
@click.option("--step", type=click.IntRange(0), help="The last step that is kept; 0 keeps only the question.")
@click.option(
    "--observation",
    "observations",
    multiple=True,
    metavar="CALL=TEXT",
    help="What the call CALL brought instead: a text, or @FILE with it. May be repeated.",
)
@click.option("--instructions", metavar="TEXT", help="Other instructions; the agent's own are added.")
@click.option("--model", metavar="NAME", help="Another agent of the server, which goes on.")
@click.option("--without-tool", "without", multiple=True, metavar="NAME", help="Leave a tool out. May be repeated.")
@_TTL_OPTION
@DB_OPTION
def fork(run_id: str, db: str, run_ttl: int, **given: Any) -> int:
    """Let a new run go on from where RUN was, with the agent as it is served now.

    The new run begins with the log of RUN up to the end of a step: the last one, or the one before the answer. What was
    done until then stays done. RUN stays as it is, unless it was suspended: then it is cancelled, and the new run takes
    its place. The server drives the new run within a second, or when it is started.
    """
    observations = dict(_parse_observation(one) for one in given["observations"])
    with _change(db) as connection:
        from ..run.fork import ForkPoint
        from ..runs.run_fork import ForkEdits, fork_run
        from ..store.run_queries import find_run

        point = ForkPoint(given["step"], observations, given["instructions"])
        new = fork_run(connection, run_id, run_ttl, ForkEdits(point, given["model"], without_tools=given["without"]))
        record_act(connection, new.tenant, "run.forked", new.id, {"from": run_id})
        old = find_run(connection, run_id)
    if old is not None and new.kind != "fork":
        click.echo(f"{new.id} goes on in place of {run_id}, which is cancelled")
    else:
        click.echo(f"{new.id} goes on after step {new.request['forked_from']['step']} of {run_id}")
    return 0


def _parse_observation(said: str) -> tuple[str, str]:
    call, equals, text = said.partition("=")
    if not equals or not call:
        raise UsageError(f"--observation {said[:80]!r}: want CALL=TEXT, such as call_1_0='It rains.'")
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--observation {call}: cannot read {text[1:]}: {error}") from error
    if len(text) > _MOST_TEXT:
        raise UsageError(f"--observation {call}: the text has {len(text):,} characters; the most is {_MOST_TEXT:,}")
    return call, text


@click.command("export", short_help="Print a run as JSON.")
@click.argument("run_id", metavar="RUN")
@DB_OPTION
def export(run_id: str, db: str) -> int:
    """Print RUN as JSON, with all that it did and the runs of its members: retinue runs export RUN > run.json.

    It has the agents' prompts, and whatever the tools gave: look at it before you give it to others.
    """
    with server_database(db) as connection:
        from ..runs.run_export import export_run

        run = found_run(connection, run_id)
        exported = json.dumps(export_run(connection, run), indent=1, ensure_ascii=False)
        record_act(connection, run.tenant, "run.exported", run.id, {"prompts": 1})
    click.echo(exported)  # after its entry is written
    return 0


@click.command("import", short_help="Store an exported run.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--tenant", default="default", show_default=True, help="Whose it is from then on.")
@DB_OPTION
def import_(file: Path, tenant: str, db: str) -> int:
    """Store the exported run in FILE (-: standard input) under a new id, to be looked at. It is never driven."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8", errors="replace")
    with server_database(db, new=True) as connection:
        from ..runs.run_export import import_runs, imported_runs, parse_export

        run = import_runs(connection, imported_runs(parse_export(text), tenant))
        record_act(connection, tenant, "run.imported", run.id)
    click.echo(f"{run.id} is what {run.request['imported_from']['run_id']} was")
    return 0
