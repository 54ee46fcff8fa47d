"""`retinue runs fork` and `retinue runs replay`: what would have been, and what would be by now."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._internal.message_text import suggest_name
from .._internal.sync_bridge import run_to_completion
from ..display.terminal import clean
from ..errors import StoreConflict, UsageError
from .recorded_runs import RecordedRun, run_of_file, runs_of_database
from .server_database import DB_OPTION, server_database

if TYPE_CHECKING:
    from ..agent import Agent
    from ..run.replay import Replay

_MOST = 1_000_000  # characters of an observation


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
@click.option("--run-ttl", type=click.IntRange(1), default=600, show_default=True, help="Seconds for the run.")
@DB_OPTION
def fork(run_id: str, db: str, run_ttl: int, **given: Any) -> int:
    """Let a new run go on from where RUN was, with the agent as it is served now.

    The new run begins with the log of RUN up to the end of a step: the last one, or the one before the answer. What was
    done until then stays done. RUN stays as it is, unless it was suspended: then it is cancelled, and the new run takes
    its place. The server drives the new run within a second, or when it is started.
    """
    with server_database(db) as connection:
        from ..run.fork import ForkPoint
        from ..runs.run_fork import ForkEdits, fork_run
        from ..store.audit_author import system_user
        from ..store.audit_log import record
        from ..store.run_queries import find_run

        point = ForkPoint(given["step"], _observations(given["observations"]), given["instructions"])
        edits = ForkEdits(point, given["model"], without_tools=given["without"])
        try:
            new = fork_run(connection, run_id, run_ttl, edits)
        except StoreConflict as error:
            raise UsageError(f"{error}; try again") from error
        record(connection, system_user(), new.tenant, "run.forked", new.id, {"from": run_id})
        old = find_run(connection, run_id)
    if old is not None and new.kind != "fork":
        click.echo(f"{new.id} goes on in place of {run_id}, which is cancelled")
    else:
        click.echo(f"{new.id} goes on after step {new.request['forked_from']['step']} of {run_id}")
    return 0


def _observations(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        call, equals, text = one.partition("=")
        if not equals or not call:
            raise UsageError(f"--observation {one[:80]!r}: want CALL=TEXT, such as call_1_0='It rains.'")
        if text.startswith("@"):
            try:
                text = Path(text[1:]).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"--observation {call}: cannot read {text[1:]}: {error}") from error
        if len(text) > _MOST:
            raise UsageError(f"--observation {call}: the text has {len(text):,} characters; the most is {_MOST:,}")
        found[call] = text
    return found


@click.command("replay", short_help="Say what is decided otherwise by now.")
@click.argument("run", metavar="RUN")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--agent", help="Replay it with this agent of FILE.  [default: that of the same name]")
@click.option("--members/--no-members", default=True, show_default=True, help="Also the runs of a team's members.")
@click.option("--requests", is_flag=True, help="Show what the log does not hold of each request to the model.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@DB_OPTION
def replay(run: str, file: Path, db: str, **given: Any) -> int:
    """Run RUN again from its log with the agents of FILE, and say where they decide otherwise.

    RUN is the id of a run in --db, or a file: JSON lines of `retinue ask --json`, or a run that was exported. No model
    is asked, and no tool is called. The exit status is 0 if everything is asked, decided and answered as before, and 1
    if not.
    """
    from ..server.agents.deployment import Deployment

    agents = Deployment.load(file).agents
    recorded = run_of_file(Path(run)) if Path(run).is_file() else runs_of_database(db, run)
    recorded = recorded if given["members"] else recorded[:1]
    found = [(one, run_to_completion(one.replay(_agent(agents, one, given["agent"])))) for one in recorded]
    if given["as_json"]:
        click.echo(json.dumps([_as_json(one, outcome) for one, outcome in found], indent=2, ensure_ascii=False))
    else:
        for one, outcome in found:
            _show(one, outcome, requests=given["requests"])
    return 0 if all(outcome.agrees for _, outcome in found) else 1


def _agent(agents: Mapping[str, Agent], run: RecordedRun, name: str | None) -> Agent:
    try:
        from ..server.agents.agent_versions import agent_at
    except ModuleNotFoundError as error:
        raise UsageError("replaying a run needs the extra 'server': pip install 'retinue[server]'") from error
    path = run.agent if name is None else "/".join([name, *run.agent.split("/")[1:]])
    agent = agent_at(agents, path)
    if agent is None and name is None and len(agents) == 1 and run.is_anonymous:
        return next(iter(agents.values()))
    if agent is None:
        raise UsageError(f"the file has no agent {path[:80]!r}; {suggest_name(path, agents)}")
    return agent


def _show(run: RecordedRun, found: Replay, *, requests: bool) -> None:
    title = click.style(run.name, bold=True)
    if found.differs is None:
        asked = f"{len(found.requests)} request{'s' * (len(found.requests) != 1)} to the model"
        click.echo(f"{title} {click.style('agrees', fg='green')}: {len(found.events)} events, {asked}")
    else:
        where = f"event {found.differs.event}, step {found.differs.step}"
        click.echo(f"{title} {click.style('differs', fg='red')} at {where}")
        for line in found.differs.diff():
            click.echo(click.style(f"  {clean(line)}", fg={"-": "red", "+": "green"}.get(line[:1])))
    last = None
    for one in found.requests if requests else ():
        click.echo(click.style(f"  event {one.event}, step {one.step}", bold=True))
        for name, value in (("stop", one.stop), ("tools", one.tools), ("most", one.max_tokens)):
            if value:
                click.echo(
                    f"    {name:8}{clean(str(value) if isinstance(value, int) else ', '.join(map(repr, value)))}"
                )
        grammar = "the same grammar" if one.pattern == last and last else one.pattern or ""
        for line in grammar.splitlines():
            click.echo(click.style(f"    {clean(line)}", dim=True))
        last = one.pattern


def _as_json(run: RecordedRun, found: Replay) -> dict[str, Any]:
    return {
        "run": run.name,
        "agrees": found.agrees,
        "differs": None if found.differs is None else asdict(found.differs),
        "requests": [asdict(one) for one in found.requests],
    }
