"""What a store keeps of long conversations and long results: a thread goes on from its last summary, also in another
process, and every result is read in full later."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.test_context import Looker, Reader, check_answers, compacted, look, said, script
from retinue import Agent, Hook, Message, tool
from retinue.core.events import Asked, Observed, Said
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.run_texts import PROCESS, unpack_text
from retinue.core.values import AgentAction, Reply, Usage
from retinue.store.run_texts import find_call_text

pytestmark = pytest.mark.anyio


async def test_a_thread_keeps_its_facts_and_orders(any_url: str, full: bool) -> None:
    model, answers = Reader(20_000 if full else 6_000), list[str]()
    turns = 300 if full else 100
    agent = Agent(model, name="reader", store=any_url)
    thread = agent.thread("long")
    for at, text in enumerate(script(turns, 3)):
        answers.append((await thread.run_async(text)).text)
        if at == turns // 2:
            await agent.aclose()  # it is opened again
    await agent.aclose()
    check_answers(answers)
    assert 2 <= model.summaries <= 40
    assert not any(key[2] == "reader" for key in PROCESS.summaries), "the store has them"


async def test_a_summary_is_found_by_another_process_and_of_no_other_user(any_url: str) -> None:
    history = said(20)
    for user, summaries in (("kim", True), ("kim", False), ("lee", True), (None, True), (None, False)):
        model = Reader(2_000)
        agent = Agent(model, name="reader", store=any_url)
        options: dict[str, Any] = {} if user is None else {"user": user}
        result = await agent.run_async("ROOM 1?", history=history, **options)
        await agent.aclose()
        assert bool(model.summaries) == summaries, user
        assert [one.tier for one in compacted(result.events)] == ["summary"]


async def read_results(agent: Agent, run_id: str, calls: Sequence[str]) -> list[str]:
    database = (await agent.runs._store()).database
    found = [await database.read(partial(find_call_text, run_id=run_id, call=call)) for call in calls]
    return ["" if one is None else unpack_text(one) for one in found]


async def test_each_long_result_is_kept_with_its_run(any_url: str) -> None:
    agent = Agent(Looker(8_000), [look], max_steps=60, name="looks", store=any_url)
    result = await agent.run_async("Look!")
    seen = [one.observation for one in result.events if isinstance(one, Observed)]
    assert "The end of page 1 is 37." in seen[1].text
    cut = [one for one in seen if one.size]
    assert len(cut) == len(seen) - 1
    texts = await read_results(agent, result.run, [one.call_id for one in cut])
    numbers = [1, *range(3, 40)]
    assert texts == [look(number) for number in numbers]
    forked = await agent.runs.fork_async(result.run, 3)
    assert (await read_results(agent, forked.run, ["call_1_0"])) == texts[:1]
    await agent.aclose()


class Dying(Reader):
    """Kills its process at a moment, if there is one."""

    moment = ""

    def say(self, messages: Sequence[Message], text: str) -> str:
        die_at("summary" if messages[0].content.startswith("You keep the notes") else "reply")
        return super().say(messages, text)


def die_at(moment: str) -> None:
    if Dying.moment == moment:
        os.kill(os.getpid(), signal.SIGKILL)


def judge(event: Asked, context: object) -> None:
    if not event.aside:
        die_at("asked")


def dying(store: str) -> tuple[Agent, Dying]:
    model = Dying(2_000)
    return Agent(model, name="reader", store=store, hooks=[Hook("before_model", judge)]), model


def die(store: str, moment: str) -> None:
    Dying.moment = moment
    dying(store)[0].run("ROOM 1?", history=said(20))


def recover(store: str) -> None:
    """Tell what became of the run that died, and whether a summary was made."""
    agent, model = dying(store)
    with agent:
        (result,) = agent.recover()
        kinds = [type(one).__name__ for one in result.events if not isinstance(one, Said)]
        sys.stdout.write(json.dumps([kinds, model.summaries, len(agent.recover())]))


REST = [pytest.param(one, marks=pytest.mark.full) for one in ("summary", "reply")]


@pytest.mark.parametrize("moment", ["asked", *REST])
def test_a_process_is_killed_while_a_conversation_is_compacted(any_url: str, moment: str) -> None:
    def run(call: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", f"from durable.test_context_kept import *; {call}"]
        where = Path(__file__).parents[1]
        return subprocess.run(program, capture_output=True, timeout=60, cwd=where, text=True, check=False)

    assert run(f"die({any_url!r}, {moment!r})").returncode == -signal.SIGKILL
    kinds, summaries, left = json.loads(run(f"recover({any_url!r})").stdout)
    assert (kinds, left) == (["Started", "Compacted", "Asked", "Replied", "Finished"], 0)
    if moment != "asked":  # where it may be written, or not yet
        assert bool(summaries) == (moment == "summary")


async def test_memory_stays_flat_over_many_long_results(any_url: str, full: bool) -> None:
    """A prompt within the window, and each result in full afterwards."""
    model = Fetcher(1_000 if full else 120)
    agent = Agent(model, [fetch], max_steps=1_100, name="fetches", store=any_url)
    result = await agent.run_async("Fetch all.")
    seen = [one.observation for one in result.events if isinstance(one, Observed)]
    assert (result.text, len(seen)) == ("done", model.most)
    assert model.sizes[-1] - model.sizes[0] < 30_000_000, "bytes between a fifth of the way and the end"
    texts = await read_results(agent, result.run, [one.call_id for one in seen])
    assert all(text == fetch(number) for number, text in enumerate(texts, 1))
    assert len(compacted(result.events)) < len(seen) / 4
    await agent.aclose()


@tool(effects="read")
def fetch(number: int) -> str:
    """Fetch a page."""
    draw = random.Random(number)
    return f"page {number} {' '.join(str(draw.random()) for _ in range(1_050))}"


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


class Fetcher(Reader):
    """Fetches so many pages, and notes the size of its process."""

    def __init__(self, most: int) -> None:
        super().__init__(20_000)
        self.most, self.step, self.sizes = most, 0, list[int]()

    async def reply(self, request: Ask) -> Chunks:
        messages = request.prompt.messages
        size = sum(len(one.content) for one in messages) // 3
        assert size < self.window
        if messages[0].content.startswith("You keep the notes"):
            yield Reply("All pages so far were fetched.", Usage(size, 9, 0, 1))
            return
        self.step += 1
        if self.step in (self.most // 5, self.most):
            self.sizes.append(resident())
        calls = (AgentAction("fetch", {"number": self.step}),) if self.step <= self.most else ()
        yield Reply("" if calls else "done", Usage(size, 9, 0, 1), calls=calls)
