"""What a page gives to a shell works: each is followed from its first block to its last, in a folder with its files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest
from releasing.archives import build

from docs.reader import Reader
from docs.test_docs import PAGES, ROOT, blocks
from fakes import mcp_server
from fakes.openai_server import OpenAIServer
from fakes.postgres import Postgres
from fakes.scripted_server import Answer
from fakes.served import serving
from fakes.temporal import temporal

Scene: TypeAlias = Callable[[Reader, pytest.FixtureRequest], None]  # makes what is there before a page is followed
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OTHERS = {  # by page: why its blocks for a shell are not run here
    "backup.md": "tests/docs/test_backup_page.py runs them",
    "conformance.md": "tests/docs/test_checkout_pages.py runs them",
    "demo.md": "tests/docs/test_checkout_pages.py runs them",
    "deployment.md": "tests/docs/test_checkout_pages.py runs those for a container engine; the others need a cluster",
    "tutorial.md": "tests/docs/test_tutorial_page.py follows it",
}
LEFT_OUT = {  # by their beginnings: why other blocks are not run here
    "make demo": "tests/docs/test_checkout_pages.py runs it",
    "make test": "it runs these tests",
    "retinue models pull embedded\nretinue ask": "tests/docs/test_docs.py runs each of them",
    "$ retinue chat": "tests/docs/test_chat_page.py has this conversation",
    "$ retinue serve my-agent/agents.yml --api-key mine": "tests/docs/test_clients_page.py runs it, and its curl",
}


def agents(*names: str) -> str:
    """A file with these agents, for each of which a script stands in for the model."""
    script = '{model: scripted, script: [{when: "", finish: "Yes."}], tools: [calculator]}'
    return "\n".join(["agents:", *(f"  - {{name: {name}, params: {script}}}" for name in names)])


def text_of(page: str) -> str:
    """A page."""
    (path,) = [path for path in PAGES if path.name == page]
    return path.read_text(encoding="utf-8")


def nothing(reader: Reader, request: pytest.FixtureRequest) -> None:
    """An empty folder."""


def simple(reader: Reader, request: pytest.FixtureRequest) -> None:
    """A file of agents."""
    reader.save("agents.yml", agents("agent"))


def audit(reader: Reader, request: pytest.FixtureRequest) -> None:
    """A database with a past."""
    reader.paste(
        "retinue keys make --tenant acme && retinue keys revoke $(retinue keys list | grep -o 'key_[0-9a-f]*')"
    )


def chat(reader: Reader, request: pytest.FixtureRequest) -> None:
    """The database of a server which was asked."""
    (file,) = blocks(text_of("chat.md"), "yaml")
    with serving(reader.folder, file) as server:
        question = "How many people live in Lyon, and how many in Paris?"
        response = server.client().responses.create(model="guide", input=question)
    server.db.rename(reader.folder / "retinue.db")
    reader.ids["resp_4fce56348656b51ca1e7059f"] = response.id


def clients(reader: Reader, request: pytest.FixtureRequest) -> None:
    """The page's file."""
    (file,) = blocks(text_of("clients.md"), "yaml")
    reader.save("agents.yml", file)
    reader.save("tables.py", "def book(place):\n    return place\n")


def comparison(reader: Reader, request: pytest.FixtureRequest) -> None:
    """What installs other people's packages, from the network."""
    (reader.folder / ".bin" / "uv").symlink_to(Path(sys.executable).with_name("uv"))


def evaluation(reader: Reader, request: pytest.FixtureRequest) -> None:
    """Files, with one agent and with two, and datasets."""
    (reader.folder / "data").symlink_to(ROOT / "data")
    (question,) = blocks(text_of("evaluation.md"), "json")
    reader.save("questions.jsonl", question.replace("\n", " "))
    reader.save("before.yml", agents("before"))
    reader.save("after.yml", agents("after"))
    reader.save("agent.yml", agents("agent"))
    reader.save("agents.yml", agents("fast", "careful"))


def haystack(reader: Reader, request: pytest.FixtureRequest) -> None:
    """The page's file, and a server in the place of OpenAI's."""
    (file,) = blocks(text_of("haystack.md"), "yaml")
    reader.save("agents.yml", file)
    openai = request.getfixturevalue("openai")
    openai.replies += [Answer("Thought: I know this.\nFinal Answer: 8")]
    reader.env["OPENAI_BASE_URL"] = openai.url


def mcp(reader: Reader, request: pytest.FixtureRequest) -> None:
    """An agent with the tools of a server, and a pipeline."""
    server = f"command: {sys.executable}, args: [{mcp_server.__file__}]"
    reader.save(
        "agents.yml",
        f"""\
components:
  - {{name: files, type: MCPTools, params: {{{server}}}}}
  - {{name: words, type: PromptModel, params: {{engine: scripted, script: ["Yes."]}}}}
  - {{name: node, type: PromptNode, params: {{model_name_or_path: words, default_prompt_template: short}}}}
  - {{name: short, type: PromptTemplate, params: {{name: short, prompt_text: $query}}}}
pipelines: [{{name: summary, nodes: [{{name: node, inputs: [Query]}}]}}]
agents: [{{name: helper, params: {{model: words, strategy: tool_calling, tools: [files]}}}}]
""",
    )


def opea(reader: Reader, request: pytest.FixtureRequest) -> None:
    """The page's files."""
    tools, team = blocks(text_of("opea.md"), "yaml")
    reader.save("worker_agent_tools.yaml", tools)
    reader.save("worker_agent_tools.py", blocks(text_of("opea.md"), "py")[0])
    reader.save("agents.yml", team)


def replay(reader: Reader, request: pytest.FixtureRequest) -> None:
    """A server with two runs of an agent, and a file that has it otherwise."""
    file = """\
agents:
  - name: clerk
    params:
      script:
        - {when: ^25, finish: 25 euros.}
        - {when: ^20, finish: 20 euros.}
        - {when: euros, call: {tool: calculator, input: 4 * 5}}
      tools: [calculator]
      role_description: You answer questions on prices.
"""
    going: ExitStack = request.getfixturevalue("going")
    server = going.enter_context(serving(reader.folder, file, args=["--db", str(reader.folder / "retinue.db")]))
    for question in ("What do four tickets at 5 euros cost?", "And four coffees at 5 euros each?"):
        server.client().responses.create(model="clerk", input=question)
    reader.save("agents.yml", file)
    reader.save("changed.yml", file.replace("prices.", "prices, shortly."))


def server(reader: Reader, request: pytest.FixtureRequest) -> None:
    """A file, and a PostgreSQL."""
    simple(reader, request)
    reader.instead["postgresql://me@db/retinue"] = f'"{_database(request)}"'


def studio(reader: Reader, request: pytest.FixtureRequest) -> None:
    """A file, the database of its server, and a dataset."""
    simple(reader, request)
    reader.save("questions.jsonl", '{"id": "one", "question": "Is it?", "answers": ["Yes."]}')
    reader.paste("retinue serve agents.yml")


def upgrades(reader: Reader, request: pytest.FixtureRequest) -> None:
    """A database."""
    reader.paste("retinue keys make")
    reader.env["DATABASE"] = "retinue.db"


def workers(reader: Reader, request: pytest.FixtureRequest) -> None:
    """A PostgreSQL and a Temporal."""
    simple(reader, request)
    pip(reader, request)
    reader.instead["postgresql://…"] = f'"{_database(request)}"'
    reader.instead["temporal:7233"] = request.getfixturevalue("temporal_address")


def yaml(reader: Reader, request: pytest.FixtureRequest) -> None:
    """The page's file, an older one, and a server in the place of OpenAI's."""
    reader.save("agents.yml", blocks(text_of("yaml.md"), "yaml")[0])
    reader.save("old.yml", agents("old"))
    openai = request.getfixturevalue("openai")
    openai.replies += [Answer("Yes.")] * 3
    reader.env |= {"OPENAI_BASE_URL": openai.url, "OPENAI_API_KEY": "sk-test"}


def pip(reader: Reader, request: pytest.FixtureRequest) -> None:
    """An environment into which `pip` installs the wheel of this tree, and nothing else."""
    reader.env |= {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_FIND_LINKS": str(request.getfixturevalue("wheels"))}
    reader.env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}
    reader.paste("python -m venv .env && ln -s ../.env/bin/pip .bin/pip")


def assistants(reader: Reader, request: pytest.FixtureRequest) -> None:
    """What the page's reader has: its file."""
    pip(reader, request)
    reader.save("agents.yml", blocks(text_of("assistants.md"), "yaml")[0])


def skills(reader: Reader, request: pytest.FixtureRequest) -> None:
    """The page's file, and a skill."""
    reader.save("agents.yml", blocks(text_of("skills.md"), "yaml")[0])
    reader.paste("mkdir -p skills/invoices")
    reader.save("skills/invoices/SKILL.md", "---\nname: invoices\ndescription: Checks invoices.\n---\n# Checking\n")


SCENES: dict[str, Scene] = {
    "README.md": pip,
    "assistants.md": assistants,
    "audit.md": audit,
    "chat.md": chat,
    "cli.md": nothing,
    "clients.md": clients,
    "comparison.md": comparison,
    "evaluation.md": evaluation,
    "haystack.md": haystack,
    "keys.md": nothing,
    "mcp.md": mcp,
    "metrics.md": simple,
    "opea.md": opea,
    "quotas.md": nothing,
    "replay.md": replay,
    "server.md": server,
    "skills.md": skills,
    "studio.md": studio,
    "telemetry.md": simple,
    "upgrades.md": upgrades,
    "workers.md": workers,
    "yaml.md": yaml,
}
WITH_MODEL = ("README.md", "assistants.md", "chat.md", "cli.md")
FULL = (
    "README.md",
    "assistants.md",
    "chat.md",
    "cli.md",
    "comparison.md",
    "mcp.md",
    "opea.md",
    "server.md",
    "studio.md",
    "workers.md",
)


def _database(request: pytest.FixtureRequest) -> str:
    server: Postgres = request.getfixturevalue("a_postgres")
    return server.database()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, which others may look into: PostgreSQL has a user of its own if we are root."""
    with TemporaryDirectory(prefix="page") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def going() -> Iterator[ExitStack]:
    """What goes on while a page is followed."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def openai() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def temporal_address() -> Iterator[str]:
    with temporal() as server:
        yield server.address


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this tree."""
    return build(ROOT, tmp_path_factory.mktemp("wheels"), "wheel", 1_700_000_000).parent


def followed() -> Iterator[object]:
    for page in SCENES:
        marks = [pytest.mark.model] * (page in WITH_MODEL) + [pytest.mark.full] * (page in FULL)
        yield pytest.param(page, marks=marks)


@pytest.mark.full
@pytest.mark.parametrize("page", list(followed()))
def test_a_page_is_followed(page: str, folder: Path, request: pytest.FixtureRequest) -> None:
    cache = request.getfixturevalue("embedded_model").parents[1] if page in WITH_MODEL else folder / ".cache"
    reader = Reader(folder, RETINUE_CACHE=str(cache))
    SCENES[page](reader, request)
    for language, text in BLOCK.findall(text_of(page)):
        if not text.startswith(tuple(LEFT_OUT)):
            (reader.follow if language == "console" else reader.paste)(text)


def test_each_page_for_a_shell_is_followed_or_left_out_for_a_reason() -> None:
    shown = {path.name for path in PAGES if BLOCK.search(path.read_text(encoding="utf-8"))}
    assert shown == {*SCENES, *OTHERS}
    every = [text for page in SCENES for _, text in BLOCK.findall(text_of(page))]
    assert all(any(text.startswith(beginning) for text in every) for beginning in LEFT_OUT)
