"""A person decides on what a tool of the server's would do: as outputs of the call that the run waits with.

`book` writes a line into a ledger for each time it runs, and runs only with a person's approval.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, each, in_short, of, opened, recorder, refused
from fakes.served import Served

pytestmark = MARKS
BOOKED = "2 at Nopi"


class Ledger:
    """What was booked since it was opened."""

    def __init__(self, server: Served) -> None:
        self._path = server.db.with_name("ledger.txt")
        self._before = len(self._lines())

    def _lines(self) -> list[str]:
        return self._path.read_text("utf-8").splitlines() if self._path.exists() else []

    @property
    def new(self) -> list[str]:
        return self._lines()[self._before :]


@pytest.fixture
def ledger(deployed: Served) -> Ledger:
    return Ledger(deployed)


async def waiting(client: Any, question: str = "Please book a table") -> Any:
    """A run that waits for a person."""
    who = await of(client.beta.assistants.create(model="waiter"))
    thread: Any = {"messages": [{"role": "user", "content": question}]}
    return await of(client.beta.threads.create_and_run_poll(assistant_id=who.id, thread=thread))


def calls(run: Any) -> list[Any]:
    return list(run.required_action.submit_tool_outputs.tool_calls)


async def decided(client: Any, run: Any, *decisions: Any) -> Any:
    """The run after a decision on each call, as text or JSON."""
    texts = [decision if isinstance(decision, str) else json.dumps(decision) for decision in decisions]
    given = [{"tool_call_id": call.id, "output": text} for call, text in zip(calls(run), texts, strict=True)]
    submit = client.beta.threads.runs.submit_tool_outputs_and_poll
    return await of(submit(run_id=run.id, thread_id=run.thread_id, tool_outputs=given))


async def answer(client: Any, run: Any) -> str:
    (message,) = (await of(client.beta.threads.messages.list(run.thread_id, run_id=run.id))).data
    return str(message.content[0].text.value)


async def test_a_run_waits_with_the_call_itself(client: Any, ledger: Ledger) -> None:
    run = await waiting(client)
    assert run.status == "requires_action"
    (call,) = calls(run)
    assert (call.type, call.function.name) == ("function", "book")
    assert json.loads(call.function.arguments) == {"place": "Nopi", "people": 2}
    assert ledger.new == []
    (step,) = [one async for one in each(client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id))]
    assert (step.type, step.status, step.step_details.tool_calls[0].id) == ("tool_calls", "in_progress", call.id)


async def test_what_it_was_asked_stays_though_its_thread_loses_the_question(client: Any, ledger: Ledger) -> None:
    run = await waiting(client)
    (question,) = (await of(client.beta.threads.messages.list(run.thread_id))).data
    await of(client.beta.threads.messages.delete(question.id, thread_id=run.thread_id))
    outputs = [{"tool_call_id": calls(run)[0].id, "output": "approve"}]
    runs = client.beta.threads.runs
    done = await of(runs.submit_tool_outputs_and_poll(run_id=run.id, thread_id=run.thread_id, tool_outputs=outputs))
    assert (done.status, ledger.new) == ("completed", [BOOKED])


DECISIONS: list[tuple[Any, list[str], str]] = [
    ("approve", [BOOKED], "It is booked."),
    ({"decision": "approve"}, [BOOKED], "It is booked."),
    ({"decision": "edit", "arguments": {"place": "Rules", "people": 3}}, ["3 at Rules"], "It is booked."),
    ({"decision": "reject", "message": "too dear"}, [], "Then not."),
    ("They are full today.", [], "They are full."),
]


@pytest.mark.parametrize(
    ("decision", "booked", "said"), DECISIONS, ids=["word", "approve", "edit", "reject", "respond"]
)
async def test_what_a_person_may_say(client: Any, ledger: Ledger, decision: Any, booked: list[str], said: str) -> None:
    run = await decided(client, await waiting(client), decision)
    assert (run.status, await answer(client, run)) == ("completed", said)
    assert ledger.new == booked
    steps = [one async for one in each(client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id))]
    assert [(step.type, step.status) for step in steps] == [
        ("message_creation", "completed"),
        ("tool_calls", "completed"),
    ]
    (call,) = steps[1].step_details.tool_calls
    if said == "It is booked.":
        assert call.function.output == f"{booked[0][5:]} is booked for {booked[0][0]}"


async def test_each_of_several_calls_is_decided_on(client: Any, ledger: Ledger) -> None:
    run = await waiting(client, "Please book two tables")
    assert [json.loads(call.function.arguments)["place"] for call in calls(run)] == ["Nopi", "Rules"]
    first, second = (call.id for call in calls(run))
    only: Any = [{"tool_call_id": first, "output": "approve"}]
    expected = f"Expected tool outputs for call_ids {[first, second]}, got {[first]}"
    with refused(openai.BadRequestError, expected):
        await of(client.beta.threads.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=only))
    assert ledger.new == []
    run = await decided(client, run, "approve", {"decision": "reject", "message": "too many"})
    assert (run.status, await answer(client, run), ledger.new) == ("completed", "One of two.", [BOOKED])


@pytest.mark.parametrize(
    "decision",
    [
        '{"decision": "reject", "decision": "approve"}',
        '{"decision": "edit", "arguments": {"place": "Rules", "people": 3, "people": 30}}',
    ],
)
async def test_a_decision_that_says_something_twice_decides_nothing(client: Any, ledger: Ledger, decision: str) -> None:
    run = await waiting(client)
    with refused(openai.BadRequestError, "Invalid decision: an object has a duplicate key."):
        await decided(client, run, decision)
    assert ledger.new == []
    assert (await decided(client, run, "approve")).status == "completed"


async def test_an_approval_that_arrives_twice_counts_once(client: Any, ledger: Ledger) -> None:
    run = await waiting(client)
    first = await decided(client, run, "approve")
    assert await decided(client, run, "approve") == first
    assert (first.status, ledger.new) == ("completed", [BOOKED])


async def test_nothing_runs_after_a_cancel(client: Any, ledger: Ledger) -> None:
    run = await waiting(client)
    await of(client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id))
    with refused(openai.BadRequestError, 'Runs in status "cancelled" do not accept tool outputs.'):
        await decided(client, run, "approve")
    assert ledger.new == []


async def test_an_approval_is_streamed_on(client: Any, ledger: Ledger) -> None:
    who = await of(client.beta.assistants.create(model="waiter"))
    thread: Any = {"messages": [{"role": "user", "content": "Please book a table"}]}
    asking = client.beta.threads.create_and_run_stream(assistant_id=who.id, thread=thread)
    async with opened(asking) as stream:
        run = await of(stream.get_final_run())
    given = [{"tool_call_id": call.id, "output": "approve"} for call in calls(run)]
    options = {"run_id": run.id, "thread_id": run.thread_id, "tool_outputs": given, "event_handler": recorder(client)}
    async with opened(client.beta.threads.runs.submit_tool_outputs_stream(**options)) as stream:
        events = in_short([event.event async for event in each(stream)])
        (message,) = await of(stream.get_final_messages())
    assert "thread.run.queued" in events
    assert (events[-1], message.content[0].text.value) == ("thread.run.completed", "It is booked.")
    assert ledger.new == [BOOKED]


def test_a_run_waits_through_a_crash_and_its_approval_may_come_twice(deployed_apart: Served) -> None:
    server, ledger = deployed_apart, Ledger(deployed_apart)
    with server.client() as client:
        who = client.beta.assistants.create(model="waiter")
        thread: Any = {"messages": [{"role": "user", "content": "Please book a table"}]}
        run = client.beta.threads.create_and_run_poll(assistant_id=who.id, thread=thread)
    server.kill()
    server.restart()
    with server.client() as client:
        assert client.beta.threads.runs.retrieve(run.id, thread_id=run.thread_id) == run
        given: Any = [{"tool_call_id": call.id, "output": "approve"} for call in calls(run)]
        submit = client.beta.threads.runs.submit_tool_outputs
        runs = [submit(run.id, thread_id=run.thread_id, tool_outputs=given) for _ in range(2)]
        assert {one.id for one in runs} == {run.id}
        done = client.beta.threads.runs.poll(run.id, thread_id=run.thread_id)
        (message, _) = client.beta.threads.messages.list(run.thread_id).data
    assert (done.status, message.content[0].to_dict()["text"]) == (
        "completed",
        {"value": "It is booked.", "annotations": []},
    )
    assert ledger.new == [BOOKED]
    server.kill()
    server.restart()
    with server.client() as client:
        assert client.beta.threads.runs.retrieve(run.id, thread_id=run.thread_id) == done
        assert client.beta.threads.messages.list(run.thread_id).data[0] == message
    assert (ledger.new, server.stop()) == ([BOOKED], 0)
