"""`retinue init`: what each template writes is right, and answers its README's question."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.test_ask import refused, retinue
from fakes.served import serving
from retinue import Agent
from retinue.cli.init import TEMPLATES
from retinue.config import check

SALES = Path(__file__).parents[2] / "src" / "retinue" / "cli" / "starter" / "data" / "tools"
LATE = "How much does a late book cost a day? What does a book cost that is 21 days late?"
RULES = {
    "folder": """
        - {when: ^Who drew, call: {tool: notes, input: oldest chart map room}}
        - {when: drawn by Ines Carvalho, finish: Ines Carvalho}""",
    "web": """
        - {when: ^Who designed, call: {tool: saved_pages, input: Arrabida bridge}}
        - {when: designed by Edgar Cardoso, finish: Edgar Cardoso}""",
    "data": """
        - when: ^How many lamps
          call: {tool: sql, input: {query: "SELECT SUM(pieces) FROM sales WHERE product = 'lamp' AND town = 'Braga'"}}
        - {when: "67", finish: "67"}""",
    "team": """
        - {when: 21 days late, call: {tool: archive, input: what a day costs}}
        - {when: ^what a day, call: {tool: notes, input: a book that is late}}
        - {when: costs 20 cents, finish: "20"}
        - {when: ^20$, call: {tool: calculator, input: 20 * 21}}
        - {when: "420", finish: "420"}""",
}
RULES["assistants"] = RULES["folder"]
ASKED = {  # with the agent, and what its answer has
    "folder": ("reader", "Who drew the oldest chart in the map room?", "Ines Carvalho"),
    "web": ("offline", "Who designed the Arrabida bridge in Porto?", "Edgar Cardoso"),
    "data": ("analyst", "How many lamps were sold in Braga?", "67"),
    "team": ("supervisor", LATE, "420"),
    "assistants": ("librarian", "Who drew the oldest chart in the map room?", "Ines Carvalho"),
}


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Path]:
    """Makes the folder of a template."""

    def make(template: str) -> Path:
        folder = tmp_path / template
        done = retinue("init", str(folder), "--template", template)
        assert (done.returncode, done.stderr) == (0, "")
        return folder

    return make


def scripted(folder: Path, template: str) -> str:
    """The template's file of agents with a script instead of a model."""
    text = (folder / "agents.yml").read_text("utf-8").replace("strategy: careful", "strategy: tool_calling")
    assert "model: local" in text
    text = text.replace("components:\n", "").replace("model: local", "model: Script")

    model = f"components:\n  - name: Script\n    type: PromptModel\n    params:\n      script:{RULES[template]}\n"
    return _web(text, model) if template == "web" else text.replace("retinue: 1\n", f"retinue: 1\n{model}", 1)


def _web(text: str, model: str) -> str:
    return text.replace("  - {name: Wikipedia", f"{model}  - {{name: Wikipedia", 1)


@pytest.mark.parametrize("template", TEMPLATES)
def test_its_files_are_right_and_its_readme_names_its_command(template: str, made: Callable[[str], Path]) -> None:
    folder = made(template)
    assert check(folder / "agents.yml") == []
    readme = (folder / "README.md").read_text("utf-8")
    command = TEMPLATES[template].try_it.split(" && ")[-1].split("    ")[0]
    assert command in readme
    if template in ASKED:
        agent, question, answer = ASKED[template]
        assert answer in readme
        assert question in readme
        assert agent in (folder / "agents.yml").read_text("utf-8")


@pytest.mark.parametrize("template", [name for name in ASKED if name != "assistants"])
def test_it_answers_its_question_with_its_own_data(template: str, made: Callable[[str], Path]) -> None:
    folder = made(template)
    (folder / "agents.yml").write_text(scripted(folder, template), "utf-8")
    agent, question, answer = ASKED[template]
    loaded = Agent.load_from_yaml(folder / "agents.yml", agent_name=agent)
    assert loaded.run(question).answer == answer


def test_the_researcher_answers_without_a_model(made: Callable[[str], Path]) -> None:
    folder = made("researcher")
    done = retinue("run", str(folder / "agents.yml"), "Who drew the oldest chart in the map room?")
    assert "Answer: Ines Carvalho" in done.stdout
    for shown in ("[>] Look it up", "+ chart.md (25 bytes)", "helper · tool_calling"):
        assert shown in done.stdout
    assert (folder / "out" / "chart.md").read_text() == "Ines Carvalho (rooms.md)\n"


def test_the_coder_writes_runs_and_mends_a_program_without_a_model(made: Callable[[str], Path]) -> None:
    folder = made("coder")
    (folder / "work").mkdir()
    (folder / "work" / "AGENTS.md").write_text("Use blanks.")
    done = retinue("run", str(folder / "agents.yml"), "Write a function that counts words.", "--verbose")
    assert "+ words.py (" in done.stdout
    assert "Use blanks." in done.stdout
    if shutil.which("bwrap") is None:
        assert "There is no sandbox to run its test in." in done.stdout
        return
    assert done.stdout.index("→ Exit code 1") < done.stdout.index("~ words.py (") < done.stdout.index("→ Exit code 0")
    assert "words.py counts words. Its test passes." in done.stdout
    assert "text.split()" in (folder / "work" / "words.py").read_text()


@pytest.mark.full
def test_the_client_of_the_assistants_server_gets_its_answer(made: Callable[[str], Path]) -> None:
    folder = made("assistants")
    with serving(folder, scripted(folder, "assistants")) as server:
        env = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}
        command = [sys.executable, "-W", "ignore::DeprecationWarning", str(folder / "ask_librarian.py")]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", "Ines Carvalho\n")


def test_the_list_names_each_template_and_writes_nothing(tmp_path: Path) -> None:
    done = retinue("init", str(tmp_path / "new"), "--list")
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == list(TEMPLATES)
    assert not (tmp_path / "new").exists()


def test_an_unknown_template_is_one_clear_error(tmp_path: Path) -> None:
    for name, hint in (("foldr", "did you mean 'folder'?"), ("zzzz", "there are: script, folder, web, data, team,")):
        said = refused(retinue("init", str(tmp_path / "new"), "--template", name))
        assert f"no template {name!r}; {hint}" in said
    assert not (tmp_path / "new").exists()


def test_no_file_of_a_template_is_overwritten(made: Callable[[str], Path]) -> None:
    folder = made("folder")
    (folder / "README.md").unlink()
    (folder / "notes" / "rooms.md").write_text("mine")
    assert "already exists; nothing was written" in refused(retinue("init", str(folder), "--template", "folder"))
    assert not (folder / "README.md").exists()
    assert (folder / "notes" / "rooms.md").read_text() == "mine"


@pytest.mark.parametrize(
    "hostile",
    [
        "DROP TABLE sales",
        "DELETE FROM sales",
        "INSERT INTO sales SELECT * FROM sales",
        "ATTACH 'other.db' AS other",
        "PRAGMA journal_mode",
        "VACUUM INTO 'copy.db'",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('evil')",
        "SELECT zeroblob(500000000)",
        "SELECT COUNT(*) FROM sales a, sales b, sales c, sales d, sales e, sales f, sales g, sales h",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT SUM(i) FROM n",
        "",
    ],
)
def test_a_query_can_only_read_and_not_for_long(hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SALES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    query = runpy.run_path(str(tmp_path / "sales.py"))["query"]
    with pytest.raises((sqlite3.Error, ValueError)):
        query(hostile)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert query("SELECT COUNT(*) FROM sales") == "COUNT(*)\n12"


def test_many_rows_are_cut() -> None:
    query = runpy.run_path(str(SALES / "sales.py"))["query"]
    lines = query("SELECT a.town FROM sales a, sales b").splitlines()
    assert (len(lines), lines[0], lines[-1]) == (52, "town", "(more rows were left out)")


@pytest.mark.model
@pytest.mark.long
@pytest.mark.parametrize("template", ASKED)
def test_the_embedded_model_answers(template: str, made: Callable[[str], Path], embedded_model: Path) -> None:
    agent, question, answer = ASKED[template]
    folder = made(template)
    done = retinue("run", str(folder / "agents.yml"), "--agent", agent, question)
    assert re.search(rf"Answer: .*\b{answer}\b", done.stdout), shlex.join([question, done.stdout, done.stderr])
