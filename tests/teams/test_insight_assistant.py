"""The Insight Assistant: research, writer and reviewer, led by a supervisor, write a report on Retinue's own docs."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from urllib.request import urlopen

import pytest

from fakes.openai_server import OpenAIServer
from fakes.reading_model import Chat, Said, reading
from retinue import Agent, DocumentStore
from retinue.config import check
from retinue.documents import index_folder
from retinue.tools.function_loader import load_module

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "insight_assistant"
QUESTION = "Write a report on how the runs of Retinue survive a crash."
TITLE = "How runs survive"
SUBJECTS = ("What survives a crash of the server?", "Why are strategies pure generators?")
STATEMENT = re.compile(r"^- (.+?) (\[[^\]]+\]\(([^)]+)\))$", re.MULTILINE)


def supervisor(chat: Chat) -> Said:
    last = [] if not chat.seen else chat.seen[-1]
    match len(chat.seen):
        case 0:
            return [("research", {"query": subject}) for subject in SUBJECTS]
        case 1:
            return [("writer", {"query": f"Title: {TITLE}\n" + "\n\n".join(last)})]
        case 2 | 4:
            return [("reviewer", {"query": last[0]})]
        case 3:
            return [("writer", {"query": f"{chat.seen[1][0]}\n\nMistakes:\n{last[0]}"})]
        case 5 if last[0] == "Approved.":
            return [("save_report", {"title": TITLE, "report": chat.seen[3][0]})]
        case _:
            return last[0]


def research(chat: Chat) -> Said:
    """Reads the site that its instructions name, searches, and quotes a sentence of each passage."""
    match len(chat.seen):
        case 0:
            address = re.search(r"http://\S+/", chat.system)
            assert address is not None
            return [("read_site", {"query": address[0]})]
        case 1:
            return [("search", {"query": chat.task})]
        case _:
            found = re.findall(r"^(\[[^\n]+?\]\([^)\n]+\)) (.+)$", chat.seen[1][0], re.MULTILINE)
            quoted = [(link, re.search(r"[A-Z][a-z][^.\n*`|#…\[\]]{20,}\.(?=\s|$)", text)) for link, text in found]
            return "\n".join(f"- {sentence[0]} {link}" for link, sentence in quoted if sentence)


def writer(chat: Chat) -> Said:
    """Adds a sentence without a source at first, and takes it out when it is told of it."""
    if "no link to a source: 'This has no source.'" in chat.task:
        return chat.task.partition("\n\nThis has no source.")[0]
    lists = re.findall(r"(?:^- .+\n?)+", chat.task, re.MULTILINE)
    sections = [f"## Part {number}\n\n{lines.strip()}" for number, lines in enumerate(lists, 1)]
    return "\n\n".join([f"# {TITLE}", *sections, "This has no source."])


def reviewer(chat: Chat) -> Said:
    if not chat.seen:
        return [("check_rules", {"report": chat.task})]
    return "Approved." if chat.seen[0][0] == "No rule is broken." else chat.seen[0][0]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """The files of a folder as a website, as `python -m http.server` serves them; its host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example, as far from a copy of the documents as it is in the repository, and their index."""
    folder = tmp_path / "examples" / "insight_assistant"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("index.sqlite*", "reports"))
    decisions = shutil.copytree(ROOT / "docs" / "decisions", tmp_path / "docs" / "decisions")
    with DocumentStore(folder / "index.sqlite") as store:
        index_folder(decisions, store)
    return folder


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.full
def test_a_report_is_written_whose_statements_are_where_they_link_to(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(ROOT / "docs") as place, OpenAIServer() as model:
        rules = {"save_report": supervisor, "read_site": research, "": writer, "check_rules": reviewer}
        model.always = reading(rules)
        monkeypatch.setenv("SITE", place)
        monkeypatch.setenv("MODEL_PARAMS_MODEL_NAME_OR_PATH", "fake-model")
        monkeypatch.setenv("MODEL_PARAMS_BASE_URL", model.url)
        assert check(example / "agents.yml") == []
        done = Agent.load_from_yaml(example / "agents.yml", "insight assistant").run(QUESTION)
        assert "how-runs-survive.html" in done.answer, done.transcript
        assert done.usage.runs == 6  # two of research, and two each of the writer and the reviewer
        text = (example / "reports" / "how-runs-survive.md").read_text("utf-8")
        page = (example / "reports" / "how-runs-survive.html").read_text("utf-8")
        body, _, listed = text.partition("\n## Sources\n")
        statements = STATEMENT.findall(body)
        links = {link for _, _, link in statements}
        assert len(statements) >= 4
        assert any(link.startswith(f"http://{place}/") for link in links)
        assert any(link.startswith("../../../docs/decisions/") for link in links)
        for statement, _, link in statements:
            assert plain(statement) in plain(read(link, example / "reports"))
        assert set(re.findall(r"\]\(([^)]+)\)$", listed, re.MULTILINE)) == links
        assert "This has no source." not in text
        assert page.count("<h2>") == 3
        assert set(re.findall(r'href="([^"]+)"', page)) == links
        assert load_module(example / "rules.py").check_rules(body) == "No rule is broken."


def read(link: str, folder: Path) -> str:
    if link.startswith("http://"):
        with urlopen(link) as response:
            return str(response.read().decode())
    return (folder / unquote(link)).read_text("utf-8")


GOOD = "# T\n\n## A\n\nText [a](b).\n\n## B\n\n- item [c](d)\n"


@pytest.mark.parametrize(
    ("report", "mistake"),
    [
        (GOOD, "No rule is broken."),
        (GOOD[2:], "line 1: the report begins with its title"),
        (GOOD.replace("## B", ""), "there are at least two sections"),
        (GOOD.replace("[a](b)", "a"), "line 5: no link to a source: 'Text a.'"),
        (GOOD.replace("Text", "word " * 121), "line 5: more than 120 words"),
        ("", "line 1: the report begins"),
    ],
)
def test_the_rules(report: str, mistake: str) -> None:
    rules: Any = load_module(EXAMPLE / "rules.py")
    assert rules.check_rules(report).startswith(mistake)
