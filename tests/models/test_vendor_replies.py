"""Vendors' forms of a reply, streamed and whole, through the library."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from fakes.engines import ENGINES, PROBED, model
from fakes.openai_server import OpenAIServer
from fakes.scripted_server import Answer, sse
from fakes.vendor_forms import ADD, ADD_ARGUMENTS, FORMS, LOOK, LOOK_ARGUMENTS, SECRET, VendorReply
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
    called, wanted = sorted(CALLED, key=repr), sorted(form.calls, key=repr)  # they run side by side
    if (answer, called) != ("Done." if form.calls else form.answer, wanted):
        return f"{answer!r} after {CALLED}"
    if len(server.replies) != (0 if form.calls else 1):
        return "the engine was asked more than once"
    text.encode()
    thoughts = [event.reply.reasoning for event in events if isinstance(event, Replied)]
    shown = "".join(event.reasoning for event in events if isinstance(event, Delta))
    if "".join(thoughts) != shown:
        return f"{shown!r} is shown of the thoughts {thoughts}"
    if (SECRET in thoughts[0]) != (SECRET in f"{form.message} {form.deltas if stream else ''}"):
        return f"the thoughts are {thoughts}"
    return f"a thought is shown: {text!r}" if SECRET in text else ""


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_forms_of_vendors_are_read(stream: bool) -> None:
    with OpenAIServer() as server:
        server.replies += [PROBED]
        assert asyncio.run(model(server).abilities(native=True)).calls_tools
        problems = {name: problem(server, form, stream=stream) for name, form in FORMS.items()}
    assert {name: wrong for name, wrong in problems.items() if wrong} == {}


def start(at: int, name: str, arguments: str, index: int = 0) -> dict[str, Any]:
    call = {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": call}}}


def use(at: int, name: str, given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": f"c{at}", "name": name, "input": given}
    return {"type": "content_block_start", "index": 1, "content_block": block}


def lines(*bodies: Any) -> bytes:
    return "".join(f"{json.dumps(body)}\n" for body in bodies).encode()


BOTH = [{"function": {"name": "add", "arguments": ADD[1]}}, {"function": {"name": "look", "arguments": LOOK[1]}}]
OTHERS = {
    "cohere, all at index 0": (
        "cohere",
        sse(
            start(1, "add", ""),
            {"type": "tool-call-delta", "index": 0}
            | {"delta": {"message": {"tool_calls": {"function": {"arguments": ADD_ARGUMENTS}}}}},
            start(2, "look", LOOK_ARGUMENTS),
            {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
        ),
    ),
    "anthropic, all at index 1": (
        "anthropic",
        sse(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": SECRET}},
            use(1, "add", {}),
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{"}},
            {"type": "content_block_delta", "index": 1}
            | {"delta": {"type": "input_json_delta", "partial_json": ADD_ARGUMENTS[1:]}},
            use(2, "look", LOOK[1]),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        ),
    ),
    "ollama, as JSON": (
        "ollama",
        Answer(body=lines({"message": {"thinking": SECRET, "tool_calls": BOTH}}, {"message": {}, "done": True})),
    ),
}


@pytest.mark.parametrize(("engine", "answer"), OTHERS.values(), ids=OTHERS)
def test_other_formats_are_as_careless(engine: str, answer: Answer) -> None:
    CALLED.clear()
    with ENGINES[engine]() as server:
        server.replies += [PROBED, answer, "Done."]
        assert Agent(model(server), TOOLS, strategy="tool_calling").run("Go").answer == "Done."
    assert sorted(CALLED, key=repr) == [ADD, LOOK]  # they run side by side
