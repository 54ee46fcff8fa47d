"""Agents of files that read strangers' words, see private data and change things, without anybody being asked."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from cli.test_files import printed
from retinue import Agent
from retinue.config import check

FILE = """\
retinue: 1
components:
  - {name: Search, type: SearchEngine, params: {api_key: k}}
  - {name: Store, type: DocumentStore}
  - {name: Papers, type: Retriever, params: {store: Store}}
pipelines:
  - {name: web, nodes: [{name: Search, inputs: [Query]}]}
agents:
  - name: helper
    params:
      model: openai:m
      api_key: k
      tools:
        - {name: find, pipeline_or_node: web, description: d}
        - {name: papers, pipeline_or_node: Papers, description: d}
        - mail
tools:
  mail: {callable_api: mail.py:send, description: d}
"""


def warnings(folder: Path, text: str) -> list[str]:
    path = folder / "a.yml"
    path.write_text(text)
    (folder / "mail.py").write_text("def send(text: str) -> str:\n    return text\n")
    problems = check(path)
    assert all(problem.warning for problem in problems), problems
    return [str(problem) for problem in problems]


def test_all_three_at_once_is_a_warning_at_the_agents_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (warning,) = warnings(tmp_path, FILE)
    assert warning.startswith(
        f"{tmp_path}/a.yml:9:11: warning: helper reads untrusted content (find), sees private data (papers) and "
        "has effects (mail) without approval"
    )
    assert "warning: helper" in printed("check", tmp_path / "a.yml")
    with caplog.at_level(logging.WARNING, "retinue"):
        Agent.load_from_yaml(tmp_path / "a.yml")
    assert warning in caplog.messages


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("description: d}\n        - {name: papers", "description: d, labels: []}\n        - {name: papers"),
        ("        - {name: papers, pipeline_or_node: Papers, description: d}\n", ""),
        ("mail.py:send", "calculator"),
        ("send, description: d", "send, description: d, effects: read"),
        ("send, description: d", "send, description: d, approval: true"),
        ("send, description: d", "send, description: d, labels: [private]"),
        ("api_key: k\n      tools", "require_human_feedback: [mail]\n      tools"),
        ("api_key: k\n      tools", "require_human_feedback: true\n      tools"),
    ],
    ids=["labelled", "no private", "no effects", "reads", "approved", "relabelled", "asked", "asked for all"],
)
def test_one_less_is_none(tmp_path: Path, old: str, new: str) -> None:
    assert old in FILE
    assert warnings(tmp_path, FILE.replace(old, new)) == []


def test_a_shell_with_a_network_reads_and_acts_outside(tmp_path: Path) -> None:
    text = FILE.replace("find, pipeline_or_node: web", "find, labels: [], pipeline_or_node: web").replace(
        "        - mail\n", ""
    )
    assert warnings(tmp_path, text.replace("      tools:\n", "      harness: true\n      tools:\n")) == []
    networked = text.replace("      tools:\n", "      harness: {shell: {network: [pypi.org]}}\n      tools:\n")
    (warning,) = warnings(tmp_path, networked)
    assert "(run_command), sees private data (papers) and has effects (run_command)" in warning
    approved = networked.replace("      tools:\n", "      require_human_feedback: [run_command]\n      tools:\n")
    assert warnings(tmp_path, approved) == []


def test_what_is_behind_an_agent_a_file_or_a_server_counts(tmp_path: Path) -> None:
    (tmp_path / "tools.yml").write_text("mail: {callable_api: 'mail.py:send', description: d}\n")
    path = FILE.replace("        - mail\n", "        - tools.yml\n").replace("tools:\n  mail: {", "#")
    assert len(warnings(tmp_path, path)) == 1
    inner = FILE.replace("        - mail\n", "")
    outer = "  - {name: outer, params: {model: openai:m, tools: [{name: ask, pipeline_or_node: helper}, mail]}}\n"
    (warning,) = warnings(tmp_path, inner.replace("tools:\n  mail", f"{outer}tools:\n  mail"))
    assert "outer reads untrusted content (ask), sees private data (ask) and has effects (mail)" in warning
    server = "  - {name: Far, type: MCPTools, params: {url: 'http://127.0.0.1:1/mcp'MORE}}\npipelines"
    mcp = FILE.replace("        - mail\n", "        - Far\n").replace("pipelines", server, 1)
    assert "has effects (Far)" in warnings(tmp_path, mcp.replace("MORE", ""))[0]
    assert warnings(tmp_path, mcp.replace("MORE", ", tools: [a], options: {a: {effects: read}}")) == []
