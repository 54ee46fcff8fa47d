"""The official Node SDK's helpers: the scripts of tests/node say in JSON what they saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakes import node, responses
from fakes.sdk import BEGUN, CALLING, SAYING
from fakes.served import Served

HELLO = "Hello, I am an agent."


@pytest.fixture
def project(pytestconfig: pytest.Config) -> Path:
    assert pytestconfig.cache is not None
    return node.project(pytestconfig.cache)


def seen(script: Path, server: Served) -> Any:
    return json.loads(node.run(script, {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}))


def test_chat(project: Path, deployed: Served) -> None:
    saw = seen(project / "chat.mjs", deployed)
    assert "plain" in saw.pop("models")
    assert saw == {
        "create": HELLO,
        "stream": {
            "told": ["connect", "content.delta", "content.done", "chatCompletion", "finalContent", "end"],
            "content": HELLO,
            "finish": "stop",
            "usage": True,
        },
        "streamedCall": ["get_weather", {"location": "Paris"}],
        "parse": {"city": "Paris", "degrees": 21},
        "runTools": ["It is 21 degrees in Paris.", "21 degrees"],
        "runToolsStreamed": "Paris 21, London 19.",
        "refused": {"kind": "NotFoundError", "code": "model_not_found"},
    }


def test_responses(project: Path, deployed: Served) -> None:
    assert seen(project / "responses.mjs", deployed) == {
        "create": HELLO,
        "retrieve": HELLO,
        "goingOn": HELLO,
        "inputItems": ["Hello"],
        "stream": {"told": [*responses.BEGUN, *responses.SAYING, "response.completed"], "text": HELLO},
        "parse": {"city": "Paris", "degrees": 21},
        "tools": [["get_weather", "get_weather"], "Paris 21, London 19."],
        "background": ["queued", "At last."],
        "cancel": "Cannot cancel a completed response.",
        "deleted": "NotFoundError",
    }


def test_assistants(project: Path, deployed: Served) -> None:
    saw = seen(project / "assistants.mjs", deployed)
    refused = saw.pop("refused")
    assert refused["message"] == refused["expected"]
    assert (refused["kind"], refused["status"], refused["requestID"]) == ("BadRequestError", 400, True)
    assert saw == {
        "poll": ["queued", "completed", [HELLO]],
        "createAndPoll": ["completed", ['{"city": "Paris", "degrees": 21}']],
        "submitToolOutputsAndPoll": ["requires_action", "completed", ["Paris 21, London 19."]],
        "stream": {
            "status": "requires_action",
            "events": [*BEGUN, *CALLING, "thread.run.requires_action"],
            "told": ["runStepCreated", "toolCallCreated", "toolCallDelta", "toolCallDone", "run", "end"],
            "steps": 1,
        },
        "submitToolOutputsStream": {
            "status": "completed",
            "text": "It is 21 degrees in Paris.",
            "told": [
                "runStepDone", "runStepCreated", "messageCreated", "textCreated", "messageDelta", "textDelta",
                "textDone", "messageDone", "run", "end",
            ],
        },
        "createAndRunStream": ["thread.created", *BEGUN, *SAYING],
        "createAndStream": "completed",
        "steps": ["tool_calls", "message_creation"],
        "cancel": "cancelled",
        "deleted": True,
    }  # fmt: skip


def test_the_lock_file_names_no_registry() -> None:
    lock = (node.PROJECT / "package-lock.json").read_text("utf-8")
    assert "resolved" not in lock
    assert '"integrity": "sha512-' in lock


def test_approvals_in_the_ai_sdk(project: Path, deployed: Served) -> None:
    """All that was said is sent each time, stored items by reference."""
    approved = [["mcp.book", {"place": "Nopi", "people": 2}]]
    both = [*approved, ["mcp.book", {"place": "Rules", "people": 4}]]
    loops = {
        "approved": [approved, "It is booked.", HELLO],
        "declined": [approved, "Then not.", HELLO],
        "declared": [approved, "It is booked.", HELLO],
        "both": [both, "It is booked.", HELLO],
        "one": [both, "One of two.", HELLO],
        "unstored": [approved, "It is booked.", HELLO],
    }
    assert seen(project / "ai_sdk.mjs", deployed) == {"generated": loops, "streamed": loops}
