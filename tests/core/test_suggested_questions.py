"""What one may ask an agent, given in code."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import Agent, PromptModel, UsageError
from retinue.core.events import Asked


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("What?", r"^questions: want a list of at most 8 texts, such as \['What can you do\?'\], not 'What\?'$"),
        (3, "^questions: want a list of at most 8 texts, .*, not 3$"),
        (["What?"] * 9, "^questions: want a list of at most 8 texts, .*, not 9 of them$"),
        (["What?", 3], r"^questions\[1\]: want a text, not 3$"),
        (["  "], r"^questions\[0\]: want a question in one line of at most 200 characters$"),
        (["one\ntwo"], r"^questions\[0\]: want a question in one line"),
        (["x" * 201], r"^questions\[0\]: want a question in one line"),
    ],
)
def test_what_is_no_list_of_short_texts_is_an_error(given: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Agent(PromptModel(script=["x"]), questions=given)


def test_the_model_is_not_told_of_them() -> None:
    def told(**given: Any) -> list[Any]:
        log = Agent(PromptModel(script=[{"finish": "4"}]), strategy="tool_calling", **given).run("What is 2+2?").events
        return [event.messages for event in log if isinstance(event, Asked)]

    assert told(questions=["x" * 200] * 8) == told() != []
