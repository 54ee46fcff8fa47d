"""Every block of the docs is run by a test, or only shown for a reason that is given here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from docs.reader import TYPED
from docs.test_docs import PAGES, ROOT
from retinue.cli.main import cli
from retinue.config import check

BLOCK = re.compile(r"^```(\w*)(?: [^\n]*)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HERE = "tests/docs/test_block_inventory.py"
API = "tests/docs/test_api_pages.py"
ALL = "*"

RUN = {  # by page and language: the test that runs these blocks
    (ALL, "python"): "tests/docs/test_docs.py",
    (ALL, "yaml"): HERE,
    ("agents.md", "py"): "tests/docs/test_docs.py",
    ("assistants.md", "py"): "tests/docs/test_migrating_pages.py",
    ("opea.md", "curl"): "tests/docs/test_migrating_pages.py",
    ("langchain.md", "py"): "tests/docs/test_migrating_pages.py",
    ("opea.md", "py"): "tests/docs/test_migrating_pages.py",
    ("clients.md", "curl"): "tests/docs/test_clients_page.py",
    ("clients.md", "js"): "tests/docs/test_clients_page.py",
    ("clients.md", "py"): "tests/docs/test_clients_page.py",
    ("conversations.md", "py"): API,
    ("files.md", "py"): API,
    ("responses.md", "py"): API,
    ("server.md", "py"): API,
    ("streams.md", "py"): API,
    (ALL, "sh"): "tests/docs/test_shell_pages.py",  # which says of each that it does not run why
    (ALL, "console"): "tests/docs/test_shell_pages.py",
    ("tutorial.md", "markdown"): "tests/docs/test_tutorial_page.py",
}
SHOWN = {  # by page and language: why no test runs these blocks; the words of commands are checked all the same
    (ALL, "text"): "output",
    ("clients.md", "toml"): "another program's settings, with which `make clients` tries it",
    ("guardrails.md", "json"): "the output of a call; tests/server/test_always_allowed.py sends such ones",
    ("haystack.md", "py"): "farm-haystack cannot be installed beside today's libraries",
    ("evaluation.md", "json"): "a line of a dataset",
    ("mcp.md", "json"): "another program's settings",
    ("operations.md", "json"): "output: a line of a log",
    ("quotas.md", ""): "output: a reply's headers",
    ("registered-tools.md", "json"): "the body of a request",
    ("replay.md", ""): "output",
    ("serving-python.md", "py"): "of examples/python_app, which tests/server/test_python_app.py runs",
    ("replay.md", "json"): "the body of a reply",
    ("replay.md", "py"): "a test that `retinue runs pin` writes",
    ("server.md", "json"): "the body of a request; tests/server/test_audio.py sends such ones",
    ("skills.md", ""): "a drawing",
    ("telemetry.md", ""): "output: a tree of spans",
    ("testing.md", ""): "output: a failure",
    ("tour.md", ""): "a drawing",
}
NO_AGENTS = {
    "deployment.md": "rules:",
    "prices.md": "currency:",
    "yaml.md": "tools:",
}  # what such other files begin with
BESIDE = {  # files that the pages' files name
    "tables.py": "def book(place):\n    return place\n",
    "parts.py": "def search(question): ...\ndef measure(draft): ...\ndef upper(text): ...\n",
    "checks.py": "def only_small_sums(called, context): ...\n",
    "worker_agent_tools.py": "def search_knowledge_base(query: str): ...\n",
    "worker_agent_tools.yaml": (
        "search_knowledge_base: {callable_api: worker_agent_tools.py:search_knowledge_base, description: Searches.}\n"
    ),
    "skills/SKILL.md": "---\nname: skills\ndescription: Checks invoices.\n---\n# Checking\n",
    "facts.jsonl": '{"title": "Lyon", "text": "Lyon has 522,250 inhabitants."}\n',
}


def blocks() -> Iterator[tuple[Path, str, str]]:
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            yield page, language, text


def test_each_block_is_run_or_shown_for_a_reason() -> None:
    known = {*RUN, *SHOWN}
    unknown = {
        (page.name, language) for page, language, _ in blocks() if not {(page.name, language), (ALL, language)} & known
    }
    assert not unknown, "run these by a test, or say here why none does"


def test_what_is_said_of_blocks_is_of_blocks_that_are_there() -> None:
    there = {key for page, language, _ in blocks() for key in ((page.name, language), (ALL, language))}
    assert {*RUN, *SHOWN} <= there
    assert [test for test in RUN.values() if not (ROOT / test).is_file()] == []


def files() -> Iterator[tuple[str, str]]:
    for at, (page, language, text) in enumerate(blocks()):
        if language == "yaml" and not text.startswith(NO_AGENTS.get(page.name, "\n")):
            yield f"{page.name}-{at}", text


def test_the_files_are_right(tmp_path: Path) -> None:
    for name, beside in BESIDE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(beside)
    for place, text in files():
        (tmp_path / "agents.yml").write_text(text, encoding="utf-8")
        assert check(tmp_path / "agents.yml") == [], place


def commands() -> dict[str, str]:
    """Every command of Retinue in a block for a shell, with its page."""
    found: dict[str, str] = {}
    for page, language, text in blocks():
        if language in ("sh", "console", "") and (language or text.startswith("retinue ")):
            typed = TYPED.findall(text) if language == "console" else re.sub(r"\\\n", " ", text).splitlines()
            for line in typed:
                words = line.replace("\\\n", " ").partition("  #")[0].strip()
                if words.startswith("retinue "):
                    found.setdefault(words, page.name)
    return found


def test_the_commands_are_there() -> None:
    unknown = {line: options for line in commands() if (options := unknown_options(line))}
    assert unknown == {}


def unknown_options(line: str) -> list[str]:
    """The options of a line that its command does not have. Fails if there is no such command."""
    words = shlex.split(line.partition(" | ")[0].partition(" > ")[0].partition(" && ")[0])[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(context, words.pop(0))
        assert inner is not None, line
        command = inner
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "--version"}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]


def test_each_target_of_make_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page, language, text in blocks():
        for target in re.findall(r"^make ([\w-]+)", text, re.MULTILINE) if language == "sh" else ():
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"
