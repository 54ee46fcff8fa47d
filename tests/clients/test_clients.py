"""Other frameworks' clients and Codex CLI, each in a program of a few lines. `make clients` installs them, apart from
everything else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from fakes.reasoning_server import reasoning_server
from fakes.served import Served, serving

PROGRAMS = Path(__file__).with_name("programs")
CLIENTS = Path(__file__).parents[2] / ".clients"
TOOLS = Path(__file__).parents[1] / "server" / "deployment" / "tables.py"
NODE = Path(sys.executable).with_name("node")
CODEX = CLIENTS / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
HELLO, EIGHT, BOOKED = "Hello, I am an agent.", "It is 8.", "It is booked."
# beside an answer, what a server's own tool leads to, and an exception where a streamed run fails
MORE = {
    "ai_sdk_5": {"whole": EIGHT, "approved": BOOKED},
    "llama_index_program": {"completion": HELLO, "streamed": HELLO},
    "pydantic_ai_program": {"approved": BOOKED},
}
NAMES = sorted(one.stem for one in PROGRAMS.glob("*.*") if one.suffix in (".py", ".mjs") and one.stem != "reporting")

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (CLIENTS / "installed").exists(), reason="the clients are not installed: `make clients`"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    shutil.copy(TOOLS, folder)
    with serving(folder, Path(__file__).with_name("agents.yml").read_text("utf-8")) as server:
        yield server


def output(server: Served, words: Sequence[str | Path], folder: Path, **env: str) -> str:
    """What a program prints; it fails with all that it said if it does."""
    given: Mapping[str, str] = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key, **env}
    done = subprocess.run(
        words, env=given, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_client_is_told_of_answers_and_of_failures(server: Served, name: str, tmp_path: Path) -> None:
    if (PROGRAMS / f"{name}.py").exists():
        words: list[str | Path] = [CLIENTS / "bin" / "python", PROGRAMS / f"{name}.py"]
    else:
        for script in (f"{name}.mjs", "reporting.mjs"):  # Node looks for packages beside the script
            shutil.copy(PROGRAMS / script, CLIENTS)
        words = [NODE, CLIENTS / f"{name}.mjs"]
    seen = json.loads(output(server, words, tmp_path).splitlines()[-1])
    assert seen == {"answer": HELLO, "tool": EIGHT, "failure": "raised", **MORE.get(name, {})}


THINKING = """
retinue: 1
components:
  - name: thinker
    type: PromptModel
    params: {{model_name_or_path: m, base_url: "{url}", api_key: k, dialect: openai}}
agents:
  - {{name: thinks, params: {{model: thinker, strategy: tool_calling, tools: [calculator]}}}}
  - {{name: gpt-5-thinks, params: {{model: thinker, strategy: tool_calling, tools: [calculator]}}}}
"""


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A served agent on a model that wants its thoughts back."""
    folder = tmp_path_factory.mktemp("thinking")
    with reasoning_server() as engine, serving(folder, THINKING.format(url=engine.url)) as server:
        yield server


@pytest.mark.parametrize("name", ["openai_program", "agents_program", "pydantic_ai_program", "ai_sdk"])
def test_a_client_sees_reasoning_only_if_it_asks(thinking: Served, name: str, tmp_path: Path) -> None:
    """With a tool of the server and a function of the client, in a conversation that the client keeps."""
    if (script := PROGRAMS / "reasoning" / f"{name}.mjs").exists():
        shutil.copy(script, CLIENTS)
        words: list[str | Path] = [NODE, CLIENTS / script.name]
    else:
        python = CLIENTS / "bin" / "python" if name == "pydantic_ai_program" else sys.executable
        words = [python, PROGRAMS / "reasoning" / f"{name}.py"]
    seen = json.loads(output(thinking, words, tmp_path).splitlines()[-1])
    assert len(seen) == 8
    assert seen == {way: ["It is 3 and rain."] * 2 + [way.endswith("asks")] for way in seen}


PROVIDER = """\
model_provider = "retinue"
[model_providers.retinue]
name = "Retinue"
base_url = "{url}"
env_key = "OPENAI_API_KEY"
"""


@pytest.mark.parametrize(
    ("over", "asked"),
    [
        ("HTTP", ["--model", "plain", "Print forty-two."]),
        ("WebSocket", ["--model", "plain", "Print forty-two."]),
        ("WebSocket", ["Print forty-three."]),  # by its own model, which calls its tools by a program
    ],
)
def test_codex_runs_a_command(server: Served, tmp_path: Path, over: str, asked: list[str]) -> None:
    """As it comes: its provider as its documentation has it, or only another address of OpenAI's."""
    home = tmp_path / "codex"
    home.mkdir()
    config = PROVIDER.format(url=server.url) if over == "HTTP" else f'openai_base_url = "{server.url}"\n'
    (home / "config.toml").write_text(config)
    env = {"CODEX_HOME": str(home), "HOME": str(tmp_path), "CODEX_API_KEY": server.key}
    words: list[str | Path] = [NODE, CODEX, "exec", "--skip-git-repo-check", "--json", *asked]
    items = [json.loads(line).get("item", {}) for line in output(server, words, tmp_path, **env).splitlines()]
    said = [item["text"] for item in items if item.get("type") == "agent_message"]
    done = [item for item in items if item.get("type") == "command_execution" and item["status"] != "in_progress"]
    assert len(done) == 1  # whether or not this machine has what Codex confines commands with
    assert said == ["It printed forty-2."] or done[0]["exit_code"] != 0
