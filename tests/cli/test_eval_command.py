"""`retinue eval` as a user meets it: a process that is killed and goes on, its reports, its errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fakes import command_line
from fakes.openai_server import OpenAIServer
from fakes.until import until
from retinue.evals.comparison import Figures

QUESTIONS = [
    {"id": "film", "question": "Who directed The Piano?", "answers": ["Jane Campion"], "tags": ["lookup"]},
    {"id": "deep", "question": "How deep is Lake Orlo?", "answers": [{"number": 84}], "tags": ["lookup"],
     "evidence": ["Lake Orlo"]},
    {"id": "age", "question": "How old is <b>Mara</b>?", "unanswerable": True, "tags": ["unanswerable | odd"]},
]  # fmt: skip
PASSAGES = [{"title": "Lake Orlo", "text": "Lake Orlo is 84 metres deep."}]
EVIL = "</pre></details><script>alert(1)</script> ![x](http://evil.test/) \x1b[31m"
AGENTS = f"""\
components:
  - name: Judge
    type: PromptModel
    params: {{script: [{{when: "Campion", raw: "yes"}}, {{raw: "no"}}]}}
  - name: Model
    type: PromptModel
    params:
      price: {{input: 10, output: 20}}
      script:
        - {{when: Piano, finish: Jane Campion}}
        - {{when: "How deep", call: {{tool: Search, input: Lake Orlo}}}}
        - {{when: 84 metres, finish: It is 84 metres deep}}
        - {{finish: That is not stated}}
agents:
  - {{name: good, params: {{model: Model, tools: []}}}}
  - {{name: bad, params: {{script: [{{finish: {json.dumps(EVIL)}}}], tools: []}}}}
"""


def retinue(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "RETINUE_DEBUG"))}
    return command_line.retinue("eval", *words, env=kept, cwd=folder)


def written(path: Path, lines: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agents.yml").write_text(AGENTS)
    (tmp_path / "data").mkdir()
    written(tmp_path / "data" / "questions.jsonl", QUESTIONS)
    written(tmp_path / "data" / "passages.jsonl", PASSAGES)
    return tmp_path


BOTH = ("agents.yml", "--agent", "good", "--agent", "bad", "--dataset", "data", "--search", "passages")


def test_two_agents_are_compared_and_reported(project: Path) -> None:
    done = retinue(*BOTH, "--judge", "Judge", folder=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "good: right 100.0% (43.9–100.0) of 3 questions",
        "bad: right 0.0% (0.0–56.1) of 3 questions",
        f"The whole report is in {Path('eval-results/report.md')} and {Path('eval-results/report.html')}.",
    ]
    assert "good 3 of 3 right 100% of 3 questions" in done.stderr.splitlines()
    report = (project / "eval-results" / "report.md").read_text(encoding="utf-8")
    assert "- good: model scripted, strategy auto, tools Search" in report
    assert "- judged by scripted" in report
    assert re.search(r"^\| good \| 3 \| 100.0% \(43.9–100.0\) \| 33.3% .*\| 1.000 ", report, re.MULTILINE)
    assert re.search(r"^\| unanswerable \\\| odd \| 1 \| 100.0% ", report, re.MULTILINE)
    assert re.search(r"^\| good → bad \| 0 / 3 / 0 / 0 \| -100.0 points .* p = 0.250 \|", report, re.MULTILINE)


def test_json_is_the_figures_and_nothing_else(project: Path) -> None:
    done = retinue(*BOTH, "--json", folder=project)
    found = json.loads(done.stdout)
    assert found.keys() == {*Figures.__dataclass_fields__, "reports"}
    good, bad = found["configurations"]
    assert good["shares"]["right"] == {
        "count": 3,
        "of": 3,
        "share": 1.0,
        "low": pytest.approx(0.4385, abs=1e-4),
        "high": 1.0,
    }
    assert good["means"]["evidence_found"]["mean"] == 1.0
    assert good["means"]["cost"]["mean"] > 0
    assert "cost" not in bad["means"]
    assert found["tags"]["lookup"][1]["shares"]["right"]["of"] == 2
    assert [found["pairs"][0][name] for name in ("both", "only_first", "only_second", "neither")] == [0, 3, 0, 0]
    again = retinue(*BOTH, "--json", folder=project)  # nothing is asked, so the figures are the same
    assert (json.loads(again.stdout), again.stderr) == (found, "")


def test_only_some_questions(project: Path) -> None:
    done = retinue(*BOTH[:3], *BOTH[5:], "--tag", "lookup", "--first", "1", folder=project)
    assert done.stdout.startswith("good: right 100.0% (20.7–100.0) of 1 questions\n")


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


class Page(HTMLParser):
    """Its elements, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_each_run_and_runs_nothing(project: Path) -> None:
    assert retinue(*BOTH, folder=project).returncode == 0
    written_page = (project / "eval-results" / "report.html").read_text(encoding="utf-8")
    page = Page(written_page)
    names = {name for name, _ in page.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "base", "form", "a", "b"}
    assert not any(name in ("src", "href") or name.startswith("on") for _, given in page.tags for name in given)
    policy = next(given["content"] for name, given in page.tags if given.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "\x1b" not in written_page
    for shown in (
        "How old is <b>Mara</b>?",
        "</pre></details><script>alert(1)</script> ![x](http://evil.test/)",
        '├─ Search("Lake Orlo")',
        "→ [Lake Orlo] Lake Orlo is 84 metres deep.",
        "(not stated)",
        "right: yes",
    ):
        assert shown in page.text
    assert [name for name, _ in page.tags].count("details") == 3 * 3  # each question, and each run in it
    for svg in re.findall(r"<svg.*?</svg>", written_page, re.DOTALL):
        texts = [one.text for one in ET.fromstring(svg).iter() if one.text]
        assert any("good" in text for text in texts)


# ── killed, interrupted, refused ─────────────────────────────────────────────────────────────────


def remote(server: OpenAIServer, folder: Path) -> list[str | Path]:
    (folder / "remote.yml").write_text(
        "components:\n  - name: M\n    type: PromptModel\n    params: {model_name_or_path: fake-model, engine: openai, "
        f"base_url: '{server.url}', api_key: k}}\nagents:\n  - {{name: a, params: {{model: M, tools: []}}}}\n"
    )
    return ["remote.yml", "--dataset", "data"]


def answered(folder: Path) -> list[str]:
    path = folder / "eval-results" / "answers.jsonl"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_evaluation_goes_on_where_it_was(server: OpenAIServer, project: Path, number: signal.Signals) -> None:
    server.replies += ["Jane Campion", "84", server.hang]
    words = [sys.executable, "-m", "retinue", "eval", *map(str, remote(server, project))]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # in a background job, it may be ignored
    process = subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, handler)
    until(lambda: len(answered(project)) == 2 and len(server.asked) == 3)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert out == ""
    if number == signal.SIGINT:
        assert process.returncode == 130
        place = Path("eval-results") / "answers.jsonl"
        assert err.strip().splitlines()[-1] == f"stopped; the answers so far are in {place}: the same command goes on"
        assert "Traceback" not in err
    before = answered(project)
    server.replies += ["It is not stated."]
    done = retinue(*remote(server, project), folder=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a: right 100.0%")
    assert answered(project)[:2] == before
    assert [json.loads(line)["id"] for line in answered(project)] == ["film", "deep", "age"]
    assert len(server.asked) == 4


def refused(*words: str | Path, folder: Path) -> str:
    done = retinue(*words, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert not (folder / "eval-results").exists()
    return done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agents.yml", "--dataset", "data"], "agents.yml has several agents; say which: good, bad"),
        (["agents.yml", "--agent", "god", "--dataset", "data"], "unknown agent 'god'; did you mean 'good'?"),
        (["none.yml", "--dataset", "data"], "none.yml"),
        (["agents.yml", "--agent", "good", "--dataset", "nodata"], "nodata: No such file or directory"),
        (["agents.yml", "--agent", "good", "--dataset", "data", "--tag", "lookip"], "did you mean 'lookup'?"),
        (["agents.yml", "--agent", "good", "--dataset", "bare.jsonl", "--search", "lookup"], "has no passages.jsonl"),
        (["agents.yml", "--agent", "good", "--dataset", "wrong.jsonl"], "wrong.jsonl:2: answers: missing or empty"),
        (["agents.yml"], "Missing option '--dataset'"),
        (["--dataset", "data"], "Missing argument 'FILE...'"),
        (["agents.yml", "--agent", "good", "--dataset", "data", "--judge", "opnai"], "no engine 'opnai'"),
    ],
)
def test_what_cannot_work_is_told_and_asks_nothing(project: Path, words: list[str], said: str) -> None:
    for name, lines in (("bare.jsonl", QUESTIONS), ("wrong.jsonl", [QUESTIONS[0], {"id": "x", "question": "?"}])):
        written(project / name, lines)
    assert said in refused(*words, folder=project)


def test_a_model_that_fails_is_told_and_the_status_says_so(server: OpenAIServer, project: Path) -> None:
    server.api_key = "right"
    done = retinue(*remote(server, project), folder=project)
    assert done.returncode == 2
    assert "is the API key right?" in done.stderr
    assert answered(project) == []
