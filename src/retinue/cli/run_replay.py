"""`retinue runs replay` and `pin`: whether today's agents still decide as recorded runs did."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._internal.message_text import suggest_name
from .._internal.redaction import register_named_secrets
from .._internal.sync_bridge import run_to_completion
from ..config.agent_code import Target
from ..core.events import find_started
from ..display.terminal import clean
from ..errors import DataError, UsageError
from ..run.recorded_effects import NumberedEvent, number_events
from ..run.replay import Recording, Replay, replay_run
from .option_types import AGENTS, NEW_FOLDER, PATH
from .output import print_json
from .run_output import read_lines
from .server_database import DB_OPTION, JSON_OPTION, found_run, server_database

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..agent import Agent
    from ..store.run_row import RunRow

_HOSTED = ("file_search", "code_interpreter")  # tools of a server, which a file does not have
_MOST_BYTES = 100_000_000
_TEST = '''"""Each pinned run beside this file is decided by today's agents as it was when it was recorded."""

from pathlib import Path

import pytest

from retinue import Agent

HERE = Path(__file__).parent
AGENTS = HERE / {agents!r}


@pytest.mark.parametrize("path", sorted(HERE.glob("*.json")), ids=lambda path: path.stem)
def test_a_pinned_run_is_decided_as_before(path, pinned_run):
    pinned_run(path, lambda name: Agent.load_from_yaml(AGENTS, name))
'''


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that is recorded.

    Args:
        name: How it is told from others.
        agent: The path of its agent.
        log: Its events.
        row: Its row, if it is of a database.
        kept: The last step that was another run's, of which it is a fork; -1 if there is none.
        path: That of its call, if it is a member's: `call_1_0/call_2_0`.
        is_anonymous: Whether the log may be of an agent under another name than that in the file.
    """

    name: str
    agent: str
    log: Sequence[NumberedEvent]
    row: RunRow | None = None
    kept: int = -1
    path: str = ""
    is_anonymous: bool = False

    async def replay(self, agent: Agent) -> Replay:
        """Replay it with `agent`, as the run's request wanted it."""
        spec = (agent if self.row is None else _adapt_agent(agent, self.row)).run_spec()
        return await replay_run(spec, Recording(self.log, spec.budget, kept=self.kept))


def _adapt_agent(agent: Agent, run: RunRow) -> Agent:
    """Return the agent as the run's request wanted it. Raises `UsageError` for tools that only a server has."""
    from ..server.agent_resolver import within_budget
    from ..server.agents.overrides import override_agent

    request: Any = run.request
    if hosted := [one["type"] for one in request.get("tools") or () if one.get("type") in _HOSTED]:
        there = f"replay it there, by POST /v1/runs/{run.id}/replay"
        raise UsageError(f"the run {run.id} had the server's own tool {hosted[0]!r}: {there}")
    if "budget" in request:  # a member's
        agent = within_budget(agent, request["budget"])
    return agent if run.kind == "member" and "budget" in request else override_agent(agent, request)


def _read_runs(run: str, db: str) -> list[RecordedRun]:
    """Return the run with this id in a database, or in this file, and those of its members, top first."""
    path = Path(run)
    if not path.is_file():
        with server_database(db) as connection:
            return list(_read_stored(connection, found_run(connection, run)))
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path}: the file is larger than {_MOST_BYTES:,} bytes")
    text = path.read_text("utf-8", errors="replace")
    if '"run.export"' in text[:200]:
        try:
            return list(_read_export(text, path))
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
    events = [line.event for line in read_lines(text.splitlines(), run) if not line.path]
    started = find_started(events)
    if started is None:
        raise DataError(f"{path}: want the JSON lines of a run, which begin with the event 'started'")
    return [RecordedRun(run, started.agent, number_events(events), is_anonymous=True)]


def _read_stored(connection: Connection, run: RunRow, path: str = "") -> Iterator[RecordedRun]:
    from ..store.event_log import read_events
    from ..store.run_queries import member_runs

    log = [NumberedEvent(entry.seq, entry.event) for entry in read_events(connection, run.id)]
    origin = (run.request.get("imported_from") or run.request).get("forked_from") or {"step": -1}
    if log:
        yield RecordedRun(run.id, run.agent, log, run, origin["step"], path)
    for member in member_runs(connection, run.id):
        yield from _read_stored(connection, member, f"{path}/{member.call_id}".lstrip("/"))


def _read_export(text: str, path: Path) -> Iterator[RecordedRun]:
    from ..runs.run_export import events_of, parse_export

    for place, one in parse_export(text).each():
        yield RecordedRun(
            f"{path}{f' ({place})' if place else ''}",
            one.run.model,
            [NumberedEvent(entry.seq, entry.event) for entry in events_of(one)],
            kept=-1 if one.run.forked_from is None else one.run.forked_from.step,
            path=place,
            is_anonymous=not place,
        )


@click.command("replay", short_help="Say what is decided otherwise by now.")
@click.argument("run", metavar="RUN")
@click.argument("file", type=AGENTS)
@click.option("--agent", help="Replay it with this agent of FILE.  [default: that of the same name]")
@click.option("--members/--no-members", default=True, show_default=True, help="Also the runs of a team's members.")
@click.option("--requests", is_flag=True, help="Show what the log does not hold of each request to the model.")
@JSON_OPTION
@DB_OPTION
def replay(run: str, file: Target, db: str, agent: str | None, **shown: bool) -> int:
    """Run RUN again from its log with the agents of FILE, and say where they decide otherwise.

    RUN is the id of a run in --db, or a file: JSON lines of `retinue ask --json`, or a run that was exported. No model
    is asked, and no tool is called. The exit status is 0 if everything is asked, decided and answered as before, and 1
    if not.
    """
    from ..server.agents.deployment import Deployment

    agents = Deployment.load(file).agents
    recorded = _read_runs(run, db)[: None if shown["members"] else 1]
    found = [(one, run_to_completion(one.replay(_choose_agent(agents, one, agent)))) for one in recorded]
    if shown["as_json"]:
        print_json([
            {
                "run": one.name,
                "agrees": outcome.agrees,
                "differs": None if outcome.differs is None else asdict(outcome.differs),
                "requests": [asdict(request) for request in outcome.requests],
            }
            for one, outcome in found
        ])  # fmt: skip
    for one, outcome in () if shown["as_json"] else found:
        _show_replay(one, outcome)
        if shown["requests"]:
            _show_requests(outcome)
    return 0 if all(outcome.agrees for _, outcome in found) else 1


def _choose_agent(agents: Mapping[str, Agent], run: RecordedRun, name: str | None) -> Agent:
    try:
        from ..runs.agent_versions import agent_at
    except ModuleNotFoundError as error:
        raise UsageError("replaying a run needs the extra 'server': pip install 'retinue[server]'") from error
    path = run.agent if name is None else "/".join([name, *run.agent.split("/")[1:]])
    agent = agent_at(agents, path)
    if agent is None and name is None and len(agents) == 1 and run.is_anonymous:
        return next(iter(agents.values()))
    if agent is None:
        raise UsageError(f"the file has no agent {path[:80]!r}; {suggest_name(path, agents)}")
    return agent


def _show_replay(run: RecordedRun, found: Replay) -> None:
    title = click.style(run.name, bold=True)
    if found.differs is None:
        asked = f"{len(found.requests)} request{'s' * (len(found.requests) != 1)} to the model"
        click.echo(f"{title} {click.style('agrees', fg='green')}: {len(found.events)} events, {asked}")
        return
    where = f"event {found.differs.event}, step {found.differs.step}"
    click.echo(f"{title} {click.style('differs', fg='red')} at {where}")
    for line in found.differs.diff():
        click.secho(f"  {clean(line)}", fg={"-": "red", "+": "green"}.get(line[:1]))


def _show_requests(found: Replay) -> None:
    last = None
    for one in found.requests:
        click.secho(f"  event {one.event}, step {one.step}", bold=True)
        most = str(one.max_tokens or "")
        for name, value in (("stop", _join(one.stop)), ("tools", _join(one.tools)), ("most", most)):
            if value:
                click.echo(f"    {name:8}{clean(value)}")
        grammar = "the same grammar" if one.pattern == last and last else one.pattern or ""
        for line in grammar.splitlines():
            click.secho(f"    {clean(line)}", dim=True)
        last = one.pattern


def _join(values: Sequence[str] | None) -> str:
    return ", ".join(map(repr, values or ()))


@click.command("pin", short_help="Keep a run as a test.")
@click.argument("run", metavar="RUN")
@click.argument("file", type=PATH, required=False)
@click.option(
    "-o",
    "--output",
    type=NEW_FOLDER,
    default=Path("tests/runs"),
    show_default=True,
    help="The folder that it is written to.",
)
@click.option("--name", help="What the file is called, without .json.  [default: the run's id]")
@DB_OPTION
def pin(run: str, file: Path | None, output: Path, name: str | None, db: str) -> int:
    """Keep RUN as a test: whether the agents still decide as it did, without a model or a tool.

    RUN is the id of a run in --db, or a file, as for `retinue runs replay`. With the FILE of the agents, a test is
    written beside it, unless there is one. Secrets of this machine's environment, and what looks like one, are left
    out.
    """
    from ..run.pin import PinnedRun

    register_named_secrets(os.environ)
    recorded = _read_runs(run, db)
    if not recorded:
        raise UsageError(f"the run {run} has not begun, so there is nothing to pin")
    top, *members = recorded
    pinned = PinnedRun(
        top.agent.rpartition("/")[2],
        [one.event for one in top.log],
        {one.path: [numbered.event for numbered in one.log] for one in members},
        top.kept,
    )
    stem = name or (Path(top.name).stem if top.row is None else top.name)
    if not stem or Path(stem).name != stem:
        raise UsageError(f"--name {stem[:80]!r}: want the name of a file, without a folder")
    output.mkdir(parents=True, exist_ok=True)
    pinned.write(output / f"{stem}.json")
    click.echo(f"wrote {output / f'{stem}.json'}")
    if any("pinned_run" in one.read_text("utf-8", "replace") for one in output.glob("test_*.py")):
        return 0
    if file is None:
        says = "a test of it: def test_it(pinned_run): pinned_run(PATH, agent)"
        click.echo(f"{says}   (with FILE, it is written for you)")
        return 0
    test = output / "test_pinned_runs.py"
    test.write_text(_TEST.format(agents=os.path.relpath(file.resolve(), output.resolve())), "utf-8")
    click.echo(f"wrote {test}")
    return 0
