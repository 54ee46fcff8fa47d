"""Help and a run in a terminal of 40 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.test_ask import retinue
from fakes.tmux import Terminal

FILE = """retinue: 1
agents:
  - name: desk
    params:
      model: scripted
      strategy: tool_calling
      tools: [calculator]
      script: [{when: "^42", finish: "42"}, {when: "", call: {tool: calculator, input: {expression: 6*7}}}]
"""


@pytest.mark.parametrize("words", [["--help"], ["ask", "--help"], ["run", "--help"]], ids=" ".join)
def test_help_is_no_wider_than_the_terminal(words: list[str]) -> None:
    for columns in ("40", "30"):
        done = retinue(*words, COLUMNS=columns)
        wide = [line for line in done.stdout.splitlines() if len(line) > int(columns)]
        unbreakable = "--log-level [debug|info|warning|error]"
        assert [line for line in wide if unbreakable not in line] == []
    usual = retinue(*words, COLUMNS="80").stdout
    assert "  -h, --help  " in usual


def test_a_usage_error_is_no_wider_either() -> None:
    done = retinue("run", COLUMNS="40")
    assert "Usage: retinue run" in done.stderr
    assert [line for line in done.stderr.splitlines() if len(line) > 40] == []


def test_the_lines_of_a_run_keep_their_branches(tmp_path: Path) -> None:
    (tmp_path / "agents.yml").write_text(FILE, "utf-8")
    with Terminal(["run", tmp_path / "agents.yml", "What is it?"], width=40) as terminal:
        shown = terminal.until("[exit 0]")
    _, _, tree = shown.partition("├─ step 1")
    steps, answer, _ = tree.partition("╰─ Answer: 42")
    assert answer
    assert "╰─ model" in steps
    assert [line for line in steps.splitlines()[1:] if not line.startswith(("│", "├"))] == []
