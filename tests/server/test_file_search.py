"""Runs that search files, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, each, in_short, of, refused
from fakes.served import Served, serving

pytestmark = MARKS
INCLUDE = ["step_details.tool_calls[*].file_search.results[*].content"]
FILE = """
retinue: 1
components:
  - name: fake
    type: PromptModel
    params:
      engine: scripted
      script:
        - {when: '"cite": "【1†paris.md】"', say: "It is Paris 【1†paris.md】, not 【7†rome.md】."}
        - {when: '"results": \\[\\]', say: There is nothing about it.}
        - {when: "(?s)no vector store", say: It is gone.}
        - {when: "France", call: {tool: file_search, input: {query: capital of France}}}
        - {when: "2 to the power", call: {tool: calculator, input: 2^3}}
        - {when: "^8", say: It is 8.}
agents:
  - {name: agent, params: {model: fake, strategy: tool_calling, tools: [calculator]}}
"""
PARIS = b"Paris is the capital of France."
SEARCH: Any = [{"type": "file_search"}]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("searched"), FILE) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
async def client(request: pytest.FixtureRequest, searched: Served) -> AsyncIterator[Any]:
    if request.param == "sync":
        with searched.client() as client:
            yield client
    else:
        async with searched.async_client() as async_client:
            yield async_client


async def file_of(client: Any, name: str = "paris.md", content: bytes = PARIS) -> str:
    made = await of(client.files.create(file=(name, content), purpose="assistants"))
    id_: str = made.id
    return id_


async def asked(client: Any, assistant: Any, thread: Any) -> Any:
    run = await of(client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id))
    assert run.status == "completed", run.last_error
    return run


async def answer_to(client: Any, run: Any) -> Any:
    messages = await of(client.beta.threads.messages.list(run.thread_id, run_id=run.id))
    (part,) = messages.data[0].content
    return part.text


def check(text: Any, file: str) -> None:
    """The answer cites `file` where the model wrote its mark, and nothing where it made one up."""
    assert text.value == "It is Paris 【1†paris.md】, not 【7†rome.md】."
    (annotation,) = text.annotations
    assert (annotation.type, annotation.file_citation.file_id, annotation.text) == (
        "file_citation",
        file,
        "【1†paris.md】",
    )
    assert text.value[annotation.start_index : annotation.end_index] == annotation.text


async def test_an_assistant_searches_its_files_and_cites_them(client: Any) -> None:
    file = await file_of(client)
    resources: Any = {"file_search": {"vector_stores": [{"file_ids": [file], "metadata": {"a": "1"}}]}}
    assistant = await of(client.beta.assistants.create(model="agent", tools=SEARCH, tool_resources=resources))
    (store_id,) = assistant.tool_resources.file_search.vector_store_ids
    store = await of(client.vector_stores.retrieve(store_id))
    assert (store.metadata, store.file_counts.total, store.expires_after) == ({"a": "1"}, 1, None)
    thread = await of(client.beta.threads.create(messages=[{"role": "user", "content": "The capital of France?"}]))
    run = await asked(client, assistant, thread)  # which waits until the file is indexed
    check(await answer_to(client, run), file)
    steps = [one async for one in each(client.beta.threads.runs.steps.list(run.id, thread_id=thread.id, order="asc"))]
    assert [one.type for one in steps] == ["tool_calls", "message_creation"]
    (call,) = steps[0].step_details.tool_calls
    assert (call.type, call.file_search.ranking_options.score_threshold) == ("file_search", 0.0)
    (result,) = call.file_search.results
    assert (result.file_id, result.file_name, result.content) == (file, "paris.md", None)
    assert 0 < result.score <= 1
    step = await of(
        client.beta.threads.runs.steps.retrieve(steps[0].id, thread_id=thread.id, run_id=run.id, include=INCLUDE)
    )
    assert step.step_details.tool_calls[0].file_search.results[0].content[0].text == PARIS.decode()


async def test_a_message_brings_its_file_along(client: Any) -> None:
    file = await file_of(client)
    assistant = await of(client.beta.assistants.create(model="agent", tools=SEARCH))
    message: Any = {
        "role": "user",
        "content": "The capital of France?",
        "attachments": [{"file_id": file, "tools": SEARCH}],
    }
    thread = await of(client.beta.threads.create(messages=[message]))
    (store_id,) = thread.tool_resources.file_search.vector_store_ids
    assert (await of(client.vector_stores.retrieve(store_id))).expires_after.days == 7
    run = await asked(client, assistant, thread)
    check(await answer_to(client, run), file)
    more = await file_of(client, "more.md", b"France is in Europe.")
    await of(
        client.beta.threads.messages.create(
            thread.id, role="user", content="And France?", attachments=[{"file_id": more, "tools": SEARCH}]
        )
    )
    again = await of(client.beta.threads.retrieve(thread.id))
    assert again.tool_resources.file_search.vector_store_ids == [store_id]
    assert (await of(client.vector_stores.retrieve(store_id))).file_counts.total == 2
    with refused(openai.NotFoundError, "No such File object: file-1", param="file_ids"):
        await of(
            client.beta.threads.messages.create(
                thread.id, role="user", content="Hi", attachments=[{"file_id": "file-1", "tools": SEARCH}]
            )
        )


async def test_a_search_as_it_is_streamed(client: Any) -> None:
    file = await file_of(client)
    store = await of(client.vector_stores.create(file_ids=[file]))
    assistant = await of(client.beta.assistants.create(model="agent", tools=SEARCH))
    resources: Any = {"file_search": {"vector_store_ids": [store.id]}}
    thread: Any = {"messages": [{"role": "user", "content": "France?"}], "tool_resources": resources}
    stream = await of(
        client.beta.threads.create_and_run(
            assistant_id=assistant.id, thread=thread, stream=True, tool_choice={"type": "file_search"}
        )
    )
    events = [event async for event in each(stream)]
    names = in_short(event.event for event in events)
    assert names[4:8] == [
        "thread.run.step.created",
        "thread.run.step.in_progress",
        "thread.run.step.delta",
        "thread.run.step.completed",
    ]
    delta = next(event.data.delta for event in events if event.event == "thread.run.step.delta")
    assert [one.type for one in delta.step_details.tool_calls] == ["file_search"]
    done = next(event.data for event in events if event.event == "thread.run.step.completed")
    assert [one.file_name for one in done.step_details.tool_calls[0].file_search.results] == ["paris.md"]
    said = next(event.data for event in events if event.event == "thread.message.completed")
    check(said.content[0].text, file)


async def test_nothing_is_found(client: Any) -> None:
    assistant = await of(
        client.beta.assistants.create(
            model="agent",
            tools=[
                {
                    "type": "file_search",
                    "file_search": {
                        "max_num_results": 3,
                        "ranking_options": {"score_threshold": 0.9, "ranker": "auto"},
                    },
                }
            ],
        )
    )
    store = await of(client.vector_stores.create(file_ids=[await file_of(client, "rome.md", b"A capital of its own.")]))
    for resources in (None, {"file_search": {"vector_store_ids": [store.id]}}):
        thread = await of(
            client.beta.threads.create(messages=[{"role": "user", "content": "France?"}], tool_resources=resources)
        )
        run = await asked(client, assistant, thread)
        text = await answer_to(client, run)
        assert (text.value, text.annotations) == ("There is nothing about it.", [])
    steps = await of(client.beta.threads.runs.steps.list(run.id, thread_id=thread.id, order="asc"))
    searched = steps.data[0].step_details.tool_calls[0].file_search
    assert (searched.results, searched.ranking_options.score_threshold) == ([], 0.9)


async def test_a_store_that_is_not_there_fails_the_run(client: Any) -> None:
    assistant = await of(
        client.beta.assistants.create(
            model="agent", tools=SEARCH, tool_resources={"file_search": {"vector_store_ids": ["vs_1"]}}
        )
    )
    thread = await of(client.beta.threads.create(messages=[{"role": "user", "content": "France?"}]))
    run = await of(client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id))
    assert (run.status, run.last_error.code) == ("failed", "invalid_prompt")
    assert run.last_error.message == "No vector store found with id 'vs_1'."


async def test_tools_of_all_kinds_side_by_side(client: Any) -> None:
    own: Any = {"type": "function", "function": {"name": "file_search", "parameters": {"type": "object"}}}
    assistant = await of(client.beta.assistants.create(model="agent", tools=[own, *SEARCH]))
    thread = await of(client.beta.threads.create(messages=[{"role": "user", "content": "2 to the power of 3?"}]))
    run = await of(client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id))
    assert run.last_error.message == "Invalid 'tools': two tools are called 'file_search'."
    await of(client.beta.assistants.update(assistant.id, tools=SEARCH))
    run = await asked(client, assistant, thread)
    include: Any = ["step_details.tool_calls[*].server_tools"]
    steps = await of(client.beta.threads.runs.steps.list(run.id, thread_id=thread.id, order="asc", include=include))
    (call,) = steps.data[0].step_details.tool_calls
    assert (call.type, call.function.name, call.function.output) == ("function", "calculator", "8")


@pytest.mark.parametrize("tool", ["file_search", "code_interpreter"])
def test_a_tool_that_is_off_fails_the_run(tmp_path: Any, tool: str) -> None:
    tools: Any = [{"type": tool}]
    with serving(tmp_path, FILE, args=["--hosted-tools", ""]) as server, server.client() as client:
        assistant = client.beta.assistants.create(model="agent", tools=tools)
        thread = client.beta.threads.create(messages=[{"role": "user", "content": "France?"}])
        run = client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id)
        assert run.last_error is not None
        assert (run.status, run.last_error.code) == ("failed", "invalid_prompt")
        assert run.last_error.message == f"Tool '{tool}' is not enabled on this server (see hosted_tools)."
