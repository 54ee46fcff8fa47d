"""Worked examples of a tool's use, which strategies show to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .values import ToolInput


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call in a worked example: the thought before it, the tool's input, and what was observed."""

    thought: str
    tool_input: ToolInput
    observation: str


@dataclass(frozen=True, slots=True)
class ToolExample:
    """A worked example of one tool's use.

    Invent the facts: a small model may take them for true, or its own question for the example's.

    Args:
        question: What is asked.
        calls: The tool's calls that lead to the answer, at least one.
        answer: The answer.
        thought: The thought before the answer; by default that the answer is known.
        follow_up: The question as it is asked after another one that has found a part of the first call's input, for
            example `What is half of that number?`. The examples of two tools then become one of both.
    """

    question: str
    calls: tuple[ExampleCall, ...]
    answer: str
    thought: str = ""
    follow_up: str = ""

    @classmethod
    def of(cls, value: ToolExample | Mapping[str, Any]) -> ToolExample:
        """Return an example, also one that a file has as mappings. Raises `TypeError` for missing or unknown keys."""
        if isinstance(value, ToolExample):
            return value
        calls = tuple(ExampleCall(**call) for call in value.get("calls", ()))
        return cls(**{**value, "calls": calls})
