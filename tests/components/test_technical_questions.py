"""Seed 001's demo: a question that needs the documents *and* the issue tracker."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from retinue import PromptModel, RunResult, StopReason

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
def test_the_embedded_model_answers_with_both_tools(embedded_model: Path) -> None:
    result = example().ask("local")
    assert result.stop_reason is StopReason.ANSWER, result
    assert {"Documentation", "OpenIssues"} <= set(tools_of(result))
    assert "#38" in result.answer
