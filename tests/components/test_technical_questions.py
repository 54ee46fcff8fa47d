"""Seed 001's demo: a question that needs the documents *and* the issue tracker."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from retinue import PromptModel, RunResult

EXAMPLE = Path(__file__).parents[2] / "examples" / "technical_questions.py"
SCRIPT: list[dict[str, Any]] = [
    {"when": "#38", "finish": "The Fetcher and the Reader; #38 is about the Reader."},
    {"when": "the Fetcher", "call": {"tool": "OpenIssues", "input": {"label": "bug"}}},
    {"call": {"tool": "Documentation", "input": "nodes of the standard QA pipeline"}},
]


def example() -> Any:
    spec = spec_from_file_location("technical_questions", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tools_of(result: RunResult) -> list[str]:
    return [action.tool for step in result.steps for action in step.actions]


@pytest.mark.parametrize("strategy", ["react", "tool_calling"])
def test_a_scripted_model_needs_both_tools(strategy: str) -> None:
    result = example().ask(PromptModel(script=SCRIPT), strategy=strategy)
    assert tools_of(result) == ["Documentation", "OpenIssues"]
    assert "Fetcher" in result.steps[0].observations[0].text
    assert "#40" not in result.steps[1].observations[0].text  # it is closed
    assert result.answer == "The Fetcher and the Reader; #38 is about the Reader."


@pytest.mark.model
@pytest.mark.long
def test_the_embedded_model_answers_with_both_tools(embedded_model: Path) -> None:
    """In a process of its own, where it says the same each time."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True)
    _, *steps, answer = done.stdout.strip().splitlines()
    assert {step.strip().partition("(")[0] for step in steps} == {"Documentation", "OpenIssues"}
    assert "#38" in answer
