"""Vendors' forms of a reply, streamed and whole, through the library."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fakes.engines import PROBED, model
from fakes.openai_server import OpenAIServer
from fakes.vendor_forms import FORMS, SECRET, VendorReply
from retinue import Agent, Tool
from retinue.core.events import Delta, Finished, Replied

CALLED: list[tuple[str, Any]] = []


def note(name: str, **given: Any) -> str:
    CALLED.append((name, given))
    return f"{name} says {len(CALLED)}"


def add(a: int, b: int) -> str:
    """Add."""
    return note("add", a=a, b=b)


def look(what: str) -> str:
    """Look something up."""
    return note("look", what=what)


def now() -> str:
    """The time."""
    return note("now")


TOOLS = [Tool(function.__name__, function, effects="read") for function in (add, look, now)]


def problem(server: OpenAIServer, form: VendorReply, *, stream: bool) -> str:
    """What an agent makes of the reply that it should not."""
    CALLED.clear()
    server.replies[:] = [form.streamed() if stream else form.whole(), "Done."]
    agent = Agent(model(server, stream=stream), TOOLS, strategy="tool_calling")
    events = list(agent.stream("Go"))
    text = "".join(event.text + event.answer for event in events if isinstance(event, Delta))
    text += "".join(event.reply.text for event in events if isinstance(event, Replied))
    answer = events[-1].answer if isinstance(events[-1], Finished) else f"{events[-1]}"
    if (answer, CALLED) != ("Done." if form.calls else form.answer, list(form.calls)):
        return f"{answer!r} after {CALLED}"
    if len(server.replies) != (0 if form.calls else 1):
        return "the engine was asked more than once"
    text.encode()
    return f"a thought is shown: {text!r}" if SECRET in text else ""


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_forms_of_vendors_are_read(stream: bool) -> None:
    with OpenAIServer() as server:
        server.replies += [PROBED]
        assert asyncio.run(model(server).abilities(native=True)).calls_tools
        problems = {name: problem(server, form, stream=stream) for name, form in FORMS.items()}
    assert {name: wrong for name, wrong in problems.items() if wrong} == {}
