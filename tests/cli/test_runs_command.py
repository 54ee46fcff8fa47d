"""`retinue runs`: the runs of a server's database are listed, forked, replayed, exported and pinned while it runs."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fakes.served import KEY, Served, serving
from fakes.until import until
from retinue.cli import main

FILE = """
retinue: 1
agents:
  - name: sums
    params:
      strategy: react
      instructions: You are careful with numbers.
      script:
        - {when: "nine", finish: "It is nine."}
        - {when: "^4", finish: "It is 4."}
        - {when: "", call: {tool: calculator, input: "2+2"}}
      tools: [calculator]
"""
TEAM = """
  - name: boss
    params:
      strategy: react
      script:
        - {when: "It is 4", finish: "Four, they say."}
        - {when: "", call: {tool: sums, input: "What is 2+2?"}}
      tools: [{name: sums, pipeline_or_node: sums, description: adds}]
"""
QUESTION = "What is 2+2?"
pytest_plugins = ["pytester"]


class Done(NamedTuple):
    """What a command left."""

    status: int
    stdout: str
    stderr: str


def command(*words: str) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["runs", *words])
    return Done(status, out.getvalue(), err.getvalue())


class Shop:
    """A server with one run of `sums`, one of `boss`, and the command for its database."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self.file = folder / "agents.yml"
        self.db = ["--db", str(served.db)]
        with served.client() as client:
            for model in ("sums", "boss"):
                client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": QUESTION}], store=True
                )
        self.boss, self.sums = (one["id"] for one in self.listed())

    def listed(self, *words: str) -> list[dict[str, Any]]:
        done = self.said("list", "--json", *words)
        found: list[dict[str, Any]] = json.loads(done)
        return found

    def said(self, *words: str, status: int = 0) -> str:
        done = self.run(*words)
        assert done.status == status, done.stderr
        return done.stdout

    def run(self, *words: str) -> Done:
        return command(*words, *self.db)

    def ended(self, run_id: str) -> dict[str, Any]:
        until(lambda: json.loads(self.said("show", run_id, "--json"))["status"] == "completed")
        found: dict[str, Any] = json.loads(self.said("show", run_id, "--json"))
        return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with serving(folder, FILE + TEAM) as served:
        yield Shop(served, folder)


def test_runs_are_listed_newest_first_without_members(shop: Shop) -> None:
    head, *rows = shop.said("list").splitlines()
    assert head.split() == ["RUN", "STATUS", "AGENT", "MADE", "TOOK", "TOKENS", "QUESTION"]
    at = [row.split()[0] for row in rows]
    assert at.index(shop.boss) < at.index(shop.sums)
    assert re.fullmatch(
        rf"{shop.sums}  completed  sums +\d{{4}}-.* +<?\d+s +[\d,]+  What is 2\+2\?", rows[at.index(shop.sums)]
    )
    assert {one["agent"] for one in shop.listed("--agent", "sums")} == {"sums"}
    assert len(shop.listed("--limit", "1")) == 1
    assert shop.listed("--status", "failed") == []
    assert shop.listed("--tenant", "nobody") == []
    assert shop.run("list", "--tenant", "nobody").stderr == "no runs\n"


def test_a_run_is_shown_with_its_members(shop: Shop) -> None:
    said = shop.said("show", shop.boss)
    for part in ("completed", "boss (chat of default)", QUESTION, "Four, they say.", "call_1_0", "retinue trace"):
        assert part in said


def test_a_run_is_forked_and_goes_on_on_the_server(shop: Shop, tmp_path: Path) -> None:
    text = tmp_path / "nine.txt"
    text.write_text("nine")
    said = shop.said("fork", shop.sums, "--observation", f"call_1_0=@{text}")
    fork, where = said.split(" ", 1)
    assert where == f"goes on after step 1 of {shop.sums}\n"
    assert shop.ended(fork)["answer"] == "It is nine."
    assert [one["id"] for one in shop.listed("--forks-of", shop.sums)] == [fork]
    assert f"from {shop.sums}, step 1" in shop.said("show", fork)
    assert fork in shop.said("show", shop.sums)
    assert "agrees: 8 events" in shop.said("replay", fork, str(shop.file))


def test_a_run_is_replayed_and_says_where_it_differs(shop: Shop, tmp_path: Path) -> None:
    whole = shop.said("replay", shop.boss, str(shop.file), "--requests")
    assert whole.count("agrees: 8 events, 2 requests to the model") == 2  # the member's, too
    assert "root ::= " in whole
    assert shop.said("replay", shop.boss, str(shop.file), "--no-members").count("agrees") == 1
    other = tmp_path / "other.yml"
    other.write_text(FILE.replace("careful", "careless"))
    said = shop.said("replay", shop.sums, str(other), status=1)
    assert said.startswith(f"{shop.sums} differs at event 2, step 1\n")
    assert "  - [system] You are careful with numbers.\n  + [system] You are careless with numbers.\n" in said
    (found,) = json.loads(shop.said("replay", shop.sums, str(other), "--json", status=1))
    assert (found["agrees"], found["differs"]["event"], found["differs"]["step"]) == (False, 2, 1)


def test_an_export_is_imported_and_replayed(shop: Shop, tmp_path: Path) -> None:
    file, db = tmp_path / "run.json", ["--db", str(tmp_path / "other.db")]
    file.write_text(shop.said("export", shop.boss))
    assert shop.said("replay", str(file), str(shop.file)).count("agrees") == 2
    assert main(["runs", "import", str(file), *db]) == 0
    assert main(["runs", "list", *db]) == 0


def test_json_lines_are_replayed(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(shop.file), "--agent", "sums", "--json", QUESTION]) == 0
    lines = tmp_path / "run.jsonl"
    lines.write_text(capsys.readouterr().out)
    assert "agrees: 8 events" in shop.said("replay", str(lines), str(shop.file))
    lines.write_text(lines.read_text() + "{}\n")
    assert shop.run("replay", str(lines), str(shop.file)).stderr.startswith(f"retinue: {lines}:9: not an event: '{{}}'")


def test_json_lines_of_a_team_are_replayed(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(shop.file), "--agent", "boss", "--json", QUESTION]) == 0
    lines = tmp_path / "run.jsonl"
    lines.write_text(capsys.readouterr().out)
    assert '"path"' in lines.read_text()
    assert "agrees: 8 events" in shop.said("replay", str(lines), str(shop.file))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "nope"), "there is no run 'nope'; retinue runs list shows those that there are"),
        (("export", "nope"), "there is no run 'nope'"),
        (("fork", "nope"), "there is no run 'nope'"),
        (("fork", "RUN", "--step", "7"), "the run has no step 7: its last one is 2"),
        (("fork", "RUN", "--without-tool", "calclator"), "the run has no tool 'calclator'; did you mean 'calculator'?"),
        (("fork", "RUN", "--observation", "call_1_0"), "--observation 'call_1_0': want CALL=TEXT"),
        (("fork", "RUN", "--observation", "call_1_0=@/no/file"), "--observation call_1_0: cannot read /no/file"),
        (("replay", "nope", "FILE"), "there is no run 'nope'"),
        (("replay", "RUN", "FILE", "--agent", "sum"), "the file has no agent 'sum'; did you mean 'sums'?"),
        (("replay", "FILE", "FILE"), "agents.yml:2: not an event"),
        (("pin", "RUN", "--name", "../x"), "--name '../x': want the name of a file"),
        (("import", "FILE"), "not an exported run"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(shop: Shop, words: tuple[str, ...], said: str) -> None:
    given = {"RUN": shop.sums, "FILE": str(shop.file)}
    done = shop.run(*(given.get(word, word) for word in words))
    assert (done.status, said in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr


def test_a_fork_survives_kill_9(tmp_path: Path) -> None:
    with serving(tmp_path, FILE) as served:
        with served.client() as client:
            client.chat.completions.create(model="sums", messages=[{"role": "user", "content": QUESTION}], store=True)
        words = ["--db", str(served.db)]
        served.stop()
        run = json.loads(command("list", "--json", *words).stdout)[0]["id"]
        served.restart(RETINUE_CRASHPOINT="before reply is written:1")
        fork = command("fork", run, "--observation", "call_1_0=nine", *words).stdout.split()[0]
        until(lambda: served.process.poll() is not None)
        served.kill()
        served.restart()

        def shown() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(command("show", fork, "--json", *words).stdout)
            return found

        until(lambda: shown()["status"] == "completed")
        assert shown()["answer"] == "It is nine."


# ── runs as tests ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those of pytest in a user's folder, with our plugin and without the others that are installed here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "none.ini").touch()
    plugin = ["-p", "retinue.testing.pytest_plugin"]
    return ["-q", "-p", "no:cacheprovider", "-c", f"{tmp_path}/none.ini", f"--rootdir={tmp_path}", *plugin]


@pytest.fixture
def pinned(shop: Shop, tmp_path: Path) -> Path:
    """A user's project with pinned runs."""
    (tmp_path / "agents.yml").write_text(FILE + TEAM)
    output = ["-o", str(tmp_path / "tests" / "runs")]
    said = shop.said("pin", shop.sums, str(tmp_path / "agents.yml"), "--name", "sums", *output)
    assert said.count("wrote ") == 2
    assert shop.said("pin", shop.boss, str(tmp_path / "agents.yml"), "--name", "team", *output).count("wrote ") == 1
    return tmp_path


def test_a_pinned_run_passes_until_the_agent_changes_and_is_accepted_then(
    pinned: Path, pytester: pytest.Pytester, options: list[str]
) -> None:
    def run(*words: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess(*options, str(pinned / "tests"), *words)

    run().assert_outcomes(passed=2)
    file = pinned / "agents.yml"
    file.write_text(file.read_text().replace("careful", "careless"))
    done = run()
    done.assert_outcomes(failed=2)
    said = done.stdout.str()
    assert "the pinned run sums.json is not decided as before: it differs at event 2, step 1:" in said
    assert "  - [system] You are careful with numbers.\n  + [system] You are careless with numbers." in said
    assert "of the member's run call_1_0" in said
    assert "Traceback" not in said
    run("--update-runs").assert_outcomes(passed=2)
    run().assert_outcomes(passed=2)
    assert "careless" in (pinned / "tests/runs/team.json").read_text()


@pytest.mark.full
def test_another_decision_cannot_be_accepted(pinned: Path, options: list[str]) -> None:
    file = pinned / "tests/runs/sums.json"
    before = file.read_text().replace('"tool_input": "2+2"', '"tool_input": "2+3"')
    file.write_text(before)
    words = [sys.executable, "-m", "pytest", *options, "tests", "--update-runs", "-k", "sums"]  # as a user runs it
    done = subprocess.run(words, cwd=pinned, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "event 4 is another decision, whose outcome is not recorded: pin a new run" in done.stdout
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "{", "cannot be read as a pinned run"),
        (lambda text: "[]", "no pinned run of version 1"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "no pinned run of version 1"),
        (lambda text: text.replace('"kept"', '"keptt"'), "a pinned run has the fields agent, events, kept"),
        (lambda text: text.replace('"kind": "asked"', '"kind": "asket"'), "events.1: not an event"),
        (lambda text: text.replace('"kind": "started"', '"kind": "finished"'), "events.0: not an event of kind"),
    ],
)
def test_a_file_that_holds_no_pinned_run_says_so(
    shop: Shop, tmp_path: Path, change: Any, said: str, request: pytest.FixtureRequest
) -> None:
    from retinue.errors import DataError
    from retinue.run.pin import PinnedRun

    shop.said("pin", shop.sums, "--name", "x", "-o", str(tmp_path))
    file = tmp_path / "x.json"
    file.write_text(change(file.read_text()))
    with pytest.raises(DataError) as raised:
        PinnedRun.read(file)
    assert str(raised.value).startswith(str(file))
    assert said in str(raised.value)


def test_secrets_are_not_in_a_pinned_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue import Agent, PromptModel, Tool
    from retinue.core.serialization import to_json
    from retinue.run.pin import PinnedRun

    shapes = ["sk-" + "a1" * 12, "ghp_" + "b2" * 18, "AKIA" + "C3" * 8, "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"]
    named = "plain-words-of-an-environment"
    look = Tool("look", lambda place: f"{place}: {' '.join(shapes)} {named} https://u:pass@h/", "Look", effects="read")
    script = [{"when": ":", "finish": "Done."}, {"when": "", "call": {"tool": "look", "input": "Rome"}}]
    agent = Agent(PromptModel(script=script), [look], strategy="react", name="a", trace=False)
    lines = tmp_path / "run.jsonl"
    lines.write_text("\n".join(map(to_json, agent.run("How?").events)), "utf-8")
    monkeypatch.setenv("SHOP_API_KEY", named)
    assert main(["runs", "pin", str(lines), "-o", str(tmp_path)]) == 0
    text = (tmp_path / "run.json").read_text()
    for secret in (*shapes, named, "u:pass"):
        assert secret not in text
    assert PinnedRun.read(tmp_path / "run.json").find_problem(agent) == ""


def test_the_plugin_loads_nothing_of_retinue_until_it_is_used() -> None:
    code = """
import sys, retinue.testing.pytest_plugin
cheap = ("_internal", "core", "testing")
own = [name for name in sys.modules if name.startswith("retinue.") and name.split(".")[1] not in cheap]
print(own, "pydantic" in sys.modules, "sqlalchemy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False False\n"


def test_the_plugin_is_declared() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nretinue = "retinue.testing.pytest_plugin"' in text
    assert KEY not in text
