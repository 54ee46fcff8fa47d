"""What a tool returns for several readers: a text for the model, data for the application, files."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fakes.said import Said
from retinue import Agent, ToolReturn, UsageError, tool
from retinue.core.serialization import from_json, to_json
from retinue.extend import AgentAction, Asked, Capabilities, File, Observation, Reply

ABLE = Capabilities(calls_tools=True)
CANARY = "only for the application"


@dataclass
class Row:
    day: date
    price: float


def observed(returned: Any, strategy: str = "tool_calling") -> tuple[Observation, str]:
    """Return what was observed of a tool that returns this, and all that the model was shown."""

    @tool(effects="read")
    def look(query: str) -> Any:
        """Looks."""
        return returned

    replies: list[Any] = [Reply("", calls=(AgentAction("look", {"query": "x"}),)), "done"]
    if strategy == "react":
        replies = [" I look\nAction: look\nAction Input: x\n", " I know\nFinal Answer: done"]
    result = Agent(Said(replies, ABLE), [look], strategy=strategy).run("Look")
    shown = [message.content for event in result.events if isinstance(event, Asked) for message in event.messages]
    return result.steps[0].observations[0], "\n".join(shown)


@pytest.mark.parametrize("strategy", ["tool_calling", "react"])
def test_the_model_reads_the_text_and_the_application_the_data(strategy: str) -> None:
    seen, shown = observed(ToolReturn("2 rows", data={"secret": CANARY, "rows": [1, 2]}), strategy)
    assert (seen.text, seen.data) == ("2 rows", {"secret": CANARY, "rows": [1, 2]})
    assert "2 rows" in shown
    assert CANARY not in shown


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ([Row(date(2026, 1, 2), 3.5)], [{"day": "2026-01-02", "price": 3.5}]),
        (0, 0),
        (math.nan, "NaN"),
        ("\ud800", "\ufffd"),
        ({1: {"a"}}, {"1": ["a"]}),
    ],
)
def test_data_is_json(data: Any, kept: Any) -> None:
    assert observed(ToolReturn("rows", data=data))[0].data == kept


def test_data_is_in_the_log() -> None:
    @tool(effects="read")
    def look(query: str) -> ToolReturn:
        """Looks."""
        return ToolReturn({"rows": 2}, data=[1, None, {}])

    model = Said([Reply("", calls=(AgentAction("look", {"query": "x"}),)), "done"], ABLE)
    events = Agent(model, [look], strategy="tool_calling").run("Look").events
    again = [from_json(to_json(event)) for event in events]
    assert again == list(events)
    (data,) = [event.observation.data for event in again if hasattr(event, "observation")]
    assert data == [1, None, {}]


def test_too_much_data_is_not_kept_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        seen, _ = observed(ToolReturn("much", data="x" * 1_000_001))
    assert (seen.text, seen.outcome, seen.data) == ("much", "result", None)
    assert "the data that look returned is not kept" in caplog.text


def test_files_go_beside_the_text(tmp_path: Path) -> None:
    image = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
    )
    (tmp_path / "plot.png").write_bytes(image)
    seen, _ = observed(ToolReturn("two plots", files=[image, tmp_path / "plot.png"]))
    assert seen.text.startswith("two plots\n(image/png")
    assert "plot.png" in seen.text
    assert [one.media_type for one in seen.files] == ["image/png"] * 2
    assert all(isinstance(one, File) for one in seen.files)


@pytest.mark.parametrize("wrong", [b"bytes", "plot.png", ["plot.png"], [3]])
def test_what_is_no_file_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="files: want a list of bytes, Paths, Files or images"):
        ToolReturn("x", files=wrong)
