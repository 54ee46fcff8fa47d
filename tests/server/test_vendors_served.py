"""Vendors' forms of a reply, through the server: no 500, no lost call, no thought, nothing that cannot be printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.engines import PROBED, model
from fakes.openai_server import OpenAIServer
from fakes.vendor_forms import FORMS, SECRET
from retinue import Agent, Tool


def add(a: int, b: int) -> str:
    """Add."""
    return f"{a} and {b}"


def look(what: str) -> str:
    """Look something up."""
    return f"{what} \ud83d"


def now() -> str:
    """The time."""
    return "noon"


TOOLS = [Tool(function.__name__, function, effects="read") for function in (add, look, now)]


def said(served: Serving, path: str, body: dict[str, Any]) -> str:
    """The text of an answer, whichever API gave it."""
    answer = served.ask("POST", path, {"model": "agent-1", "stream": False, **body})
    assert answer.status == 200, answer.text
    answer.text.encode()
    if not body.get("stream"):
        whole = answer.body
        return str(
            whole["choices"][0]["message"]["content"]
            if "choices" in whole
            else whole["output"][-1]["content"][0]["text"]
        )
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    assert not any("error" in event for event in events), answer.text
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])


@pytest.mark.full
def test_the_forms_of_vendors_are_read(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Go"}]}
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", asked),
        ("/v1/chat/completions", {**asked, "stream": True}),
    ]
    ways += [("/v1/responses", {"input": "Go"})]
    wrong = {}
    with OpenAIServer() as engine:
        engine.replies += [PROBED]
        agent = Agent(model(engine), TOOLS, name="agent-1", strategy="tool_calling")
        with Serving(tmp_path, {"agent-1": agent}) as served:
            for number, (name, form) in enumerate(FORMS.items()):
                engine.replies[1 if engine.asked == [] else 0 :] = [form.streamed(), "Done."]
                path, body = ways[number % len(ways)]
                text = said(served, path, body)
                results = [one for one in engine.asked[-1].body["messages"] if one["role"] == "tool"]
                if not text.endswith("Done." if form.calls else form.answer) or len(results) != len(form.calls):
                    wrong[f"{name} ({path})"] = f"{text!r} after {results}"
                contents = [one.get("content") for one in engine.asked[-1].body["messages"]]
                if SECRET in text or SECRET in str(contents):  # a field of its own comes back beside a call
                    wrong[f"{name} ({path})"] = "a thought is shown"
    assert wrong == {}
