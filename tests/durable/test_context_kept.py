"""What a store keeps of long conversations and long results: a thread goes on from its last summary, also in another
process, and every result is read in full later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from core.test_context import Looker, Reader, check_answers, compacted, look, said, script
from retinue import Agent, Message
from retinue.core.events import Observed
from retinue.core.run_texts import PROCESS, unpack_text
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
    assert not any(key[2] == "reader" for key in PROCESS._summaries), "the store has them"


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
        history = history if user is None else [*said(20), *[Message("user", "More"), Message("assistant", "Yes")]]
        history = said(20)


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
