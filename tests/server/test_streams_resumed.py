"""Streams that are cut and go on: each event once, whatever happened to the reader, the connection or the server."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from chaos.harness import died
from chaos.streams import ASSISTANTS, RESPONSES, Kind, cut
from fakes.app_server import KEY, Serving, answering
from fakes.sdk import MARKS, WEATHER
from fakes.served import Served, serving
from fakes.streams import DONE, Streams, Told
from retinue import Agent, PromptModel
from retinue.server.http import sse
from retinue.store.api_keys import create_key

pytestmark = MARKS
SPEAKER = """
retinue: 1
components:
  - name: fake
    type: PromptModel
    params: {engine: scripted, script: [{pace: 0.03, say: "${SAYS}"}]}
agents:
  - {name: plain, params: {model: fake, strategy: tool_calling, tools: []}}
"""
SAYS = "One two three four five six seven eight."


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


@pytest.fixture
def speaker(tmp_path: Path) -> Any:
    with serving(tmp_path, SPEAKER, env={"SAYS": SAYS}) as served:
        yield served


async def asked(client: Streams, question: str, model: str = "plain") -> tuple[str, dict[str, Any]]:
    """Where the runs of a new thread with a question are, and what a streamed one is made with."""
    assistant = await client.ask("POST", "/assistants", {"model": model, "tools": [WEATHER]})
    thread = await client.ask("POST", "/threads", {"messages": [{"role": "user", "content": question}]})
    return f"/threads/{thread['id']}/runs", {"assistant_id": assistant["id"], "stream": True}


def numbers(events: list[Told]) -> list[int | None]:
    assert events[-1] == Told(DONE, None)
    return [event.number for event in events[:-1]]


def spoken(events: list[Told]) -> dict[str, str]:
    """By message, what its deltas add up to."""
    texts: dict[str, str] = {}
    for event in events:
        if event.name == "thread.message.delta":
            said = event.data["delta"]["content"][0]["text"]["value"]
            texts[event.data["id"]] = texts.get(event.data["id"], "") + said
    return texts


def texts(messages: Any) -> dict[str, str]:
    """By message, what is stored of it."""
    return {one["id"]: one["content"][0]["text"]["value"] for one in messages["data"] if one["role"] == "assistant"}


@pytest.mark.parametrize(
    ("model", "question"),
    [
        ("plain", "Say it word by word."),
        ("react", "Hello"),
        ("planexec", "Hello"),
        ("tool_calling", "What is 2 to the power of 3?"),
        ("plain", "Two cities?"),
        ("plain", "Please break off"),
        ("plain", "Something unheard of"),
    ],
)
async def test_a_stream_that_is_cut_at_any_event_goes_on_with_the_next(
    deployed: Served, session: aiohttp.ClientSession, model: str, question: str
) -> None:
    client = Streams(deployed.url, deployed.key, session)
    runs, body = await asked(client, question, model)
    whole = await client.read(runs, body=body)
    run = f"{runs}/{whole[0].data['id']}"
    if whole[-2].name == "thread.run.requires_action":
        whole.pop()  # what it goes on with is told in another stream, whose numbers go on, too
        calls = whole[-1].data["required_action"]["submit_tool_outputs"]["tool_calls"]
        outputs = [{"tool_call_id": call["id"], "output": f"{21 - 2 * at} degrees"} for at, call in enumerate(calls)]
        whole += await client.read(f"{run}/submit_tool_outputs", body={"tool_outputs": outputs, "stream": True})
    assert numbers(whole) == list(range(1, len(whole)))
    for last in range(len(whole)):
        assert await client.read(run, last=last) == whole[last:], last
    assert await client.read(f"{run}?stream=true") == whole
    answer = await session.get(f"{client.url}{run}?stream=true", headers={"Authorization": f"Bearer {deployed.key}"})
    assert (await answer.text()).startswith("retry: 1000\nid: 1\nevent: thread.run.created\ndata: {")
    assert await client.read(f"{run}?stream=true&starting_after=3") == whole[3:]
    assert spoken(whole) == texts(await client.ask("GET", f"{runs[:-5]}/messages"))


async def test_a_stream_that_is_cut_while_the_run_goes_on_misses_nothing_of_it(
    deployed: Served, session: aiohttp.ClientSession
) -> None:
    client = Streams(deployed.url, deployed.key, session)

    async def pieces(each: int) -> None:
        runs, body = await asked(client, "Say it word by word.")
        found = await client.read(runs, most=each, body=body)
        run = f"{runs}/{found[0].data['id']}"
        while found[-1].text != DONE:
            found += await client.read(run, last=found[-1].number, most=each)
        assert numbers(found) == list(range(1, len(found)))
        assert found == await client.read(run)
        assert list(spoken(found).values()) == ["One word comes after the other."]

    await asyncio.gather(*(pieces(each) for each in (1, 2, 3, 5, 7)))


async def through_a_kill(served: Served, client: Streams, after: dict[str, str]) -> tuple[str, list[Told], list[Told]]:
    """A stream that is cut by the server's death in the middle of a reply, and goes on with the next server, which has
    another environment: the messages' address, what was told before, and all."""
    served.stop()
    served.restart(RETINUE_CRASHPOINT="mid-reply:5")
    runs, body = await asked(client, "Speak.")
    found: list[Told] = []
    assert await client.go_on(found, runs, body=body) == "cut"
    before = list(found)
    assert await died(served.process) != 0
    served.kill()
    await asyncio.to_thread(served.restart, **after)
    run = f"{runs}/{found[0].data['id']}"
    found += await client.read(run, last=found[-1].number)
    assert numbers(found) == list(range(1, len(found)))
    assert found == await client.read(run)
    return f"{runs[:-5]}/messages", before, found


async def test_a_reply_that_a_kill_cut_goes_on_where_it_was(speaker: Served, session: aiohttp.ClientSession) -> None:
    client = Streams(speaker.url, speaker.key, session)
    messages, before, told = await through_a_kill(speaker, client, {})
    assert "" not in spoken(before).values()
    assert list(spoken(told).values()) == [SAYS]
    assert spoken(told) == texts(await client.ask("GET", messages))
    assert [event.name for event in told].count("thread.message.created") == 1


async def test_where_it_says_something_else_then_the_message_ends_and_another_begins(
    speaker: Served, session: aiohttp.ClientSession
) -> None:
    client = Streams(speaker.url, speaker.key, session)
    messages, before, told = await through_a_kill(speaker, client, {"SAYS": "Something else."})
    (shown,) = spoken(before).values()
    assert list(spoken(told).values()) == [shown, "Something else."]
    stored = await client.ask("GET", f"{messages}?order=asc")
    assert spoken(told) == texts(stored)
    assert [(one["status"], one["incomplete_details"]) for one in stored["data"][1:]] == [
        ("incomplete", {"reason": "run_failed"}),
        ("completed", None),
    ]
    ends = {event.data["id"]: event.data for event in told if event.name.startswith("thread.message.")}
    assert [ends[one["id"]] for one in stored["data"][1:]] == stored["data"][1:]


@pytest.mark.full
async def test_a_run_that_ends_its_process_in_the_middle_of_a_reply_is_given_up(
    speaker: Served, session: aiohttp.ClientSession
) -> None:
    client = Streams(speaker.url, speaker.key, session)
    speaker.stop()
    speaker.restart(RETINUE_CRASHPOINT="mid-reply:3")
    runs, body = await asked(client, "Speak.")
    found, deaths = list[Told](), 0
    end = await client.go_on(found, runs, body=body)
    while end == "cut":  # there is a reader each time, so each time something is written
        deaths += 1
        await died(speaker.process)
        speaker.kill()
        if deaths == 6:  # more than would do if a tool was called; then as if it were the ninth, for each takes seconds
            deaths = 9
            with closing(sqlite3.connect(speaker.db)) as runs_db, runs_db:
                runs_db.execute("UPDATE runs SET attempts = ?", (deaths,))
        await asyncio.to_thread(speaker.restart, RETINUE_CRASHPOINT="mid-reply:3")
        end = await client.go_on(found, f"{runs}/{found[0].data['id']}", last=found[-1].number)
    assert 10 <= deaths <= 12  # and not five: no tool of the run was called meanwhile
    assert found[-2].name == "thread.run.failed"
    assert "ended 10 times" in found[-2].data["last_error"]["message"]
    assert spoken(found) == texts(await client.ask("GET", f"{runs[:-5]}/messages"))


@pytest.mark.parametrize("last", ["999", "-1", "x", "1e3", "٣", "9" * 30])
def test_an_event_that_was_never_told_is_refused(served: Serving, last: str) -> None:
    runs, run = ran(served)
    answer = served.ask("GET", f"{runs}/{run}?stream=true", headers={"Last-Event-ID": last.encode().decode("latin-1")})
    assert (answer.status, "Last-Event-ID" in answer.error["message"]) == (400, True)


def test_somebody_elses_run_cannot_be_read_on(served: Serving) -> None:
    runs, run = ran(served)
    key = served.in_loop(served.database.write(lambda connection: create_key(connection, "others")))
    for path in (f"{runs}/{run}", f"{runs}/run_{'0' * 24}"):
        answer = served.ask("GET", f"{path}?stream=true", key=key, headers={"Last-Event-ID": "2"})
        assert answer.status == 404


def ran(served: Serving) -> tuple[str, str]:
    """A run that has ended: where its thread's runs are, and its id."""
    assistant = served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
    thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Hi"}]}).body["id"]
    runs = f"/v1/threads/{thread}/runs"
    served.ask("POST", runs, {"assistant_id": assistant, "stream": True})
    return runs, served.ask("GET", runs).body["data"][0]["id"]


async def test_signs_of_life_disturb_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: aiohttp.ClientSession
) -> None:
    monkeypatch.setattr(sse, "_QUIET", 0.01)
    script = [{"say": SAYS, "pace": 0.05}]
    agents = {"plain": Agent(PromptModel(script=script), name="plain"), "agent-1": answering()}
    with Serving(tmp_path, agents) as served:
        runs, body = await asked(Streams(f"{served.url}/v1", KEY, session), "Speak.")
        options: Any = {"base_url": f"{served.url}/v1", "api_key": KEY, "_strict_response_validation": True}
        async with openai.AsyncOpenAI(**options) as client:
            thread, assistant = runs.split("/")[2], body["assistant_id"]
            stream = await client.beta.threads.runs.create(thread, assistant_id=assistant, stream=True)
            events = [event.event async for event in stream]
        assert events[-1] == "thread.run.completed"


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(ASSISTANTS, id="assistants"),
        pytest.param(RESPONSES, id="responses", marks=pytest.mark.full),  # which follow the same log
    ],
)
def test_streams_that_are_cut_anywhere_and_by_kills_are_whole(kind: Kind) -> None:
    seen = cut(6, 2, kind=kind, seed=1, told=lambda said: None)  # `create_key chaos` has 500
    assert not seen.broken, seen.problems
    assert seen.left > 6
