"""`retinue trace`, and the tree of a team: the same live, from lines of --json, and from a server's database."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fakes import command_line
from fakes.openai_server import OpenAIServer
from fakes.served import serving
from fakes.tmux import Terminal
from retinue.store.database import Database

TEAM = """\
retinue: 1
agents:
  - name: boss
    params:
      model: scripted
      script:
        - {when: "522", finish: "2,625,250 in both."}
        - call:
            - {tool: lyon, input: {query: How many live in Lyon?}}
            - {tool: paris, input: {query: How many live in Paris?}}
      strategy: tool_calling
      workers: [lyon, paris]
  - name: lyon
    params:
      model: scripted
      role_description: Knows Lyon.
      script:
        - {when: "522", finish: "522,250 people.", delay: SLOW}
        - {call: {tool: calculator, input: {expression: 522000+250}}, delay: SLOW}
      strategy: tool_calling
      tools: [calculator]
  - name: paris
    params:
      model: scripted
      role_description: Knows Paris.
      script:
        - {when: "2103", finish: "2,103,000 people.", delay: SLOW}
        - {call: {tool: calculator, input: {expression: 2103*1000}}, delay: SLOW}
      strategy: tool_calling
      tools: [calculator]
"""
TREE = """\
boss · tool_calling · scripted · lyon, paris
Question: How many?
├─ step 1
│  ├─ lyon(query="How many live in Lyon?")
│  │  lyon · tool_calling · scripted · calculator
│  │  ├─ step 1
│  │  │  ├─ calculator(expression="522000+250")
│  │  │  │  → 522250 · N s
│  │  │  ╰─ model N s · 24 tokens in, 0 out
│  │  ├─ step 2
│  │  ╰─ Answer: 522,250 people.
│  │     model N s · 25 tokens in, 2 out
│  │  → answered · N s, 49 tokens in, 2 out
│  ├─ paris(query="How many live in Paris?")
│  │  paris · tool_calling · scripted · calculator
│  │  ├─ step 1
│  │  │  ├─ calculator(expression="2103*1000")
│  │  │  │  → 2103000 · N s
│  │  │  ╰─ model N s · 24 tokens in, 0 out
│  │  ├─ step 2
│  │  ╰─ Answer: 2,103,000 people.
│  │     model N s · 25 tokens in, 2 out
│  │  → answered · N s, 49 tokens in, 2 out
│  ╰─ model N s · 19 tokens in, 0 out
├─ step 2
╰─ Answer: 2,625,250 in both.
   model N s · 23 tokens in, 3 out
   6 replies, 1 tool step, N s, 140 tokens in, 7 out
"""


def plainly(shown: str) -> str:
    """A tree without what differs from run to run."""
    shown = re.sub(r" · \d\d:\d\d:\d\d$", "", shown, flags=re.MULTILINE)
    return re.sub(r"N s \(first word after N s\)", "N s", re.sub(r"\d+\.\d s", "N s", shown))


@pytest.fixture
def team(tmp_path: Path) -> Path:
    path = tmp_path / "team.yml"
    path.write_text(TEAM.replace("SLOW", "0"))
    return path


def test_a_tree_is_the_same_live_and_from_the_lines_of_json(team: Path, tmp_path: Path) -> None:
    live = command_line.retinue("run", team, "How many?", "--agent", "boss")
    assert (plainly(live.stdout), live.stderr) == (TREE, "")
    lines = command_line.retinue("run", team, "How many?", "--agent", "boss", "--json").stdout
    (tmp_path / "run.jsonl").write_text(lines)
    shown = command_line.retinue("trace", tmp_path / "run.jsonl").stdout
    assert plainly(shown) == TREE
    assert re.search(r"^├─ step 2 · \d\d:\d\d:\d\d$", shown, re.MULTILINE)
    assert command_line.retinue("trace", tmp_path / "run.jsonl", "--json").stdout == lines
    command = [sys.executable, "-m", "retinue", "trace", "-", "--step", "2"]
    piped = subprocess.run(command, input=lines, capture_output=True, text=True)
    assert plainly(piped.stdout).splitlines()[:2] == ["├─ step 2", "╰─ Answer: 2,625,250 in both."]
    step = command_line.retinue("trace", tmp_path / "run.jsonl", "--step", "1").stdout
    assert plainly(step).splitlines()[:-1] == TREE.splitlines()[2:24]


def test_verbose_shows_each_prompt_and_reply_once_and_word_for_word(team: Path) -> None:
    seen = command_line.retinue("run", team, "How many?", "--agent", "boss", "--verbose").stdout
    asked = '│  user\n│  ┊ How many?\n│  reply\n│  ┊ lyon(query="How many live in Lyon?")\n│  ┊ paris(query='
    assert asked in seen
    assert seen.count("┊ Knows Lyon.") == 1
    assert "│  result of paris (call_1_1)\n│  ┊ 2,103,000 people.\n│  reply\n│  ┊ 2,625,250 in both.\n╰─ Answer" in seen


def test_verbose_shows_the_grammar_to_which_a_reply_is_held_where_it_is_asked_for(server: OpenAIServer) -> None:
    server.owned_by = "llamacpp"
    server.replies += [" I know.\nFinal Answer: done"]
    seen = command_line.retinue("ask", "?", "--base-url", server.url, "--strategy", "react", "--verbose").stdout
    assert re.search(r"│  user\n(│  ┊ .*\n)+│  grammar of the reply\n│  ┊ root ::= .*\n(│  ┊ .*\n)*│  reply\n", seen), (
        seen
    )
    sent = server.requests[-1].body["grammar"]
    assert "".join(f"│  ┊ {line}\n" for line in sent.strip().splitlines()) in seen


@pytest.mark.full
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (34, 24)])
def test_in_a_terminal_the_tree_is_as_wide_as_it(team: Path, width: int, height: int) -> None:
    with Terminal(["run", team, "How many?", "--agent", "boss"], width=width, height=height) as terminal:
        seen = terminal.until("[exit 0]").replace("[exit 0]", "")
    assert all(len(line) <= width for line in seen.splitlines())
    assert "getting ready" not in seen
    assert "works" not in seen
    if width >= 80:
        assert plainly(seen) == TREE
    else:
        assert "".join(plainly(seen).split()).count("answered·Ns") == 2


def test_what_is_under_way_stands_below_the_tree_a_line_each_and_goes(team: Path) -> None:
    team.write_text(re.sub("finish: .*people.*SLOW", "error: hang", TEAM).replace("SLOW", "0"))
    with Terminal(["run", team, "How many?", "--agent", "boss"]) as terminal:
        terminal.until("lyon: the model works")
        seen = terminal.until("paris: the model works")
        assert re.search(r"\n\S lyon: the model works \d+ s\n\S paris: the model works \d+ s$", seen)
        assert "2103000" not in seen  # which is shown where it belongs, once what comes before it is over
        terminal.resize(60, 20)
        terminal.type("", "C-c")
        seen = terminal.until("[exit 130]")
    assert "works" not in seen
    assert seen.index("522250") < seen.index("2103000")
    assert len(re.findall("╰─ Stopped: CANCELLED", seen)) == 3


@pytest.mark.full
def test_a_terminal_without_colours_has_none(team: Path) -> None:
    for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        with Terminal(["run", team, "How many?", "--agent", "boss"], env=env, height=40) as terminal:
            terminal.until("[exit 0]")
            assert ("\x1b[34m" in terminal.shows(colours=True)) is coloured
            assert "→ 522250" in terminal.shows()


# ── a server's runs ──────────────────────────────────────────────────────────────────────────────


def trace(run: str, url: str, *words: str) -> str:
    done = command_line.retinue("trace", run, "--db", url, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_servers_run_is_shown_by_its_ids_while_the_server_runs(any_url: str, tmp_path: Path) -> None:
    with serving(tmp_path, TEAM.replace("SLOW", "0"), args=["--db", any_url]) as server:
        done = server.client().responses.create(model="boss", input="How many?")
        shown = trace(done.id, any_url)
        run = f"run_{done.id.partition('_')[2]}"
        assert trace(run, any_url) == shown
        completion = server.client().chat.completions.create(model="boss", messages=[{"role": "user", "content": "?"}])
        assert "Answer: 2,625,250 in both." in trace(completion.id, any_url)
    head, _, tree = shown.partition("\n")
    assert re.fullmatch(rf"{run} · response · completed · \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", head)
    assert plainly(tree) == TREE
    events = [json.loads(line) for line in trace(run, any_url, "--json").splitlines()]
    assert [one["kind"] for one in events if one.get("path") == "call_1_0"] == [
        *("started", "asked", "replied", "called", "observed", "asked", "replied", "finished")
    ]
    assert [one["at"] for one in events if "path" not in one] == sorted(
        one["at"] for one in events if "path" not in one
    )


def test_a_run_is_followed_to_its_end(url: str, tmp_path: Path) -> None:
    hanging = TEAM.replace('finish: "522,250 people.", delay: SLOW', "error: hang").replace("SLOW", "0")
    with serving(tmp_path, hanging, args=["--db", url]) as server:
        begun = server.client().responses.create(model="boss", input="How many?", background=True)
        with Terminal(["trace", begun.id, "--db", url, "--follow"], height=40) as terminal:
            terminal.until("lyon goes on")
            server.client().responses.cancel(begun.id)
            seen = terminal.until("[exit 0]")
    assert " · in progress · " in seen
    branches = re.findall(r"^[│ ]*╰─ (Stopped: CANCELLED|Answer: .*)$", seen, re.MULTILINE)
    assert branches == ["Stopped: CANCELLED", "Answer: 2,103,000 people.", "Stopped: CANCELLED"]
    assert "goes on" not in seen


def test_what_waits_for_a_person_says_so(url: str, tmp_path: Path) -> None:
    asks = TEAM.replace("tools: [calculator]", "tools: [calculator]\n      require_human_feedback: [calculator]")
    with serving(tmp_path, asks.replace("SLOW", "0"), args=["--db", url]) as server:
        waiting = server.client().responses.create(model="boss", input="How many?")
        seen = trace(waiting.id, url)
    question = "│  │  │  │  waits for a person: calculator runs only with a person's approval\n"
    assert seen.count(question) == 2
    assert seen.count("waits for a person") == 2
    assert "╰─ Stopped: AWAITING_HUMAN: members of the team wait for a person\n" in seen
    assert " · requires action · " in seen


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "nothing is neither the id of a run (run_…, resp_… or chatcmpl-…) nor a file of events"),
        (["PATH/lines", "--follow"], "--follow is for a run of a server, by its id"),
        (["PATH/lines", "--step", "7"], "the run has no step 7; it has the steps 1 to 1"),
        (["PATH/empty"], "the run has no events yet"),
        (["PATH/bad"], "PATH/bad:2: not an event: 'oops' (want a JSON object with one of the kinds"),
        (["PATH/path"], "PATH/path:1: not a line of --json: `path` is text, and `at` is a number of seconds"),
        ([f"run_{'0' * 24}"], "the database retinue.db does not exist; name another with --db"),
        ([f"run_{'0' * 24}", "--db", "PATH/other.db"], "holds tables of another application; give another --db"),
        ([f"run_{'0' * 24}", "--db", "PATH/runs.db"], f"the database PATH/runs.db has no run run_{'0' * 24}"),
        ([f"run_{'0' * 24}", "--db", "mysql://x/y"], "expected sqlite:///FILE or postgresql://USER@HOST/NAME"),
    ],
)
def test_what_cannot_be_shown_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    started = '{"kind": "started", "question": "q", "agent": "a", "strategy": "s", "model": "m", "tools": []}\n'
    asked = '{"kind": "asked", "step": 1, "prompt": 0, "messages": []}\n'
    for name, text in {"lines": started + asked, "empty": "", "bad": f"{started}oops\n"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "path").write_text(started.replace("{", '{"path": 1, '))
    Database(f"sqlite:///{tmp_path}/runs.db").close()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE alembic (x)")
    done = command_line.retinue("trace", *(word.replace("PATH", str(tmp_path)) for word in words), cwd=tmp_path)
    assert message.replace("PATH", str(tmp_path)) in done.stderr
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_reading_changes_nothing_in_the_database(tmp_path: Path, url: str) -> None:
    Database(url).close()
    before = (tmp_path / "runs.db").read_bytes()
    assert command_line.retinue("trace", f"run_{'0' * 24}", "--db", url).returncode == 2
    assert (tmp_path / "runs.db").read_bytes() == before
