"""docs/migrating/assistants.md: a client written for OpenAI works with the server that the page's commands start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.test_docs import ROOT, blocks, run
from fakes.served import Served, serving

PAGE = (ROOT / "docs" / "migrating" / "assistants.md").read_text("utf-8")
(FILE,) = blocks(PAGE, "yaml")
CODES = blocks(PAGE, "py")
IDS = ["code_interpreter", "streamed", "function", "file_search"]
SCRIPT = r"""
components:
  - name: fake
    type: PromptModel
    params:
      engine: scripted
      script:
        - {when: "3x", call: {tool: code_interpreter, input: {code: "print((14 - 11) / 3)"}}}
        - {when: "^1.0", say: "x = 1"}
        - {when: "How warm", call: {tool: get_temperature, input: {location: "Paris, France"}}}
        - {when: "21 degrees", say: "21 degrees."}
        - {when: "How many holidays", call: {tool: file_search, input: {query: holidays}}}
        - {when: "30 days", say: 30 days a year.}
"""


def arguments() -> list[str]:
    """What the page's command adds to a server's file and key."""
    (line,) = [line for block in blocks(PAGE, "sh") for line in block.splitlines() if line.startswith("retinue serve")]
    words = shlex.split(line)
    assert words[:5] == ["retinue", "serve", "agents.yml", "--api-key", "sk-mine"]
    return words[5:]


def environ(server: Served) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}


def tried(code: str, server: Served) -> str:
    return run(code, environ(server), "DeprecationWarning", "ResourceWarning")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    text = SCRIPT + FILE.replace("model: local", "model: fake")
    with serving(tmp_path_factory.mktemp("page"), text, args=arguments()) as server:
        yield server


@pytest.mark.parametrize(("at", "said"), [(0, "x = 1"), (1, "→ 1.0"), (2, ""), (3, "")], ids=IDS)
def test_a_client_works(server: Served, at: int, said: str) -> None:
    assert said in tried(CODES[at], server)


def test_its_pitfalls_are_told(server: Served) -> None:
    code = """
import openai
client = openai.OpenAI()
try:
    client.beta.assistants.create(model="gpt-5-nano")
except openai.APIStatusError as error:
    print(error.status_code, error.message)
try:
    client.beta.threads.retrieve("thread_abc123")
except openai.NotFoundError:
    print("none")
"""
    said = tried(code, server)
    assert "404" in said
    assert "none" in said


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenAI no longer serves assistants
def test_without_the_option_a_run_says_so(tmp_path: Path) -> None:
    text = SCRIPT + FILE.replace("model: local", "model: fake")
    with serving(tmp_path, text) as server, server.client() as client:
        tutor = client.beta.assistants.create(model="gpt-4o", tools=[{"type": "code_interpreter"}])
        thread = client.beta.threads.create(messages=[{"role": "user", "content": "3x"}])
        run = client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=tutor.id)
    assert run.last_error is not None
    assert "not enabled on this server" in run.last_error.message


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The page's file as it is."""
    with serving(tmp_path_factory.mktemp("local"), FILE, args=arguments()) as server:
        yield server


@pytest.mark.model
@pytest.mark.full
@pytest.mark.usefixtures("embedded_model")
@pytest.mark.parametrize("at", range(4), ids=IDS)
def test_a_client_works_with_the_embedded_model(local: Served, at: int) -> None:
    tried(CODES[at], local)
