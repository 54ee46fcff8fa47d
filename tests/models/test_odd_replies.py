"""What vendors send, changed in any place, is a reply that can be sent back, or one of our errors."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fakes.faithful import QUESTION
from fakes.vendors import VENDORS, VendorServer
from models.test_vendor_rules import add, look, model
from retinue import Agent, Message
from retinue.core.values import AgentAction, Reply
from retinue.errors import RetinueError
from retinue.models.reply_reader import ReplyReader
from retinue.models.wire_format import Encoded, Wire

ODD: Sequence[Any] = (
    *(None, True, -1, 0, 1, 1.5, 10**20, "", "x", "thinking", [], {}, [None], [1], ["x"], [[]], [{}]),
    *({"a": 1}, {"type": 1}, {"type": "text"}, {"type": "thinking"}, {"text": None}),
)
Sent = tuple[Wire, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def sent() -> list[Sent]:
    """The bodies, or events, of each reply of each vendor, streamed and whole, and the wire that reads them."""
    found: list[Sent] = []

    class Recorder(ReplyReader):
        __slots__ = ("_bodies",)

        def __init__(self, wire: Wire, *given: Any, **more: Any) -> None:
            super().__init__(wire, *given, **more)
            self._bodies: list[dict[str, Any]] = []
            found.append((wire, self._bodies))

        def take(self, bodies: Sequence[Any]) -> Iterator[Any]:
            self._bodies += copy.deepcopy([one for one in bodies if isinstance(one, dict)])
            return super().take(bodies)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("retinue.models.engine.ReplyReader", Recorder)
        for vendor in VENDORS:
            for stream in (True, False):
                with VendorServer(vendor) as server:
                    Agent(model(server, stream=stream), [add, look], strategy="tool_calling").run(QUESTION)
    return [one for one in found if one[1]]  # and not what was refused


def changed(bodies: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    """The bodies in another order, without one, with one twice, or with something else in some place."""
    bodies = copy.deepcopy(bodies)
    for _ in range(chance.choice([1, 1, 2, 3])):
        match chance.randrange(12) if bodies else -1:
            case 0:
                chance.shuffle(bodies)
            case 1:
                del bodies[chance.randrange(len(bodies))]
            case 2:
                bodies.append(copy.deepcopy(chance.choice(bodies)))
            case number if number > 2:
                inside, key = chance.choice(list(places(chance.choice(bodies))) or [({"x": 1}, "x")])
                if chance.random() < 0.3:
                    del inside[key]
                else:
                    inside[key] = copy.deepcopy(chance.choice(ODD))
    return bodies


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything within a value, as what it is in and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def read(wire: Wire, bodies: Sequence[Any]) -> Reply:
    reader = ReplyReader(wire, (), in_json=False, redacted=str)
    for body in bodies:
        list(reader.take([copy.deepcopy(body)]))
    reader.find_paused_turn("here")
    list(reader.flush_rest())
    return reader.reply("here")


def send_back(wire: Wire, reply: Reply) -> Any:
    calls = tuple(AgentAction(one.tool, one.tool_input, id=f"call_1_{at}") for at, one in enumerate(reply.calls))
    turn = Message("assistant", reply.text, calls, state=reply.state)
    results = [Message("tool", "seen", call_id=one.id, tool=one.tool) for one in calls]
    return json.loads(
        wire.write_body(b'{"x": 1', wire.encode_messages(Encoded(), [Message("user", "Go."), turn, *results]))
    )


def test_no_reply_is_too_odd(sent: list[Sent], full: bool) -> None:
    chance = random.Random(17)
    for _ in range(15_000 if full else 3_000):
        wire, bodies = chance.choice(sent)
        odd = changed(bodies, chance)
        try:
            reply = read(wire, odd)
        except RetinueError:
            continue
        assert send_back(wire, reply), odd


def test_what_is_unchanged_is_read(sent: list[Sent]) -> None:
    for wire, bodies in sent:
        assert send_back(wire, read(wire, bodies)), bodies
