"""Runs through the SDK, polled: answers, tools of the client and of the server, settings, steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.sdk import MARKS, WEATHER, each, of, outputs, place

pytestmark = MARKS


async def assistant(client: Any, model: str = "plain", **settings: Any) -> str:
    made = await of(client.beta.assistants.create(model=model, **settings))
    return str(made.id)


async def asked(client: Any, *questions: str) -> str:
    messages: Any = [{"role": "user", "content": question} for question in questions]
    thread = await of(client.beta.threads.create(messages=messages))
    return str(thread.id)


async def answer(client: Any, run: Any) -> str:
    """What a run said."""
    (message,) = [one async for one in each(client.beta.threads.messages.list(run.thread_id, run_id=run.id))]
    assert (message.role, message.status, message.assistant_id) == ("assistant", "completed", run.assistant_id)
    return str(message.content[0].text.value)


async def steps(client: Any, run: Any) -> list[Any]:
    """A run's steps, the first first."""
    listed = client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id, order="asc")
    return [step async for step in each(listed)]


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_is_queued_then_polled_until_it_is_completed(client: Any) -> None:
    thread, who = await asked(client, "Hello"), await assistant(client)
    run = await of(client.beta.threads.runs.create(thread, assistant_id=who))
    assert (run.id[:4], run.object, run.thread_id, run.assistant_id) == ("run_", "thread.run", thread, who)
    assert (run.status, run.started_at, run.usage, run.required_action) == ("queued", None, None, None)
    assert run.expires_at > run.created_at
    assert (run.model, run.instructions, run.tools, run.metadata) == ("plain", "", [], {})
    assert (run.tool_choice, run.response_format, run.parallel_tool_calls) == ("auto", "auto", True)
    assert (run.truncation_strategy.type, run.truncation_strategy.last_messages) == ("auto", None)
    run = await of(client.beta.threads.runs.poll(run.id, thread_id=thread))
    assert (run.status, run.last_error, run.incomplete_details) == ("completed", None, None)
    assert run.created_at <= run.started_at <= run.completed_at
    assert (run.expires_at, run.failed_at, run.cancelled_at) == (None, None, None)
    assert run.usage.total_tokens == run.usage.prompt_tokens + run.usage.completion_tokens
    assert min(run.usage.prompt_tokens, run.usage.completion_tokens) > 0
    assert await of(client.beta.threads.runs.retrieve(run.id, thread_id=thread)) == run
    assert await answer(client, run) == "Hello, I am an agent."


async def test_a_run_ends_with_a_step_that_made_its_message(client: Any) -> None:
    thread, who = await asked(client, "Hello"), await assistant(client)
    run = await of(client.beta.threads.runs.create_and_poll(thread_id=thread, assistant_id=who))
    (step,) = await steps(client, run)
    (message,) = (await of(client.beta.threads.messages.list(thread, run_id=run.id))).data
    assert (step.id[:5], step.object, step.type, step.status) == (
        "step_",
        "thread.run.step",
        "message_creation",
        "completed",
    )
    assert (step.run_id, step.thread_id, step.assistant_id) == (run.id, thread, who)
    assert step.step_details.message_creation.message_id == message.id
    assert (step.last_error, step.cancelled_at, step.failed_at, step.expired_at) == (None, None, None, None)
    assert step.completed_at >= step.created_at
    assert await of(client.beta.threads.runs.steps.retrieve(step.id, thread_id=thread, run_id=run.id)) == step


async def test_a_thread_may_be_made_with_its_run(client: Any) -> None:
    thread: Any = {"messages": [{"role": "user", "content": "Hello"}], "metadata": {"a": "1"}}
    who = await assistant(client)
    run = await of(client.beta.threads.create_and_run(assistant_id=who, thread=thread, metadata={"b": "2"}))
    assert (run.status, run.metadata) == ("queued", {"b": "2"})
    assert (await of(client.beta.threads.retrieve(run.thread_id))).metadata == {"a": "1"}
    assert (await of(client.beta.threads.runs.poll(run.id, thread_id=run.thread_id))).status == "completed"
    run = await of(client.beta.threads.create_and_run_poll(assistant_id=who, thread=thread))
    assert (run.status, await answer(client, run)) == ("completed", "Hello, I am an agent.")


async def test_a_thread_goes_on_from_run_to_run(client: Any) -> None:
    thread, who = await asked(client, "Hello"), await assistant(client)
    runs = client.beta.threads.runs
    first = await of(runs.create_and_poll(thread_id=thread, assistant_id=who))
    await of(client.beta.threads.messages.create(thread, role="user", content="Answer as JSON"))
    second = await of(runs.create_and_poll(thread_id=thread, assistant_id=who, metadata={"n": "2"}))
    assert [run.id async for run in each(runs.list(thread))] == [second.id, first.id]
    assert [run.id async for run in each(runs.list(thread, order="asc", limit=1))] == [first.id, second.id]
    assert second.usage.prompt_tokens > first.usage.prompt_tokens  # what was said before is read again
    changed = await of(runs.update(second.id, thread_id=thread, metadata={"n": "3"}))
    assert changed == second.model_copy(update={"metadata": {"n": "3"}})


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["plain", "tool_calling", "react", "react_json", "planexec"])
async def test_a_run_waits_for_the_clients_tool_and_goes_on(client: Any, model: str) -> None:
    thread, who = await asked(client, "What is the weather?"), await assistant(client, model, tools=[WEATHER])
    runs = client.beta.threads.runs
    run = await of(runs.create_and_poll(thread_id=thread, assistant_id=who))
    assert (run.status, run.required_action.type, run.usage) == ("requires_action", "submit_tool_outputs", None)
    (call,) = run.required_action.submit_tool_outputs.tool_calls
    assert (call.type, call.function.name, place(call)) == ("function", "get_weather", "Paris")
    (step,) = await steps(client, run)
    assert (step.type, step.status, step.step_details.tool_calls[0].id) == ("tool_calls", "in_progress", call.id)
    assert step.step_details.tool_calls[0].function.output is None
    run = await of(runs.submit_tool_outputs_and_poll(run_id=run.id, thread_id=thread, tool_outputs=outputs(run)))
    assert (run.status, run.required_action) == ("completed", None)
    assert await answer(client, run) == "It is 21 degrees in Paris."
    step, said = await steps(client, run)
    assert (step.type, step.status, said.type) == ("tool_calls", "completed", "message_creation")
    assert (step.step_details.tool_calls[0].id, step.step_details.tool_calls[0].function.output) == (
        call.id,
        "21 degrees",
    )


async def test_after_its_tools_outputs_a_run_is_queued_again(client: Any) -> None:
    thread, who = await asked(client, "What is the weather?"), await assistant(client, tools=[WEATHER])
    runs = client.beta.threads.runs
    run = await of(runs.create_and_poll(thread_id=thread, assistant_id=who))
    run = await of(runs.submit_tool_outputs(run.id, thread_id=thread, tool_outputs=outputs(run)))
    assert (run.status, run.required_action) == ("queued", None)
    assert (await of(runs.poll(run.id, thread_id=thread))).status == "completed"


async def test_several_calls_of_one_step_wait_together(client: Any) -> None:
    thread, who = await asked(client, "Compare two cities."), await assistant(client, tools=[WEATHER])
    runs = client.beta.threads.runs
    run = await of(runs.create_and_poll(thread_id=thread, assistant_id=who))
    assert [place(call) for call in run.required_action.submit_tool_outputs.tool_calls] == ["Paris", "London"]
    given = outputs(run)[::-1]  # in any order
    run = await of(runs.submit_tool_outputs_and_poll(run_id=run.id, thread_id=thread, tool_outputs=given))
    assert await answer(client, run) == "Paris 21, London 19."
    tools, _ = await steps(client, run)
    assert [call.function.output for call in tools.step_details.tool_calls] == ["21 degrees", "19 degrees"]


async def test_an_output_may_be_missing_or_empty(client: Any) -> None:
    thread, who = await asked(client, "Compare two cities."), await assistant(client, tools=[WEATHER])
    runs = client.beta.threads.runs
    run = await of(runs.create_and_poll(thread_id=thread, assistant_id=who))
    first, second = run.required_action.submit_tool_outputs.tool_calls
    given: Any = [{"tool_call_id": first.id}, {"tool_call_id": second.id, "output": ""}]
    run = await of(runs.submit_tool_outputs_and_poll(run_id=run.id, thread_id=thread, tool_outputs=given))
    assert run.status == "completed"


@pytest.mark.parametrize("model", ["tool_calling", "react", "react_json", "planexec"])
async def test_the_servers_own_tool_runs_without_the_client(client: Any, model: str) -> None:
    thread, who = await asked(client, "What is 2 to the power of 3?"), await assistant(client, model)
    run = await of(client.beta.threads.runs.create_and_poll(thread_id=thread, assistant_id=who))
    assert (run.status, await answer(client, run)) == ("completed", "It is 8.")
    (message,) = await steps(client, run)  # a function in a step is, to clients, one that they have run
    assert (message.type, message.usage.total_tokens) == ("message_creation", run.usage.total_tokens)
    include: Any = ["step_details.tool_calls[*].server_tools"]
    listing = client.beta.threads.runs.steps.list(run.id, thread_id=thread, order="asc", include=include)
    step, said = [one async for one in each(listing)]
    assert (said.id, said.type) == (message.id, "message_creation")
    (call,) = step.step_details.tool_calls
    assert (step.type, step.status, call.type, call.function.output) == ("tool_calls", "completed", "function", "8")
    assert call.function.name.lower() == "calculator"
    assert "2^3" in json.loads(call.function.arguments).values()


# ── settings of one run ──────────────────────────────────────────────────────────────────────────


async def test_a_run_says_what_it_was_asked_for(client: Any) -> None:
    settings: Any = {
        "model": "react", "instructions": "Be brief.", "tools": [WEATHER], "metadata": {"a": "1"}, "temperature": 0.5,
        "top_p": 0.9, "max_prompt_tokens": 100_000, "max_completion_tokens": 1000, "tool_choice": "auto",
        "truncation_strategy": {"type": "last_messages", "last_messages": 3}, "response_format": {"type": "text"},
        "parallel_tool_calls": False,
    }  # fmt: skip
    thread, who = await asked(client, "Hello"), await assistant(client, instructions="Be kind.", metadata={"b": "2"})
    run = await of(client.beta.threads.runs.create_and_poll(thread_id=thread, assistant_id=who, **settings))
    said = run.to_dict()
    assert {key: said[key] for key in settings} == settings
    assert (run.status, await answer(client, run)) == ("completed", "Hello, I am an agent.")


async def test_instructions_are_read_and_may_be_added_to(client: Any) -> None:
    who = await assistant(client, instructions="Be kind.")
    words = "and " * 200
    runs = client.beta.threads.runs
    plain = await of(runs.create_and_poll(thread_id=await asked(client, "Hello"), assistant_id=who))
    added = {"thread_id": await asked(client, "Hello"), "additional_instructions": words}
    more = await of(runs.create_and_poll(assistant_id=who, **added))
    assert plain.instructions == "Be kind."
    assert more.instructions.startswith("Be kind.")
    assert more.instructions.rstrip().endswith(words.rstrip())
    assert more.usage.prompt_tokens >= plain.usage.prompt_tokens + 200  # the script counts words


async def test_additional_messages_are_the_threads_from_then_on(client: Any) -> None:
    thread, who = await asked(client, "Hello"), await assistant(client)
    more: Any = [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Answer as JSON"}]
    options: Any = {"thread_id": thread, "assistant_id": who, "additional_messages": more}
    await of(client.beta.threads.runs.create_and_poll(**options))
    messages = [one async for one in each(client.beta.threads.messages.list(thread, order="asc"))]
    said = [(one.role, one.content[0].text.value) for one in messages]
    assert said[1:] == [
        ("assistant", "Yes?"),
        ("user", "Answer as JSON"),
        ("assistant", messages[-1].content[0].text.value),
    ]
    assert json.loads(said[-1][1]) == {"city": "Paris", "degrees": 21}


async def test_only_the_last_messages_are_read_if_so_wanted(client: Any) -> None:
    long = "word " * 300
    who = await assistant(client)
    runs = client.beta.threads.runs
    whole = await of(runs.create_and_poll(thread_id=await asked(client, long, long, "Hello"), assistant_id=who))
    last: Any = {"type": "last_messages", "last_messages": 1}
    thread = await asked(client, long, long, "Hello")
    cut = await of(runs.create_and_poll(thread_id=thread, assistant_id=who, truncation_strategy=last))
    assert whole.usage.prompt_tokens > 600
    assert cut.usage.prompt_tokens < 300


async def test_a_tool_that_must_be_called_is_called_once(client: Any) -> None:
    thread, who = await asked(client, "What is the weather?"), await assistant(client, tools=[WEATHER])
    runs = client.beta.threads.runs
    run = await of(runs.create_and_poll(thread_id=thread, assistant_id=who, tool_choice="required"))
    run = await of(runs.submit_tool_outputs_and_poll(run_id=run.id, thread_id=thread, tool_outputs=outputs(run)))
    assert (run.status, run.tool_choice) == ("completed", "required")


async def test_calls_may_be_wanted_one_at_a_time(client: Any) -> None:
    thread, who = await asked(client, "Compare two cities."), await assistant(client, tools=[WEATHER])
    options: Any = {"thread_id": thread, "assistant_id": who, "parallel_tool_calls": False}
    run = await of(client.beta.threads.runs.create_and_poll(**options))
    assert len(run.required_action.submit_tool_outputs.tool_calls) == 1


async def test_an_answer_in_a_form(client: Any) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}}}
    form: Any = {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}}
    who = await assistant(client, response_format=form)
    runs = client.beta.threads.runs
    run = await of(runs.create_and_poll(thread_id=await asked(client, "How warm, as JSON?"), assistant_id=who))
    assert json.loads(await answer(client, run)) == {"city": "Paris", "degrees": 21}
    run = await of(runs.create_and_poll(thread_id=await asked(client, "How warm, in plain words?"), assistant_id=who))
    assert (run.status, run.last_error.code) == ("failed", "server_error")
