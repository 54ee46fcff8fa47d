"""How a reply ended, as each family of the API tells it, streamed and not: one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from fakes.app_server import KEY, Serving
from fakes.openai_server import Answer, OpenAIServer
from fakes.sdk import WEATHER
from retinue import Agent, PromptModel, tool

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TRIED = Answer(calls=[("add", {"a": 19, "b": 23})])  # the probe of an engine's tool calls
CALL = ("get_weather", {"location": "Paris"})
SAID = "The Seine is 777 km"


@tool(effects="read")
def lookup(name: str) -> str:
    """Look something up."""
    return name


@pytest.fixture(scope="module")
def engine() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def client(engine: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    agents = {}
    for name, tools in (("plain", []), ("tools", [lookup])):
        model = PromptModel("m", base_url=engine.url, api_key="none")
        agents[name] = Agent(model, tools, strategy="tool_calling", name=name)
    with Serving(tmp_path_factory.mktemp("served"), agents) as served:
        options: Any = {"base_url": f"{served.url}/v1", "api_key": KEY, "max_retries": 0}
        with openai.OpenAI(**options, _strict_response_validation=True) as client:
            yield client


# ── what each family says: how it ended, and the text ────────────────────────────────────────────


def chat(client: Any, model: str, options: Any) -> Any:
    said = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "?"}], **options)
    (choice,) = said.choices
    return choice.finish_reason, choice.message.content or ""


def chat_streamed(client: Any, model: str, options: Any) -> Any:
    messages = [{"role": "user", "content": "?"}]
    stream = client.chat.completions.create(model=model, messages=messages, stream=True, **options)
    choices = [chunk.choices[0] for chunk in stream]
    (finish,) = [choice.finish_reason for choice in choices if choice.finish_reason]
    assert choices[-1].finish_reason == finish
    return finish, "".join(choice.delta.content or "" for choice in choices)


def _response(response: Any) -> Any:
    reason = response.incomplete_details and response.incomplete_details.reason
    messages = [item for item in response.output if item.type == "message"]
    assert {message.status for message in messages} <= {"incomplete" if reason else "completed"}
    assert (response.completed_at is None) == (response.status == "incomplete")
    return response.status, reason, response.output_text


def _for_responses(options: Any) -> Any:
    return options | {"tools": [{"type": "function", **one["function"]} for one in options.get("tools", ())]}


def responses(client: Any, model: str, options: Any) -> Any:
    created = client.responses.create(model=model, input="?", **_for_responses(options))
    assert client.responses.retrieve(created.id) == created
    return _response(created)


def responses_streamed(client: Any, model: str, options: Any) -> Any:
    events = list(client.responses.create(model=model, input="?", stream=True, **_for_responses(options)))
    last = events[-1]
    assert last.type == ("response.incomplete" if last.response.status == "incomplete" else "response.completed")
    assert [event.type for event in events].count("response.incomplete") == (last.response.status == "incomplete")
    shown = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert shown == last.response.output_text
    return _response(last.response)


def _assisted(client: Any, run: Any) -> Any:
    reason = run.incomplete_details and run.incomplete_details.reason
    messages = client.beta.threads.messages.list(run.thread_id, run_id=run.id).data
    ended = {(one.status, one.incomplete_details and one.incomplete_details.reason) for one in messages}
    text = "".join(message.content[0].text.value for message in messages)
    return run.status, reason, ended, text


def _asked(client: Any, model: str, options: Any) -> Any:
    assistant = client.beta.assistants.create(model=model, **options)
    return {"assistant_id": assistant.id, "thread": {"messages": [{"role": "user", "content": "?"}]}}


def assistants(client: Any, model: str, options: Any) -> Any:
    run = client.beta.threads.create_and_run_poll(**_asked(client, model, options), poll_interval_ms=5)
    return _assisted(client, run)


def assistants_streamed(client: Any, model: str, options: Any) -> Any:
    events = list(client.beta.threads.create_and_run(**_asked(client, model, options), stream=True))
    runs = [event for event in events if event.event.startswith("thread.run.") and "step" not in event.event]
    assert runs[-1].event == f"thread.run.{runs[-1].data.status}"
    deltas = [event.data.delta.content[0].text.value for event in events if event.event == "thread.message.delta"]
    seen = _assisted(client, runs[-1].data)
    ended = [event.data for event in events if event.event in ("thread.message.completed", "thread.message.incomplete")]
    said = {(one.status, one.incomplete_details and one.incomplete_details.reason) for one in ended}
    assert (said, "".join(deltas)) == (seen[2], seen[3])
    return seen


FAMILIES: dict[str, Callable[..., Any]] = {
    "chat": chat,
    "chat, streamed": chat_streamed,
    "responses": responses,
    "responses, streamed": responses_streamed,
    "assistants": assistants,
    "assistants, streamed": assistants_streamed,
}

COMPLETED, CUT, FILTERED = {("completed", None)}, {("incomplete", "max_tokens")}, {("incomplete", "content_filter")}
TABLE: dict[str, tuple[Answer, dict[str, Any]]] = {
    "stop": (
        Answer(SAID),
        {
            "chat": ("stop", SAID),
            "responses": ("completed", None, SAID),
            "assistants": ("completed", None, COMPLETED, SAID),
        },
    ),
    "cut": (
        Answer(SAID, finish="length"),
        {
            "chat": ("length", SAID),
            "responses": ("incomplete", "max_output_tokens", SAID),
            "assistants": ("incomplete", "max_completion_tokens", CUT, SAID),
        },
    ),
    "cut before a word": (
        Answer("", finish="length"),
        {
            "chat": ("length", ""),
            "responses": ("incomplete", "max_output_tokens", ""),
            "assistants": ("incomplete", "max_completion_tokens", set(), ""),
        },
    ),
    "filtered": (
        Answer(SAID, finish="content_filter"),
        {
            "chat": ("content_filter", SAID),
            "responses": ("incomplete", "content_filter", SAID),
            "assistants": ("incomplete", None, FILTERED, SAID),
        },
    ),
    "tool": (
        Answer(calls=[CALL]),
        {
            "chat": ("tool_calls", ""),
            "responses": ("completed", None, ""),
            "assistants": ("requires_action", None, set(), ""),
        },
    ),
    "cut in a call": (
        Answer(calls=[("get_weather", '{"location": "Par')], finish="length"),
        {
            "chat": ("length", ""),
            "responses": ("incomplete", "max_output_tokens", ""),
            "assistants": ("incomplete", "max_completion_tokens", set(), ""),
        },
    ),
}


@pytest.mark.matrix
@pytest.mark.parametrize("model", ["plain", "tools"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", TABLE)
def test_how_a_reply_ended(client: Any, engine: OpenAIServer, how: str, family: str, model: str) -> None:
    answer, expected = TABLE[how]
    calls = "call" in how or how == "tool"
    engine.replies[:] = [answer]
    if model == "tools" or calls:
        engine.replies[:] = [answer] if _tried(engine) else [TRIED, answer]
    asked = len(engine.asked)
    seen = FAMILIES[family](client, model, {"tools": [WEATHER]} if calls else {})
    assert seen == expected[family.partition(",")[0]]
    assert "max_tokens" not in engine.asked[-1].body
    assert len(engine.asked) - asked <= 2


def _tried(engine: OpenAIServer) -> bool:
    """Whether the engine's tool calls have been tried out."""
    return any(request.body.get("tools", [{}])[0].get("function", {}).get("name") == "add" for request in engine.asked)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_clients_own_limit_is_told_of_also_when_there_are_tools(
    client: Any, engine: OpenAIServer, family: str
) -> None:
    if not _tried(engine):
        engine.replies[:] = [TRIED]
    engine.replies += [Answer(SAID, finish="length")]
    kind = family.partition(",")[0]
    limit = {"chat": "max_completion_tokens", "responses": "max_output_tokens"}.get(kind)
    options = {limit: 300} if limit else {}
    assert FAMILIES[family](client, "tools", options) == TABLE["cut"][1][kind]
    assert engine.asked[-1].body.get("max_tokens") == (300 if limit else None)
