"""docs/migrating: what each page says to do works, with a server that was started by the page's own command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from docs.test_docs import ROOT, blocks
from fakes import fork_server
from fakes.config_files import SEED
from fakes.served import Served, serving
from retinue.config import check
from retinue.config.yaml_files import read_spec_from_environment

PAGES = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs" / "migrating").glob("*.md")}
(FILE,) = blocks(PAGES["assistants"], "yaml")
TUTOR, STREAMED, FUNCTIONS, SEARCH = blocks(PAGES["assistants"], "py")
SCRIPT = """scripted
      script:
        - {when: 3x, call: {tool: code_interpreter, input: "print((14 - 11) / 3)"}}
        - {when: ^1.0, say: "Jane Doe, x is 1."}
        - when: San Francisco
          call:
            - {tool: get_current_temperature, input: {location: "San Francisco, CA", unit: Fahrenheit}}
            - {tool: get_rain_probability, input: {location: "San Francisco, CA"}}
        - {when: "^0.06|^57", say: It is 57 degrees.}
        - {when: South Ltd. were, call: {tool: file_search, input: South Ltd shares outstanding}}
        - {when: south.txt, say: "15,552 shares【1†south.txt】"}
"""


def scripted(text: str) -> str:
    """The page's file, with a script in the place of its model."""
    return re.sub(
        r"params: \{model: local, strategy: (\w+)\}", rf"params:\n      strategy: \1\n      model: {SCRIPT}", text
    )


def options() -> Sequence[str]:
    """Those of the page's command, but for its file, its port and its key, which `serving` gives."""
    (command,) = re.findall(r"^retinue serve .*$", PAGES["assistants"], re.MULTILINE)
    words = shlex.split(command)
    assert words[:7] == ["retinue", "serve", "agents.yml", "--port", "8000", "--api-key", "sk-mine"]
    return words[7:]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("empty"), scripted(FILE), args=options()) as server:
        yield server


def said(code: str, server: Served, folder: Path, seconds: float = 60.0) -> str:
    """What the client's program prints, which knows of the server by its environment only."""
    env = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}
    done = fork_server.python(["-W", "ignore", "-c", code], cwd=folder, env=env, after=["openai"], timeout=seconds)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_file_for_assistants_is_right(tmp_path: Path) -> None:
    (tmp_path / "agents.yml").write_text(FILE)
    assert check(tmp_path / "agents.yml") == []


@pytest.mark.full
def test_the_tutors_run_is_polled(server: Served, tmp_path: Path) -> None:
    lines = said(TUTOR, server, tmp_path).splitlines()
    assert lines[:2] == ["completed", "assistant > Jane Doe, x is 1."]
    assert lines[2].startswith("user > I need to solve")


@pytest.mark.full
def test_the_tutors_run_is_streamed(server: Served, tmp_path: Path) -> None:
    text = said(STREAMED, server, tmp_path)
    assert text == (
        "\nassistant > code_interpreter\nprint((14 - 11) / 3)\noutput > 1.0\n\nassistant > Jane Doe, x is 1."
    )


@pytest.mark.full
def test_the_clients_functions_are_called(server: Served, tmp_path: Path) -> None:
    assert said(FUNCTIONS, server, tmp_path).splitlines() == [
        "streamed > It is 57 degrees.",
        "polled > It is 57 degrees.",
    ]


@pytest.mark.full
def test_under_react_one_function_is_called_at_a_time(tmp_path: Path) -> None:
    """So the page's loop answers twice, where the quickstart's polled variant answers once."""
    one_by_one = (
        SCRIPT[: SCRIPT.index("        - when: San")]
        + """\
        - {when: 0.06, say: It is 57 degrees.}
        - {when: "57", call: {tool: get_rain_probability, input: {location: "San Francisco, CA"}}}
        - {call: {tool: get_current_temperature, input: {location: "San Francisco, CA", unit: Celsius}}}
"""
    )
    text = scripted(FILE).replace(SCRIPT, one_by_one).replace("tool_calling", "react")
    counted = FUNCTIONS.partition("class Weather")[0] + FUNCTIONS[FUNCTIONS.rindex("thread = ") :]
    counted = counted.replace("    run = client", "    print(len(outputs(run)))\n    run = client")
    with serving(tmp_path, text) as server:
        assert said(counted, server, tmp_path).splitlines() == ["1", "1", "polled > It is 57 degrees."]


@pytest.mark.full
def test_files_are_searched_and_cited(server: Served, tmp_path: Path) -> None:
    assert said(SEARCH, server, tmp_path).splitlines() == ["completed 2", "[0] south.txt", "15,552 shares[0]"]


@pytest.mark.full
def test_what_uses_langchain_runs(tmp_path: Path) -> None:
    code = "\n".join(blocks(PAGES["langchain"], "py"))  # in one process, for the sake of its imports
    done = fork_server.python(["-W", "ignore", "-c", code], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_haystacks_file_is_the_proposals_and_is_right(tmp_path: Path) -> None:
    (text,) = blocks(PAGES["haystack"], "yaml")
    (tmp_path / "agents.yml").write_text(text)
    assert check(tmp_path / "agents.yml") == []
    assert [line for line in SEED.read_text("utf-8").splitlines() if line.strip()] == text.splitlines()


@pytest.fixture
def opea(tmp_path: Path) -> Path:
    """A folder with the page's files; a script answers in the place of vLLM."""
    tools, agents = blocks(PAGES["opea"], "yaml")
    (functions,) = blocks(PAGES["opea"], "py")
    (tmp_path / "worker_agent_tools.yaml").write_text(tools)
    (tmp_path / "worker_agent_tools.py").write_text(functions)
    (tmp_path / "agents.yml").write_text(agents)
    return tmp_path


def test_opeas_original_file_is_the_one_of_the_page(opea: Path) -> None:
    original = (SEED.parent / "opea_worker_agent_tools.yaml").read_text("utf-8")
    text = (opea / "worker_agent_tools.yaml").read_text("utf-8")
    assert "\n".join(line for line in original.splitlines() if line and not line.startswith("#")) == text.rstrip()
    assert check(opea / "agents.yml") == []


@pytest.mark.full
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_opeas_team_answers_on_one_server(opea: Path) -> None:
    supervisor = "script: [{when: sold.$, call: {tool: rag, input: Thriller}}, {when: 70, finish: 70 million.}]"
    worker = "script: [{when: sold 70, finish: 70 million.}, {call: {tool: search_knowledge_base, input: Thriller}}]"
    text = re.sub(r"      llm_\w+: .*\n", "", (opea / "agents.yml").read_text("utf-8"))
    text = text.replace("      tools: [calc", f"      {supervisor}\n      tools: [calc")
    text = text.replace("      tools: worker", f"      {worker}\n      tools: worker")
    (curl,) = blocks(PAGES["opea"], "curl")
    with serving(opea, text) as server:
        curl = curl.replace("http://127.0.0.1:9090/v1", server.url).replace("Bearer sk-mine", f"Bearer {server.key}")
        done = subprocess.run(["bash", "-c", f"{curl.rstrip()} -sS"], capture_output=True, text=True)
    reply = json.loads(done.stdout)
    assert (reply["text"], reply["choices"][0]["message"]["content"]) == ("70 million.", "70 million.")


def test_opeas_environment_describes_one_agent(opea: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(opea)
    (command,) = [one for one in blocks(PAGES["opea"], "sh") if one.startswith("strategy=")]
    words = shlex.split(command.replace("\\\n", " "))
    given = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    spec = read_spec_from_environment(given)
    assert spec.agents is not None
    (agent,) = spec.agents
    assert (agent.name, agent.params.strategy, agent.params.recursion_limit) == ("rag", "react", 12)


@pytest.mark.model
@pytest.mark.long
@pytest.mark.usefixtures("embedded_model")
def test_the_tutor_answers_with_the_pages_own_model(tmp_path: Path) -> None:
    with serving(tmp_path, FILE, args=options()) as server:
        lines = said(TUTOR, server, tmp_path, 500.0).splitlines()
    assert lines[0] == "completed"
    assert re.search(r"\b1\b", lines[1])
