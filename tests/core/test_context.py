"""Conversations and runs that are longer than the model's window: long results are read on, old ones are cleared, and
turns are told in summaries. The model looks only at its prompt."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from retinue import Agent, Block, Context, Hook, Message, UsageError, fork, replay, tool
from retinue.core.events import EARLIER, Asked, Compacted, Event, Observed, Replied
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.run_texts import PROCESS
from retinue.core.serialization import from_json, to_json
from retinue.core.values import AgentAction, Capabilities, Reply, Usage
from retinue.errors import ModelUnavailable, WindowExceeded

ORDERS = ["Never email customers.", "Always answer in metric units.", "Do not touch the folder /srv.",
          "Never name prices.", "Call me Kim."]  # fmt: skip


def fact(number: int) -> str:
    return f"The code of room {number} is {7919 * (number + 1) % 100_000}."


@dataclass
class Reader:
    """A model that answers from its prompt alone. Its notes have the user's orders and all facts of what it is sent; it
    answers `ROOM n?` with the code, and repeats its orders."""

    window: int = 20_000
    fails: bool = False
    name: str = "reader"
    asked: list[Ask] = field(default_factory=list)
    summaries: int = 0

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(calls_tools=True, window=self.window)

    async def reply(self, request: Ask) -> Chunks:
        messages = request.prompt.messages
        text = "\n".join(one.content for one in messages)
        if len(text) / 3 > self.window:
            raise WindowExceeded("the prompt is too long")
        self.asked.append(request)
        yield Reply(self.say(messages, text), Usage(len(text) // 3, 9, 0, 1))

    def say(self, messages: Sequence[Message], text: str) -> str:
        facts = list(dict.fromkeys(re.findall(r"The code of room \d+ is \d+\.", text)))
        orders = [one for one in ORDERS if one in text]
        if messages[0].content.startswith("You keep the notes"):
            self.summaries += 1
            if self.fails:
                raise ModelUnavailable("no notes today")
            return "\n".join([*(f"> {one}" for one in orders), "> Email everybody.", *facts])
        asked = re.search(r"ROOM (\d+)\?", messages[-1].content)
        code = asked and re.search(rf"The code of room {asked[1]} is (\d+)\.", text)
        return f"{code[1] if code else 'ok'} [{len(orders)} orders]"


def script(turns: int, seed: int) -> list[str]:
    """What a user says: facts and orders at random places, and small talk. The last twenty ask for the facts."""
    draw = random.Random(seed)
    said = [f"Let us talk about thing {at}. {'It is a long story, as you know. ' * 9}" for at in range(turns - 20)]
    places = draw.sample(range(len(said) - 20), 25)
    for at, text in zip(places, [*map(fact, range(20)), *ORDERS], strict=True):
        said[at] = f"{said[at][:90]} {text}"
    return [*said, *(f"ROOM {number}?" for number in range(20))]


def check_answers(answers: Sequence[str]) -> None:
    """The answers to the last twenty questions: all orders are known in each, and at least 18 codes."""
    codes = [str(7919 * (number + 1) % 100_000) for number in range(20)]
    assert all(answer.endswith("[5 orders]") for answer in answers[-20:])
    assert sum(answer.startswith(code) for answer, code in zip(answers[-20:], codes, strict=True)) >= 18


@pytest.mark.parametrize("seed", [1, 2])
def test_a_conversation_of_300_turns_keeps_its_facts_and_orders(seed: int) -> None:
    model, history, answers = Reader(), list[Message](), []
    agent = Agent(model, name=f"reader{seed}")
    for said in script(300, seed):
        result = agent.run(said, history=history)
        history += [Message("user", said), Message("assistant", result.text)]
        answers.append(result.text)
    check_answers(answers)
    assert max(sum(len(one.content) for one in asked.prompt.messages) for asked in model.asked) < 60_000
    assert 2 <= model.summaries <= 30, "a summary is made for many turns"


def said(turns: int, words: int = 60) -> list[Message]:
    return [
        Message("user" if at % 2 == 0 else "assistant", f"{ORDERS[0] if at == 2 else at} {'word ' * words}")
        for at in range(2 * turns)
    ]


def compacted(events: Sequence[Event]) -> list[Compacted]:
    return [one for one in events if isinstance(one, Compacted)]


def test_only_true_quotes_are_pinned() -> None:
    result = Agent(Reader(2_000), name="pins").run("ROOM 1?", history=said(20))
    (made,) = [one for one in compacted(result.events) if one.tier == "summary"]
    assert (made.prompt, made.pinned) == (EARLIER, (ORDERS[0],))
    text = next(filter(None, made.texts))
    assert f"> {ORDERS[0]}\n" in text
    assert "> Email everybody." not in text
    assert result.usage.requests == 1 + made.usage.requests
    assert made.usage.requests > 1, "the conversation is longer than the window, and told in pieces"


def test_a_fork_without_compactions_shows_everything() -> None:
    history = said(20)
    result = Agent(Reader(2_000), name="forked").run("ROOM 1?", history=history)
    wide = Reader(50_000, name="wide reader")
    full = asyncio.run(fork(Agent(wide, name="forked"), result, 0, compacted=False).finish())
    assert [one.content for one in wide.asked[-1].prompt.messages[:-1]] == [one.content for one in history]
    assert not compacted(full.events)
    kept = asyncio.run(fork(Agent(wide, name="forked"), result, 0).finish())
    assert compacted(kept.events) == compacted(result.events)


def test_a_summary_that_fails_gives_way_to_less() -> None:
    for model in (Reader(2_000, fails=True), Reader(2_000)):
        hooks = [] if model.fails else [Hook("before_model", refuse_notes)]
        result = Agent(model, name="fails", hooks=hooks).run("ROOM 1?", history=said(20))
        assert result.answered
        assert [one.tier for one in compacted(result.events)] == ["drop"]


def refuse_notes(event: Asked, context: Any) -> Any:
    return Block("no notes") if event.aside else None


def test_a_run_goes_on_from_each_of_its_events_without_a_second_summary() -> None:
    agent = Agent(Reader(2_000), name="cut")
    log = [from_json(to_json(one)) for one in agent.run("ROOM 1?", history=said(20)).events]
    assert compacted(log)
    for cut in range(1, len(log)):
        model = Reader(2_000)
        PROCESS.summaries.clear()  # as after a crash
        result = Agent(model, name="cut").resume(log[:cut])
        assert [to_json(one) for one in timeless(result.events)] == [to_json(one) for one in timeless(log)]
        assert bool(model.summaries) == (not compacted(log[:cut]))
    assert replay(agent, log).agrees


def timeless(log: Sequence[Event]) -> list[Event]:
    from dataclasses import replace as other

    return [
        other(one, reply=other(one.reply, seconds=0, first_token_seconds=0)) if isinstance(one, Replied) else one
        for one in log
    ]


@tool(effects="read")
def look(number: int) -> str:
    """Look at a page."""
    return f"page {number} begins. {'words and more words. ' * 950}The end of page {number} is {number * 37}."


class Looker(Reader):
    """Looks at page after page, and reads the end of one that was cut if it is offered to read on."""

    pages = 40

    def say(self, messages: Sequence[Message], text: str) -> Any:
        return ""

    async def reply(self, request: Ask) -> Chunks:
        messages = request.prompt.messages
        if sum(len(one.content) for one in messages) / 3 > self.window:
            raise WindowExceeded("the prompt is too long")
        self.asked.append(request)
        step = len(self.asked)
        last = re.search(r'"id": "(res_\w+)"', messages[-1].content)
        calls: tuple[AgentAction, ...] = ()
        if step == 2 and last and any(one.name == "read_result" for one in request.tools):
            calls = (AgentAction("read_result", {"id": last[1], "pattern": "the end of page"}),)
        elif step < self.pages:
            calls = (AgentAction("look", {"number": step}),)
        yield Reply("" if calls else "done", Usage(9, 9, 0, 1), calls=calls)


def test_a_long_result_is_kept_and_read_on() -> None:
    model = Looker(8_000)
    result = Agent(model, [look], max_steps=60, name="looks").run("Look!")
    assert result.text == "done"
    seen = [one.observation for one in result.events if isinstance(one, Observed)]
    assert seen[0].size == len(look(1))
    assert len(seen[0].text) < 2_400
    assert "The end of page 1 is 37." in seen[1].text
    assert [[one.name for one in asked.tools] for asked in model.asked[:2]] == [["look"], ["look", "read_result"]]
    tiers = [one.tier for one in compacted(result.events)]
    assert set(tiers) == {"clear"}
    assert len(tiers) <= 6
    assert replay(Agent(Looker(8_000), [look], max_steps=60, name="looks"), result).agrees


def test_shares_are_checked() -> None:
    for share in (0, -1, "half"):
        with pytest.raises(UsageError, match="context: clear: want a share"):
            Context(clear=share)  # type: ignore[arg-type]
    with pytest.raises(WindowExceeded):
        Agent(Reader(300), context=False).run("x " * 2_000)
