"""The name that was meant, and errors with few lines."""

from __future__ import annotations

import traceback

import pytest

from retinue import Agent, ModelRefused
from retinue._internal.message_text import find_nearest, suggest_name
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities

NAMES = ["react", "react_json", "tool_calling"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raect", "did you mean 'react'?"),
        ("TOOL-CALLING", "did you mean 'tool_calling'?"),
        ("x", "there are: react, react_json, tool_calling"),
        ("x" * 10_000, "there are: react, react_json, tool_calling"),
    ],
)
def test_a_name_that_is_near_is_suggested_and_else_all_there_are(name: str, said: str) -> None:
    assert suggest_name(name, NAMES) == said


def test_of_many_names_some_are_listed_and_of_none_it_is_said() -> None:
    assert suggest_name("x", map(str, range(100))).endswith("18, 19, …")
    assert suggest_name("x", ()) == "there are none"
    assert find_nearest("", NAMES) == ""


class Refusing:
    """A model of the caller's own."""

    name = "mine"

    async def abilities(self, *, native: bool = False) -> Capabilities:
        raise ModelRefused("not today")

    def reply(self, request: Ask) -> Chunks:
        raise NotImplementedError


def frames(monkeypatch: pytest.MonkeyPatch, debug: str) -> list[str]:
    monkeypatch.setenv("RETINUE_DEBUG", debug)
    with pytest.raises(ModelRefused) as raised:
        Agent(Refusing()).run("?")
    return [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


def test_a_traceback_has_the_callers_frames_and_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert frames(monkeypatch, "") == ["frames", "run", "run_blocking", "abilities"]
    assert "finish" in frames(monkeypatch, "1")
