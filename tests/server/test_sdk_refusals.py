"""What runs refuse, and how they end that do not end well. Clients match on these texts, to the letter."""

from __future__ import annotations

import re
from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, WEATHER, each, of, outputs, refused

pytestmark = MARKS


async def started(client: Any, question: str) -> Any:
    """A run of an assistant that has the client's tool, in a thread of its own."""
    who = await of(client.beta.assistants.create(model="plain", tools=[WEATHER]))
    thread: Any = {"messages": [{"role": "user", "content": question}]}
    return await of(client.beta.threads.create_and_run(assistant_id=who.id, thread=thread))


async def polled(client: Any, question: str) -> Any:
    run = await started(client, question)
    return await of(client.beta.threads.runs.poll(run.id, thread_id=run.thread_id))


# ── one active run in a thread ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("question", ["What is the weather?", "Wait for ever"], ids=["waiting", "working"])
async def test_a_thread_has_one_active_run(client: Any, question: str) -> None:
    run = await (started if "ever" in question else polled)(client, question)
    thread, runs = run.thread_id, client.beta.threads.runs
    with refused(openai.BadRequestError, f"Thread {thread} already has an active run {run.id}."):
        await of(runs.create(thread, assistant_id=run.assistant_id))
    with refused(openai.BadRequestError, f"Can't add messages to {thread} while a run {run.id} is active."):
        await of(client.beta.threads.messages.create(thread, role="user", content="Well?"))
    assert len([one async for one in each(client.beta.threads.messages.list(thread))]) == 1
    await of(runs.cancel(run.id, thread_id=thread))
    assert (await of(runs.poll(run.id, thread_id=thread))).status == "cancelled"
    await of(client.beta.threads.messages.create(thread, role="user", content="Hello"))
    run = await of(runs.create_and_poll(thread_id=thread, assistant_id=run.assistant_id))
    assert run.status == "completed"


# ── outputs of tools ─────────────────────────────────────────────────────────────────────────────


async def test_all_outputs_come_at_once(client: Any) -> None:
    run = await polled(client, "Compare two cities.")
    first, second = outputs(run)
    ids = [output["tool_call_id"] for output in (first, second)]
    for given in ([first], [second], [first, {"tool_call_id": "call_other", "output": ""}]):
        got = [output["tool_call_id"] for output in given]
        with refused(openai.BadRequestError, f"Expected tool outputs for call_ids {ids}, got {got}"):
            await of(client.beta.threads.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given))
    again = await of(client.beta.threads.runs.retrieve(run.id, thread_id=run.thread_id))
    assert again == run


async def test_outputs_sent_twice_count_once(client: Any) -> None:
    run = await polled(client, "What is the weather?")
    runs, given = client.beta.threads.runs, outputs(run)
    await of(runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given))
    again = await of(runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given))
    assert again.id == run.id
    done = await of(runs.poll(run.id, thread_id=run.thread_id))
    once_more = await of(runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given))
    assert (done.status, once_more) == ("completed", done)
    assert len([one async for one in each(client.beta.threads.messages.list(run.thread_id, run_id=run.id))]) == 1
    other: Any = [{**given[0], "output": "30 degrees"}]
    with refused(openai.BadRequestError, 'Runs in status "completed" do not accept tool outputs.'):
        await of(runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=other))


async def test_a_run_that_waits_for_nothing_takes_no_outputs(client: Any) -> None:
    run = await polled(client, "Hello")
    given: Any = [{"tool_call_id": "call_x", "output": "x"}]
    with refused(openai.BadRequestError, 'Runs in status "completed" do not accept tool outputs.'):
        await of(client.beta.threads.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given))


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("question", ["What is the weather?", "Wait for ever"], ids=["waiting", "working"])
async def test_a_run_is_cancelled(client: Any, question: str) -> None:
    run = await (started if "ever" in question else polled)(client, question)
    runs = client.beta.threads.runs
    run = await of(runs.cancel(run.id, thread_id=run.thread_id))
    assert run.status in ("cancelling", "cancelled")
    run = await of(runs.poll(run.id, thread_id=run.thread_id))
    assert (run.status, run.required_action, run.completed_at, run.last_error) == ("cancelled", None, None, None)
    assert run.cancelled_at >= run.created_at
    steps = [step async for step in each(runs.steps.list(run.id, thread_id=run.thread_id))]
    assert {step.status for step in steps} <= {"cancelled"}
    with refused(openai.BadRequestError, "Cannot cancel run with status 'cancelled'."):
        await of(runs.cancel(run.id, thread_id=run.thread_id))
    given: Any = [{"tool_call_id": "call_x", "output": "x"}]
    with refused(openai.BadRequestError, 'Runs in status "cancelled" do not accept tool outputs.'):
        await of(runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given))


async def test_a_run_that_is_over_is_not_cancelled(client: Any) -> None:
    for question, status in (("Hello", "completed"), ("Something unheard of", "failed")):
        run = await polled(client, question)
        with refused(openai.BadRequestError, f"Cannot cancel run with status '{status}'."):
            await of(client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id))


# ── failing ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_fails_and_the_thread_lives_on(client: Any) -> None:
    run = await polled(client, "Something unheard of")
    assert (run.status, run.last_error.code, run.completed_at) == ("failed", "server_error", None)
    assert run.last_error.message
    assert run.failed_at >= run.created_at
    assert [one async for one in each(client.beta.threads.messages.list(run.thread_id, run_id=run.id))] == []
    await of(client.beta.threads.messages.create(run.thread_id, role="user", content="Hello"))
    runs = client.beta.threads.runs
    again = await of(runs.create_and_poll(thread_id=run.thread_id, assistant_id=run.assistant_id))
    assert again.status == "completed"


@pytest.mark.parametrize(
    ("question", "said"),
    [("Please stumble", "Up again."), ("Are you busy?", "Free again."), ("Do break off", "one two three four")],
)
async def test_an_engine_that_fails_for_a_moment_is_asked_again(client: Any, question: str, said: str) -> None:
    run = await polled(client, question)
    (message,) = (await of(client.beta.threads.messages.list(run.thread_id, run_id=run.id))).data
    assert (run.status, message.content[0].text.value) == ("completed", said)


# ── what is not there, and what is wrong ─────────────────────────────────────────────────────────


async def test_unknown_ids(client: Any) -> None:
    run, other = await polled(client, "Hello"), await of(client.beta.threads.create())
    threads, given = client.beta.threads, {"tool_outputs": [{"tool_call_id": "call_x", "output": ""}]}
    unknown: list[tuple[str, Any]] = [
        ("No run found with id 'run_x'.", lambda: threads.runs.retrieve("run_x", thread_id=run.thread_id)),
        ("No run found with id 'run_x'.", lambda: threads.runs.cancel("run_x", thread_id=run.thread_id)),
        (
            "No run found with id 'run_x'.",
            lambda: threads.runs.submit_tool_outputs("run_x", thread_id=run.thread_id, **given),
        ),
        (f"No run found with id '{run.id}'.", lambda: threads.runs.retrieve(run.id, thread_id=other.id)),
        ("No thread found with id 'thread_x'.", lambda: threads.runs.retrieve(run.id, thread_id="thread_x")),
        ("No thread found with id 'thread_x'.", lambda: threads.runs.create("thread_x", assistant_id=run.assistant_id)),
        ("No assistant found with id 'asst_x'.", lambda: threads.runs.create(other.id, assistant_id="asst_x")),
        ("No assistant found with id 'asst_x'.", lambda: threads.create_and_run(assistant_id="asst_x")),
        (
            "No run step found with id 'step_x'.",
            lambda: threads.runs.steps.retrieve("step_x", thread_id=run.thread_id, run_id=run.id),
        ),
    ]
    for message, call in unknown:
        with refused(openai.NotFoundError, message):
            await of(call())


WRONG: list[tuple[Any, str, str, str]] = [
    (
        {"max_prompt_tokens": 255},
        "integer_below_min_value",
        "max_prompt_tokens",
        "Invalid 'max_prompt_tokens': integer below minimum value. Expected a value >= 256, but got 255 instead.",
    ),
    (
        {"max_completion_tokens": 1},
        "integer_below_min_value",
        "max_completion_tokens",
        "Invalid 'max_completion_tokens': integer below minimum value. Expected a value >= 256, but got 1 instead.",
    ),
    (
        {"temperature": 3},
        "decimal_above_max_value",
        "temperature",
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
    ),
    (
        {"truncation_strategy": {"type": "last_messages", "last_messages": 0}},
        "integer_below_min_value",
        "truncation_strategy.last_messages",
        "Invalid 'truncation_strategy.last_messages': integer below minimum value. Expected a value >= 1, but got 0 "
        "instead.",
    ),
    (
        {"assistant_id": None},
        "missing_required_parameter",
        "assistant_id",
        "Missing required parameter: 'assistant_id'.",
    ),
]


@pytest.mark.parametrize(
    ("wrong", "code", "param", "message"), WRONG, ids=lambda given: re.sub(r"\W.*", "", str(given))
)
async def test_a_wrong_setting(client: Any, wrong: Any, code: str, param: str, message: str) -> None:
    who, thread = await of(client.beta.assistants.create(model="plain")), await of(client.beta.threads.create())
    body = {key: value for key, value in {"assistant_id": who.id, **wrong}.items() if value is not None}
    with refused(openai.BadRequestError, message, code, param):
        await of(client.post(f"/threads/{thread.id}/runs", body=body, cast_to=object))
    assert [run async for run in each(client.beta.threads.runs.list(thread.id))] == []
