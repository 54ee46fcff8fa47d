"""What the terminal shows of long work: the list, and changed files."""

from __future__ import annotations

import io
from typing import Any

import pytest

from retinue import Agent, PromptModel, ToolReturn, tool
from retinue.display.run_tree import RunTree
from retinue.display.work_lines import list_work_lines


def show(data: Any, text: str = "first\nsecond") -> list[str]:
    """The lines of a run in which a tool returned `data`, below the call."""

    @tool(effects="read")
    def work() -> ToolReturn:
        """Works."""
        return ToolReturn(text, data)

    rules = [{"call": {"tool": "work", "input": {}}}, {"finish": "done"}]
    result = Agent(PromptModel("scripted", script=rules), [work], strategy="tool_calling").run("Work.")
    out = io.StringIO()
    RunTree(out, lambda text: print(text, end="", file=out)).show_result(result)
    lines = [line.strip("│ ") for line in out.getvalue().splitlines()]
    return lines[next(at for at, line in enumerate(lines) if "work()" in line) + 1 :]


def test_the_list_is_shown_once_with_its_marks() -> None:
    todos = [
        {"text": "a", "status": "completed"},
        {"text": "b", "status": "in_progress"},
        {"text": "c", "status": "pending"},
    ]
    assert show({"todos": todos})[:4] == ["→ first · 0.0 s", "[x] a", "[>] b", "[ ] c"]


def test_changed_files_are_shown() -> None:
    changed = [
        {"path": "new.py", "size": 1_200, "was": None},
        {"path": "old.py", "size": 80, "was": 120},
        {"path": "gone.py", "size": None, "was": 7},
    ]
    shown = show(
        {"workspace": {"version": 7, "changed": changed}, "command": {"exit": 2, "seconds": 1.0, "cut": False}}
    )
    assert shown[2:5] == ["+ new.py (1,200 bytes)", "~ old.py (120 → 80 bytes)", "- gone.py"]
    many = {"workspace": {"changed": [{"path": f"{at}", "size": 1, "was": None} for at in range(40)]}}
    assert show(many)[-7:][:2] != []
    assert "and 10 more files" in show(many)


def test_a_name_cannot_control_the_terminal() -> None:
    hostile = {"workspace": {"changed": [{"path": "a\x1b[2Jb", "size": 1, "was": None}]}}
    assert "+ ab (1 bytes)" in show(hostile)


@pytest.mark.parametrize(
    "data",
    [
        None,
        7,
        "x",
        [],
        {},
        {"todos": 7},
        {"todos": [7, {"text": 1}]},
        {"workspace": {"changed": 7}},
        {"command": {"exit": "x"}},
    ],
)
def test_data_of_other_forms_is_not_shown(data: Any) -> None:
    assert list(list_work_lines(data)) == []
