"""What a model may do to a server: calls without end, in hundreds, of tools that are not there, with huge arguments;
texts that would break a log or a stream."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Answer, Serving
from retinue import Agent, Budget, PromptModel, tool
from retinue._internal.log_lines import JsonLines

CALLED: list[str] = []


@tool(effects="read")
def look(what: str) -> str:
    """Looks."""
    CALLED.append(what)
    return f"{len(CALLED)} {what[:20]}"


def chat(folder: Path, rules: list[Any], tools: Any = (look,), **agent: Any) -> Answer:
    """What a server whose model is scripted so answers."""
    CALLED.clear()
    one = Agent(PromptModel(script=rules), list(tools), name="agent-1", strategy="tool_calling", **agent)
    with Serving(folder, {"agent-1": one}) as served:
        said = {"model": "agent-1", "messages": [{"role": "user", "content": "Go"}]}
        return served.ask("POST", "/v1/chat/completions", said)


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"tool": name, "input": given}


def test_of_five_hundred_calls_sixteen_run_at_once(tmp_path: Path) -> None:
    under_way, most = set[int](), 0

    @tool
    async def wait(number: int) -> str:
        """Waits."""
        nonlocal most
        under_way.add(number)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.remove(number)
        CALLED.append(str(number))
        return "done"

    calls = [call("wait", number=number) for number in range(500)]
    answer = chat(tmp_path, [{"when": "^Go", "call": calls}, {"when": "", "say": "Done."}], [wait])
    assert answer.status == 200
    assert len(CALLED) == 500
    assert most == 16


@pytest.mark.parametrize("name", ["Look", "l\u043eok", "look\u200b", "__class__", "os.system", "book"])
def test_only_the_exact_name_is_a_tool(tmp_path: Path, name: str) -> None:
    answer = chat(tmp_path, [{"when": "^Go", "call": call(name, what="x")}, {"when": "", "say": "Done."}])
    assert (answer.status, CALLED) == (200, [])


@pytest.mark.parametrize("given", [{"what": "x" * 10_000_000}, {"what": {"a": 1}}, {"how": "x"}, {}, {"what": None}])
def test_arguments_that_do_not_fit_are_an_observation(tmp_path: Path, given: Any) -> None:
    answer = chat(tmp_path, [{"when": "^Go", "call": call("look", **given)}, {"when": "", "say": "Done."}])
    assert answer.status == 200, answer.text[:300]
    assert len(answer.text) < 10_000
    assert CALLED == []


def test_a_model_that_calls_for_ever_is_stopped(tmp_path: Path) -> None:
    answer = chat(tmp_path, [{"when": "", "call": call("look", what="x")}], budget=Budget(steps=7))
    assert len(CALLED) <= 7
    assert answer.status in (200, 500)


@pytest.mark.parametrize("payload", ["a\nb", "\r\n\r\ndata: x", "\x1b[2J", '"},{"', "\u2028", "x" * 1_000_000])
def test_a_log_line_is_one_line_of_json(payload: str) -> None:
    record = logging.LogRecord("retinue", logging.WARNING, "", 0, "the run %s", (payload,), None)
    line = JsonLines().format(record)
    assert set(json.loads(line)) == {"at", "level", "logger", "message"}
    assert line.isprintable()
    assert len(line) < 10_000
