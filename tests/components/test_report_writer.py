"""`ReportWriter`: a report becomes files in its folder, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from retinue import Agent, ToolError
from retinue.components import ReportWriter
from retinue.components.report_writer import make_file_name

REPORT = """\
Runs survive a crash [Reliability](../docs/reliability.md).

## Why

- The log is the run [013](http://127.0.0.1/013.md), and is replayed [Reliability](../docs/reliability.md).

| kill | lost |
|---|---|
| any | `0` |
"""


def test_a_report_is_written_as_markdown_and_as_a_page_with_its_sources(tmp_path: Path) -> None:
    done = ReportWriter(tmp_path / "reports").run("Crashes & recovery", REPORT)
    assert done["files"] == ["crashes-recovery.md", "crashes-recovery.html"]
    assert done["sources"] == ["../docs/reliability.md", "http://127.0.0.1/013.md"]
    assert done["results"] == "Written: crashes-recovery.md and crashes-recovery.html, with 2 sources."
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == sorted(done["files"])
    text = (tmp_path / "reports" / "crashes-recovery.md").read_text("utf-8")
    sources = "1. [Reliability](../docs/reliability.md)\n2. [013](http://127.0.0.1/013.md)\n"
    assert text == f"# Crashes & recovery\n\n{REPORT}\n## Sources\n\n{sources}"
    page = (tmp_path / "reports" / "crashes-recovery.html").read_text("utf-8")
    assert "<title>Crashes &amp; recovery</title>" in page
    assert "<h1>Crashes &amp; recovery</h1>" in page
    assert '<a href="http://127.0.0.1/013.md">013</a>' in page
    assert "<td><code>0</code></td>" in page


def test_writing_it_again_changes_nothing_and_a_new_one_takes_its_place(tmp_path: Path) -> None:
    writer = ReportWriter(tmp_path)
    assert writer.run("A", REPORT) == writer.run("A", REPORT)
    assert len(list(tmp_path.iterdir())) == 2
    writer.run("A", "Another.")
    assert (tmp_path / "a.md").read_text("utf-8") == "# A\n\nAnother.\n"


def test_a_heading_and_sources_of_its_own_stay(tmp_path: Path) -> None:
    report = "# Its title\n\nText [a](b.md).\n\n## sources\n\n- [a](b.md)\n"
    ReportWriter(tmp_path).run("A", report)
    assert (tmp_path / "a.md").read_text("utf-8") == report


@pytest.mark.parametrize(
    "hostile",
    ["<script>x</script>", "![i](http://t.example/x.png)", "[x](javascript:x)", "[x](data:text/html,x)", "<img src=x>"],
)
def test_a_page_runs_and_loads_nothing(tmp_path: Path, hostile: str) -> None:
    ReportWriter(tmp_path).run('"><script>', f"Text {hostile}")
    page = (tmp_path / "script.html").read_text("utf-8")
    assert not re.search(r"<(script|img|iframe|link)", page)
    assert not re.search(r'href="(javascript|data):', page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("../../etc/passwd", "etc-passwd"), ("/abs", "abs"), ("..\\..\\x", "x"), ("a\x00b", "a-b"),
        (".hidden", "hidden"), ("Über  _uns_", "über-uns"), ("x" * 300, "x" * 80), ("…", ""), ("", ""),
    ],
)  # fmt: skip
def test_files_are_called_after_the_title(tmp_path: Path, title: str, name: str) -> None:
    assert make_file_name(title) == name
    folder = tmp_path / "in" / "reports"
    if name:
        ReportWriter(folder).run(title, "Text.")
        assert {path.parent for path in tmp_path.rglob("*.*")} == {folder}
    else:
        with pytest.raises(ToolError, match="a report has a title"):
            ReportWriter(folder).run(title, "Text.")


@given(st.text(max_size=200))
def test_no_title_leads_out_of_the_folder(title: str) -> None:
    name = make_file_name(title)
    assert Path(name).name == name
    assert not name.startswith(".")
    assert len(name.encode()) <= 80


def test_a_link_in_the_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "reports" / "a.md").symlink_to(tmp_path / "mine.txt")
    ReportWriter(tmp_path / "reports").run("A", "Text.")
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert (tmp_path / "reports" / "a.md").read_text("utf-8") == "# A\n\nText.\n"


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ToolError, match="the report cannot be written: "):
        ReportWriter(tmp_path / "file").run("A", "Text.")
    with pytest.raises(ToolError, match="longer than 50,000 characters"):
        ReportWriter(tmp_path).run("A", "x" * 50_001)
    with pytest.raises(ToolError, match="and a text"):
        ReportWriter(tmp_path).run("A", " \n")


FILE = """\
components: [{name: Report, type: ReportWriter, params: {folder: reports}}]
agents:
  - name: a
    params:
      script: [{when: "^Written", finish: done}, {call: {tool: save, input: {title: A, report: Text.}}}]
      tools: [{name: save, pipeline_or_node: Report, description: saves}]
"""


def test_in_a_file_the_folder_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(FILE)
    agent = Agent.load_from_yaml(tmp_path / "a.yml")
    assert (agent.run("?").answer, agent.tools[0].effects) == ("done", "idempotent")
    assert (tmp_path / "reports" / "a.html").is_file()
    agent.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == agent
