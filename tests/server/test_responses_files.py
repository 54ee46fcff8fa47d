"""Responses that search files and run programs: the calls are OpenAI's items for them, and what is said cites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from hypothesis import given, strategies as st

from fakes.app_server import KEY, Serving, upload
from fakes.sdk import MARKS
from retinue import Agent, PromptModel
from retinue.runs.thread_messages import Source
from retinue.server.context import Options
from retinue.server.responses.projection import annotate

pytestmark = MARKS
PARIS = b"Paris is the capital of France."
SCRIPT = [
    {"when": '"cite": "【1†paris.md】"', "say": "It is Paris 【1†paris.md】, not Rome 【7†rome.md】."},
    {"when": "France", "call": {"tool": "file_search", "input": {"query": "capital of France"}}},
    {"when": "primes", "call": {"tool": "code_interpreter", "input": {"code": "print('so:')\nsum([2, 3, 5])"}}},
    {"when": "so:", "say": "It is 10."},
    {"say": "Hello."},
]
FOUND, PRINTED = "file_search_call.results", "code_interpreter_call.outputs"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    agent = Agent(PromptModel(script=SCRIPT), name="agent", strategy="tool_calling")
    options = Options(hosted_tools=("file_search", "code_interpreter"))
    with Serving(tmp_path_factory.mktemp("searched"), {"agent": agent}, options) as served:
        yield served


@pytest.fixture(scope="module")
def sdk(searched: Serving) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{searched.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def file(searched: Serving) -> str:
    id_: str = upload(searched, "paris.md", PARIS).body["id"]
    return id_


@pytest.fixture(scope="module")
def search(searched: Serving, file: str) -> list[Any]:
    """The tool, for a store with that file."""
    store = searched.ask("POST", "/v1/vector_stores", {}).body["id"]
    body = {"file_id": file, "attributes": {"lang": "en"}}
    assert searched.ask("POST", f"/v1/vector_stores/{store}/files", body).status == 200
    return [{"type": "file_search", "vector_store_ids": [store]}]


def check(message: Any, file: str) -> None:
    """It cites `file` where the model wrote its mark, and nothing where it made one up."""
    (part,) = message.content
    assert part.text == "It is Paris, not Rome 【7†rome.md】."
    (annotation,) = part.annotations
    assert (annotation.type, annotation.file_id, annotation.filename) == ("file_citation", file, "paris.md")
    assert part.text[: annotation.index] == "It is Paris"


def test_a_search_is_an_item_of_its_own(sdk: Any, search: list[Any], file: str) -> None:
    made = sdk.responses.create(input="The capital of France?", tools=search, model="agent")
    call, message = made.output
    assert (call.type, call.status, call.results) == ("file_search_call", "completed", None)
    assert call.queries == ["capital of France"]
    assert set(call.to_dict()) == {"id", "type", "status", "queries", "results"}
    check(message, file)


def test_what_was_found_is_shown_to_who_asks_for_it(sdk: Any, search: list[Any], file: str) -> None:
    plain = sdk.responses.create(input="The capital of France?", tools=search, model="agent")
    (found,) = sdk.responses.retrieve(plain.id, include=[FOUND]).output[0].results
    assert (found.file_id, found.filename, found.text) == (file, "paris.md", PARIS.decode())
    assert found.attributes == {"lang": "en"}
    assert 0 < found.score <= 1
    asked: Any = {"input": "The capital of France?", "tools": search, "model": "agent", "include": [FOUND]}
    made = sdk.responses.create(**asked)
    assert made.output[0].results == [found]
    again = sdk.responses.retrieve(made.id)  # what was asked for then is part of what it was
    assert again.output[0].results == [found]


def test_a_search_as_it_is_streamed(sdk: Any, search: list[Any], file: str) -> None:
    asked: Any = {"input": "The capital of France?", "tools": search, "model": "agent", "include": [FOUND]}
    with sdk.responses.stream(**asked) as stream:
        events = list(stream)
        made = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[2:7] == [
        "response.output_item.added",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.output_item.done",
    ]
    added, done = events[2].item, events[6].item
    assert (added.status, added.results, done.status, len(done.results)) == ("in_progress", None, "completed", 1)
    (noted,) = [event for event in events if event.type == "response.output_text.annotation.added"]
    assert noted.annotation.file_id == file
    assert (noted.annotation_index, noted.content_index, noted.output_index) == (0, 0, 1)
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == made.output_text
    check(made.output[1], file)


def test_items_of_hosted_tools_are_taken_back(searched: Serving, search: list[Any]) -> None:
    question = {"role": "user", "content": "The capital of France?"}
    first = searched.ask(
        "POST", "/v1/responses", {"input": [question], "tools": search, "store": False, "include": [FOUND]}
    )
    programs = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    then = searched.ask(
        "POST", "/v1/responses", {"input": "primes", "tools": programs, "store": False, "include": [PRINTED]}
    )
    said = [question, *first.body["output"], *then.body["output"], {"role": "user", "content": "Hi"}]
    answered = searched.ask("POST", "/v1/responses", {"input": said, "store": False})
    assert answered.status == 200, answered.text
    assert answered.body["output"][0]["content"][0]["text"] == "Hello."
    kept = searched.ask("POST", "/v1/conversations", {"items": said})
    assert kept.status == 200, kept.text


def test_the_items_of_a_conversation_have_what_was_found(sdk: Any, search: list[Any]) -> None:
    conversation = sdk.conversations.create()
    sdk.responses.create(input="The capital of France?", tools=search, model="agent", conversation=conversation.id)
    items = sdk.conversations.items.list(conversation.id, order="asc", include=[FOUND]).data
    assert [one.type for one in items] == ["message", "file_search_call", "message"]
    assert len(items[1].results) == 1
    plain = sdk.conversations.items.list(conversation.id, order="asc").data
    assert plain[1].results is None


def test_a_search_is_found_by_reference(searched: Serving, search: list[Any]) -> None:
    made = searched.ask("POST", "/v1/responses", {"input": "The capital of France?", "tools": search}).body
    references = [{"type": "item_reference", "id": one["id"]} for one in made["output"]]
    said = [*references, {"role": "user", "content": "Hi"}]
    second = searched.ask("POST", "/v1/responses", {"input": said}).body
    items = searched.ask("GET", f"/v1/responses/{second['id']}/input_items?order=asc").body["data"]
    assert [one["type"] for one in items] == ["file_search_call", "message", "message"]
    assert items[0]["results"] is None
    shown = searched.ask("GET", f"/v1/responses/{second['id']}/input_items?order=asc&include[]={FOUND}").body["data"]
    assert len(shown[0]["results"]) == 1


def test_a_store_that_is_not_there(searched: Serving) -> None:
    asked = {"input": "France?", "tools": [{"type": "file_search", "vector_store_ids": ["vs_nobodys"]}]}
    said = searched.ask("POST", "/v1/responses", asked)
    assert (said.status, said.error["message"]) == (400, "No vector store found with id 'vs_nobodys'.")


PROGRAMS: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}]


def test_a_program_is_an_item_of_its_own(sdk: Any) -> None:
    asked: Any = {"input": "primes", "tools": PROGRAMS, "model": "agent", "include": [PRINTED]}
    with sdk.responses.stream(**asked) as stream:
        events = list(stream)
        made = stream.get_final_response()
    assert [event.type for event in events][2:9] == [
        "response.output_item.added",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.output_item.done",
    ]
    call = made.output[0]
    assert (call.type, call.status, call.code) == ("code_interpreter_call", "completed", "print('so:')\nsum([2, 3, 5])")
    assert [one.to_dict() for one in call.outputs or ()] == [{"type": "logs", "logs": "so:\n10"}]
    assert call.container_id.startswith("cntr_")
    plain = sdk.responses.create(input="primes", tools=PROGRAMS, model="agent").output[0]
    assert (plain.type, plain.outputs) == ("code_interpreter_call", None)


SOURCES = {"【1†a.md】": Source("file-1", "a.md"), "【2†b c.md】": Source("file-2", "b c.md")}
PIECES = st.lists(st.sampled_from([*SOURCES, "【3†a.md】", "【", "】", "†", " ", "1", "a", "\n", "【1†a"]), max_size=12)


@given(PIECES)
def test_what_is_told_of_a_text_that_grows_only_grows(pieces: list[str]) -> None:
    text, before = "".join(pieces), annotate("", SOURCES, whole=False)
    for end in range(len(text) + 1):
        now = annotate(text[:end], SOURCES, whole=False)
        assert now.text.startswith(before.text)
        assert now.annotations[: len(before.annotations)] == before.annotations
        before = now
    last = annotate(text, SOURCES, whole=True)
    assert last.text.startswith(before.text)
    assert last.annotations == before.annotations


def test_what_a_model_was_told_and_nobody_else(searched: Serving, search: list[Any]) -> None:
    asked = {"input": "The capital of France?", "tools": search, "include": [FOUND]}
    text = searched.ask("POST", "/v1/responses", asked).text
    assert "cite" not in text.replace("file_citation", "")
