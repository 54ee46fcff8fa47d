"""`retinue runs cancel` and `retinue runs resume`, beside the real server that drives the runs, on both databases."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fakes.postgres import Postgres
from fakes.served import Served, serving
from fakes.until import until
from retinue.cli import main

FILE = """
retinue: 1
tools:
  pay: {description: Pays., callable_api: "tools.py:pay", approval: true}
  hang: {description: Hangs., callable_api: "tools.py:hang"}
agents:
  - name: payer
    params:
      strategy: tool_calling
      script:
        - {when: "^twice$", call: [{tool: pay, input: {to: Ann}}, {tool: pay, input: {to: Bob}}]}
        - {when: "^pay$", call: {tool: pay, input: {to: Ann}}}
        - {when: "^hang$", call: {tool: hang, input: {}}}
        - {when: "", say: "Finished."}
      tools: [pay, hang]
  - name: asker
    params:
      strategy: tool_calling
      script:
        - {when: "18", say: "It is 18 there."}
        - {when: "", call: {tool: weather, input: {city: Oslo}}}
  - name: boss
    params:
      strategy: tool_calling
      script:
        - {when: "Finished", say: "Done, they say."}
        - {when: "hang", call: {tool: payer, input: {query: hang}}}
        - {when: "", call: {tool: payer, input: {query: pay}}}
      tools: [{name: payer, pipeline_or_node: payer, description: pays}]
"""
TOOLS = """
import asyncio
from pathlib import Path

def pay(to: str) -> str:
    "Pays."
    return f"paid {to}"

async def hang() -> str:
    "Never returns."
    here = Path(__file__).parent
    with (here / "begun").open("a") as file:
        file.write("x")
    try:
        await asyncio.Event().wait()
    finally:
        with (here / "interrupted").open("a") as file:
            file.write("x")
    return ""
"""
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


class Done(NamedTuple):
    """What a command left."""

    status: int
    stdout: str
    stderr: str


class Office:
    """A server, and the commands for its database, which run in another process than the server's."""

    def __init__(self, served: Served, folder: Path, db: str) -> None:
        self.served = served
        self.folder = folder
        self.db = db

    def run(self, *words: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(["runs", *words, "--db", self.db])
        return Done(status, out.getvalue(), err.getvalue())

    def shown(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("show", run, "--json").stdout)
        return found

    def is_(self, run: str, status: str) -> dict[str, Any]:
        """Wait until a run has a status; what it is then."""
        until(lambda: self.shown(run)["status"] == status)
        return self.shown(run)

    def begun(self, agent: str, text: str, status: str = "requires_action", **more: Any) -> str:
        """Begin a run that is kept; its id once it has that status."""
        before = {one["id"] for one in self.listed()}
        with self.served.client() as client:
            client.responses.create(model=agent, input=text, background=True, **more)
        (run,) = {one["id"] for one in self.listed()} - before
        self.is_(run, status)
        return str(run)

    def hanging(self, agent: str = "payer") -> str:
        """Begin a run whose tool, or whose member's tool, does not return."""
        before = self.count("begun")
        run = self.begun(agent, "hang", "in_progress")
        until(lambda: self.count("begun") > before)
        return run

    def listed(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("list", "--limit", "1000", "--json", *words).stdout)
        return found

    def count(self, name: str) -> int:
        file = self.folder / name
        return len(file.read_text()) if file.exists() else 0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def on_both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    (folder / "tools.py").write_text(TOOLS)
    words: list[str] = []
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("a_postgres")
        words = ["--db", server.database()]
    with serving(folder, FILE, args=words) as served:
        yield Office(served, folder, words[-1] if words else str(served.db))


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_another_process_drives_is_interrupted(on_both: Office) -> None:
    run, before = on_both.hanging(), on_both.count("interrupted")
    assert on_both.run("cancel", run) == (0, f"{run} is being cancelled\n", "")
    on_both.is_(run, "cancelled")
    until(lambda: on_both.count("interrupted") > before)
    again = on_both.run("cancel", run)
    assert again == (1, "", f"{run} has ended: its status is cancelled\n")


def test_a_member_is_cancelled_with_its_caller_and_not_alone(on_both: Office) -> None:
    boss, before = on_both.hanging("boss"), on_both.count("interrupted")
    (member,) = on_both.shown(boss)["members"]
    alone = on_both.run("cancel", member)
    assert alone == (1, "", f"{member} was called by {boss}: cancel that one\n")
    assert on_both.shown(member)["status"] == "in_progress"
    assert on_both.run("cancel", boss).status == 0
    on_both.is_(boss, "cancelled")
    on_both.is_(member, "cancelled")
    until(lambda: on_both.count("interrupted") > before)


def test_a_run_that_waits_is_cancelled_at_once_with_its_members(on_both: Office) -> None:
    boss = on_both.begun("boss", "go")
    (member,) = on_both.shown(boss)["members"]
    assert on_both.run("cancel", boss) == (0, f"{boss} is cancelled\n", "")
    assert on_both.shown(boss)["status"] == "cancelled"
    on_both.is_(member, "cancelled")


def test_each_of_several_is_told_of_as_json(on_both: Office) -> None:
    waits, ended = on_both.begun("payer", "pay"), on_both.begun("payer", "Hello", "completed")
    done = on_both.run("cancel", waits, ended, "run_none", waits, "--json")
    assert (done.status, done.stderr) == (1, "")
    assert json.loads(done.stdout) == [
        {"id": waits, "status": "cancelled", "problem": ""},
        {"id": ended, "status": "completed", "problem": "has ended: its status is completed"},
        {"id": "run_none", "status": "", "problem": "is no run of this database"},
    ]


def test_all_of_a_status_and_agent_are_cancelled_and_no_others(on_both: Office) -> None:
    on_both.run("cancel", "--status", "requires_action", "--yes")
    payers, other = {on_both.begun("payer", "pay") for _ in range(2)}, on_both.begun("boss", "go")
    select = ("cancel", "--status", "requires_action", "--agent", "payer")
    asked = on_both.run(*select)  # no terminal, in which to confirm it
    assert (asked.status, asked.stdout) == (2, "")
    assert "this would cancel 2 runs; say --yes to do it" in asked.stderr
    assert {on_both.shown(run)["status"] for run in payers} == {"requires_action"}
    done = on_both.run(*select, "--yes")
    assert (done.status, set(done.stdout.splitlines())) == (0, {f"{run} is cancelled" for run in payers})
    assert on_both.run(*select, "--yes") == (0, "", "no such runs\n")
    assert on_both.run("cancel", "--tenant", "nobody", "--yes") == (0, "", "no such runs\n")
    assert on_both.shown(other)["status"] == "requires_action"


@pytest.mark.parametrize(("typed", "status"), [("y", "cancelled"), ("n", "requires_action"), ("", "requires_action")])
def test_what_would_be_cancelled_is_shown_and_confirmed(
    on_both: Office, typed: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_both.run("cancel", "--status", "requires_action", "--yes")
    run = on_both.begun("payer", "pay")
    ours, terminal = os.openpty()
    with os.fdopen(terminal) as stdin, os.fdopen(ours, "w") as keyboard:
        monkeypatch.setattr(sys, "stdin", stdin)
        print(typed, file=keyboard, flush=True)
        done = on_both.run("cancel", "--status", "requires_action")
    assert "agent   1 payer\n" in done.stderr
    assert "status  1 requires_action\n" in done.stderr
    assert "Cancel 1 run? [y/N]: " in done.stderr
    assert on_both.shown(run)["status"] == status
    assert (done.status == 0) == (typed == "y")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), ("run_1", "--status", "queued"), ("run_1", "--agent", "payer")])
def test_runs_are_chosen_by_id_or_by_what_they_share(on_both: Office, words: tuple[str, ...]) -> None:
    done = on_both.run("cancel", *words)
    assert (done.status, "by their ids, or all of a --status, --agent or --tenant" in done.stderr) == (2, True)


# ── resume ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (("--approve", "call_1_0"), "paid Ann"),
        (("--approve", "all"), "paid Ann"),
        (("--reject", "call_1_0"), "rejected"),
        (("--reject", "call_1_0=Too much."), "Too much."),
        (("--respond", "call_1_0=It is = paid."), "It is = paid."),
    ],
)
def test_a_call_is_decided_on_and_the_run_goes_on(on_both: Office, answer: tuple[str, ...], seen: str) -> None:
    run = on_both.begun("payer", "pay")
    done = on_both.run("resume", run, *answer)
    assert done == (0, f"{run} goes on now\n", "")
    on_both.is_(run, "completed")
    assert seen in on_both.run("export", run).stdout
    again = on_both.run("resume", run, *answer)
    assert (again.status, f"the run {run} has ended" in again.stderr) == (2, True)


def test_a_decision_as_json(on_both: Office) -> None:
    run = on_both.begun("payer", "pay")
    done = on_both.run("resume", run, "--approve", "all", "--json")
    assert (done.status, json.loads(done.stdout)) == (0, {"id": run, "status": "queued"})
    on_both.is_(run, "completed")


def test_two_calls_are_both_decided_on_or_neither(on_both: Office) -> None:
    run = on_both.begun("payer", "twice")
    for words in ((), ("--approve", "call_1_0"), ("--approve", "call_1_0", "--approve", "call_9_9")):
        done = on_both.run("resume", run, *words)
        assert done.status == 2
        for part in ("call_1_0 (pay", "call_1_1 (pay", "Bob"):
            assert part in done.stderr
    assert on_both.shown(run)["status"] == "requires_action"
    assert on_both.run("resume", run, "--approve", "call_1_0", "--reject", "call_1_1=Not him.").status == 0
    on_both.is_(run, "completed")
    text = on_both.run("export", run).stdout
    assert ("paid Ann" in text, "paid Bob" in text, "Not him." in text) == (True, False, True)


def test_a_members_call_is_answered_at_the_run_that_called_it(on_both: Office) -> None:
    boss = on_both.begun("boss", "go")
    (member,) = on_both.shown(boss)["members"]
    wrong = on_both.run("resume", member, "--approve", "all")
    assert (wrong.status, f"was called by {boss}: answer that one" in wrong.stderr) == (2, True)
    assert on_both.run("resume", boss, "--approve", "all").status == 0
    assert on_both.is_(boss, "completed")["answer"] == "Done, they say."
    assert "paid Ann" in on_both.run("export", member).stdout


def test_a_clients_function_takes_a_result_and_no_decision(on_both: Office) -> None:
    run = on_both.begun("asker", "What is it like in Oslo?", tools=[WEATHER])
    for answer in ("--approve", "--reject"):
        done = on_both.run("resume", run, answer, "all")
        assert (done.status, "give its result with --respond" in done.stderr) == (2, True)
    assert on_both.run("resume", run, "--respond", "all=18 degrees").status == 0
    assert on_both.is_(run, "completed")["answer"] == "It is 18 there."


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--respond", "call_1_0"), "want CALL=TEXT"),
        (("--respond", "=text"), "want CALL=TEXT"),
        (("--approve", "call_1_0", "--reject", "call_1_0"), "is answered twice"),
        (("--approve", "all", "--reject", "call_1_0"), "'all' answers all calls"),
        (("--run-ttl", "0"), "0 is not in the range"),
    ],
)
def test_an_answer_that_makes_no_sense_changes_nothing(on_both: Office, words: tuple[str, ...], problem: str) -> None:
    done = on_both.run("resume", "run_any", *words)
    assert (done.status, problem in done.stderr, "Traceback" in done.stderr) == (2, True, False)


def test_what_does_not_wait_is_not_resumed(on_both: Office) -> None:
    none = on_both.run("resume", "run_none", "--approve", "all")
    assert (none.status, "there is no run 'run_none'" in none.stderr) == (2, True)
    run = on_both.hanging()
    done = on_both.run("resume", run, "--approve", "all")
    assert (done.status, "neither suspended nor waiting" in done.stderr) == (2, True)
    assert on_both.run("cancel", run).status == 0


def test_who_did_it_is_in_the_audit_log(on_both: Office) -> None:
    waits, other = on_both.begun("payer", "pay"), on_both.begun("payer", "pay")
    on_both.run("resume", waits, "--approve", "all")
    on_both.run("cancel", other)
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["audit", "list", "--json", "--db", on_both.db]) == 0
    said = out.getvalue()
    for run, act in ((waits, "call.approve"), (other, "run.cancelled")):
        assert [line for line in said.splitlines() if run in line or act in line]
