"""`retinue runs export`, `import` and `pin`: runs as files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from .._internal.redaction import register_named_secrets
from ..errors import UsageError
from .recorded_runs import RecordedRun, run_of_file, runs_of_database
from .server_database import DB_OPTION, server_database

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
_TEST_NAME = "test_pinned_runs.py"


@click.command("export", short_help="Print a run as JSON.")
@click.argument("run_id", metavar="RUN")
@DB_OPTION
def export(run_id: str, db: str) -> int:
    """Print RUN as JSON, with all that it did and the runs of its members: retinue runs export RUN > run.json.

    It has the agents' prompts, and whatever the tools gave: look at it before you give it to others.
    """
    with server_database(db) as connection:
        from ..runs.run_export import export_run
        from ..store.audit_author import system_user
        from ..store.audit_log import record
        from ..store.run_queries import find_run

        run = find_run(connection, run_id)
        if run is None:
            raise UsageError(f"there is no run {run_id[:80]!r}; retinue runs list shows those that there are")
        exported = json.dumps(export_run(connection, run), indent=1, ensure_ascii=False)
        record(connection, system_user(), run.tenant, "run.exported", run.id, {"prompts": 1})
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
        from ..store.audit_author import system_user
        from ..store.audit_log import record

        run = import_runs(connection, imported_runs(parse_export(text), tenant))
        record(connection, system_user(), tenant, "run.imported", run.id)
    click.echo(f"{run.id} is what {run.request['imported_from']['run_id']} was")
    return 0


@click.command("pin", short_help="Keep a run as a test.")
@click.argument("run", metavar="RUN")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
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
    recorded = run_of_file(Path(run)) if Path(run).is_file() else runs_of_database(db, run)
    if not recorded:
        raise UsageError(f"the run {run} has not begun, so there is nothing to pin")
    top, *members = recorded
    pinned = PinnedRun(
        top.agent.rpartition("/")[2],
        [one.event for one in top.log],
        {one.path: [numbered.event for numbered in one.log] for one in members},
        top.kept,
    )
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{_stem(name, top)}.json"
    pinned.write(path)
    click.echo(f"wrote {path}")
    _write_test(output, file)
    return 0


def _stem(name: str | None, run: RecordedRun) -> str:
    stem = name or (Path(run.name).stem if run.row is None else run.name)
    if not stem or Path(stem).name != stem:
        raise UsageError(f"--name {stem[:80]!r}: want the name of a file, without a folder")
    return stem


def _write_test(output: Path, file: Path | None) -> None:
    """Write a test of the pinned runs in a folder, unless there is one, or say what one looks like."""
    tests: list[Any] = [one for one in output.glob("test_*.py") if "pinned_run" in one.read_text("utf-8", "replace")]
    if tests:
        return
    if file is None:
        click.echo(
            "a test of it: def test_it(pinned_run): pinned_run(PATH, agent)   (with FILE, it is written for you)"
        )
        return
    test = output / _TEST_NAME
    test.write_text(_TEST.format(agents=os.path.relpath(file.resolve(), output.resolve())), "utf-8")
    click.echo(f"wrote {test}")
