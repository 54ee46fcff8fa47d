"""What fails, as clients can act on it: the SDK's own retries never make a server's tool run twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from fakes.app_server import KEY, Serving
from fakes.openai_server import Answer, OpenAIServer, failure
from retinue import Agent, Executor, PromptModel, tool
from retinue.net.retry import Retries
from retinue.pipelines import Pipeline
from retinue.server.agents.deployment import as_agent

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TRIED = Answer(calls=[("add", {"a": 19, "b": 23})])
ASKED: Any = {"messages": [{"role": "user", "content": "Book it, please."}]}
PAID: list[str] = []


@tool
def pay(name: str) -> str:
    """Pay somebody."""
    PAID.append(name)
    return "paid"


@tool(effects="read")
def look(name: str) -> str:
    """Look somebody up."""
    PAID.append(name)
    return "here"


@pytest.fixture(scope="module")
def engine() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def served(engine: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    agents = {}
    for name, tools in (("plain", []), ("payer", [pay]), ("reader", [look])):
        retries = Retries(tries=1)
        model = PromptModel("m", base_url=engine.url, api_key="none", retries=retries)
        agents[name] = Agent(model, tools, strategy="tool_calling", name=name)
    agents["hurried"] = Agent(model, [look], strategy="tool_calling", name="hurried", max_steps=2)
    agents["executor"] = Executor([pay])
    with Serving(tmp_path_factory.mktemp("served"), agents) as serving:
        yield serving


@pytest.fixture
def client(served: Serving, engine: OpenAIServer) -> Iterator[openai.OpenAI]:
    """One with the SDK's own retries, whose waits are short."""
    del PAID[:]
    engine.replies[:] = []
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, _strict_response_validation=True) as client:
        client._calculate_retry_timeout = lambda *_: 0.001  # type: ignore[method-assign]
        yield client


def tried(engine: OpenAIServer) -> list[Answer]:
    asked = any(one.body.get("tools", [{}])[0].get("function", {}).get("name") == "add" for one in engine.asked)
    return [] if asked else [TRIED]


def chat(client: Any, model: str, **more: Any) -> Any:
    return client.chat.completions.create(model=model, **ASKED, **more)


def respond(client: Any, model: str, **more: Any) -> Any:
    return client.responses.create(model=model, input="Book it, please.", **more)


@pytest.mark.parametrize("ask", [chat, respond])
@pytest.mark.parametrize("broken", [failure(500), failure(503), failure(429), failure(429, retry_after="2")])
@pytest.mark.parametrize("key", [None, "once"])
def test_a_servers_tool_runs_once_whatever_fails_after_it(
    client: Any, engine: OpenAIServer, ask: Any, broken: Answer, key: str | None
) -> None:
    engine.replies[:] = [*tried(engine), *[Answer(calls=[("pay", {"name": "Ada"})]), broken] * 3]
    key = key and f"{ask.__name__}-{broken.status}-{len(broken.headers)}"
    headers = {"Idempotency-Key": key} if key else {}
    for _ in range(2 if key else 1):
        with pytest.raises(openai.APIStatusError) as raised:
            ask(client, "payer", extra_headers=headers)
        assert raised.value.response.headers["x-should-retry"] == "false"
        assert raised.value.status_code == (429 if broken.status == 429 else 500)
        assert raised.value.response.headers.get("retry-after") == broken.headers.get("Retry-After")
    assert PAID == ["Ada"]


@pytest.mark.parametrize("ask", [chat, respond])
def test_what_only_looked_is_done_again_once_the_engine_has_room(client: Any, engine: OpenAIServer, ask: Any) -> None:
    looking = Answer(calls=[("look", {"name": "Ada"})])
    engine.replies[:] = [*tried(engine), looking, failure(429), looking, Answer("At last.")]
    said = ask(client, "reader")
    assert "At last." in said.to_json()
    assert PAID == ["Ada", "Ada"]


@pytest.mark.parametrize("ask", [chat, respond])
@pytest.mark.parametrize("broken", [[failure(500)], [Answer("")] * 4], ids=["dead", "empty"])
def test_the_sdk_does_not_repeat_what_the_server_has_repeated_but_the_same_key_may_try_again(
    client: Any, engine: OpenAIServer, ask: Any, broken: list[Answer]
) -> None:
    key = {"Idempotency-Key": f"x-{ask.__name__}-{len(broken)}"}
    engine.replies[:] = broken
    before = len(engine.asked)
    with pytest.raises(openai.InternalServerError):
        ask(client, "plain", extra_headers=key)
    assert len(engine.asked) - before == len(broken)
    engine.replies[:] = [Answer("At last.")]
    assert "At last." in ask(client, "plain", extra_headers=key).to_json()


REFUSALS: list[Any] = [
    (failure(400, "too long", code="context_length_exceeded"), (400, "context_length_exceeded", None)),
    (failure(400, "Unsupported value: 'temperature'"), (400, None, None)),
    (failure(401, "bad key sk-123"), (500, None, "false")),
    (failure(404, "no such model"), (500, None, "false")),
    (failure(429, "slow down", retry_after="7"), (429, "rate_limit_exceeded", None)),
    (failure(500, "stack trace of the engine"), (500, None, "false")),
]


@pytest.mark.parametrize("ask", [chat, respond])
@pytest.mark.parametrize(("broken", "expected"), REFUSALS)
def test_an_engines_refusal_is_the_status_that_clients_act_upon_without_its_words(
    served: Serving, client: Any, engine: OpenAIServer, ask: Any, broken: Answer, expected: Any
) -> None:
    engine.replies[:] = [broken]
    with pytest.raises(openai.APIStatusError) as raised:
        ask(client.with_options(max_retries=0), "plain")
    error = raised.value
    assert (error.status_code, error.code, error.response.headers.get("x-should-retry")) == expected
    assert error.response.headers.get("retry-after") == broken.headers.get("Retry-After")
    told = error.response.text
    assert (broken.error or "?") not in told
    assert engine.url not in told
    assert "127.0.0.1" not in told


@pytest.mark.parametrize(("broken", "expected"), REFUSALS)
def test_a_runs_last_error_and_a_streams_error_say_the_same(
    client: Any, engine: OpenAIServer, broken: Answer, expected: Any
) -> None:
    status, code, _ = expected
    engine.replies[:] = [broken]
    assistant = client.beta.assistants.create(model="plain")
    thread: Any = {"messages": ASKED["messages"]}
    run = client.beta.threads.create_and_run_poll(assistant_id=assistant.id, thread=thread, poll_interval_ms=5)
    kind = {400: "invalid_prompt", 429: "rate_limit_exceeded"}.get(status, "server_error")
    assert (run.status, run.last_error.code) == ("failed", kind)
    assert broken.error not in run.last_error.message
    engine.replies[:] = [broken]
    with pytest.raises(openai.APIError) as raised:
        list(chat(client, "plain", stream=True))
    assert raised.value.code == code
    engine.replies[:] = [broken]
    with pytest.raises(openai.APIError) as told:
        list(respond(client, "plain", stream=True))
    assert told.value.code == (code or {400: "invalid_request_error"}.get(status, "server_error"))


def test_a_stream_that_fails_ends_as_each_family_documents(client: Any, engine: OpenAIServer, served: Serving) -> None:
    """Clients raise an `error` event; those of Responses ignore `response.failed`."""
    engine.replies[:] = [failure(500)] * 3
    headers = {"Authorization": f"Bearer {KEY}"}
    assistant = client.beta.assistants.create(model="plain")
    thread: Any = {"messages": ASKED["messages"]}
    ends = []
    for path, body in (
        ("chat/completions", {"model": "plain", **ASKED}),
        ("threads/runs", {"assistant_id": assistant.id, "thread": thread}),
        ("responses", {"model": "plain", "input": "Book it, please."}),
    ):
        text = httpx.post(f"{served.url}/v1/{path}", json={**body, "stream": True}, headers=headers, timeout=30).text
        blocks = [block.split("\n") for block in text.strip().split("\n\n")]
        fields = [
            dict(line.split(": ", 1) for line in block if not line.startswith((":", "retry"))) for block in blocks
        ]
        ends.append([(one.get("event"), one["data"]) for one in fields])
    (_, chat_error), chat_done = ends[0][-2:]
    (failed_name, failed_run), assistants_done = ends[1][-2:]
    (error_name, error), (last_name, last) = ends[2][-2:]
    message = json.loads(chat_error)["error"]["message"]
    problem = {"message": message, "type": "server_error", "param": None, "code": None}
    assert (json.loads(chat_error), chat_done) == ({"error": problem}, (None, "[DONE]"))
    assert (failed_name, assistants_done) == ("thread.run.failed", ("done", "[DONE]"))
    assert json.loads(failed_run)["last_error"] == {"code": "server_error", "message": message}
    number = len(ends[2]) - 2
    flat = {"code": "server_error", "message": message, "param": None}
    assert (error_name, json.loads(error)) == (
        "error", {"type": "error", "sequence_number": number, **flat, "error": {**problem, "code": "server_error"}}
    )  # fmt: skip
    response = json.loads(last)["response"]
    assert (last_name, json.loads(last)["sequence_number"], response["status"]) == (
        "response.failed", number + 1, "failed",
    )  # fmt: skip
    assert response["error"] == {"code": "server_error", "message": message}
    again = httpx.get(f"{served.url}/v1/responses/{response['id']}?stream=true", headers=headers, timeout=30).text
    assert again.split("\n\n")[-3:-1] == text.split("\n\n")[-3:-1]


@pytest.mark.parametrize("ask", [chat, respond])
def test_a_run_that_is_out_of_steps_says_so_and_is_not_repeated(client: Any, engine: OpenAIServer, ask: Any) -> None:
    engine.replies[:] = [*tried(engine), *[Answer(calls=[("look", {"name": "Ada"})])] * 9]
    before = len(engine.asked)
    with pytest.raises(openai.InternalServerError) as raised:
        ask(client, "hurried")
    assert (raised.value.code, raised.value.response.headers["x-should-retry"]) == ("max_iteration_exceeded", "false")
    assert len(engine.asked) - before <= 4


@pytest.mark.parametrize(
    "given",
    ["Book it, please.", "[]", '{"tol": "pay"}', '{"tool": "pey"}', '{"tool": "pay", "input": {"nome": "Ada"}}'],
)
def test_actions_that_an_executor_cannot_run_are_the_clients_mistake(client: openai.OpenAI, given: str) -> None:
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="executor", input=given)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="executor", messages=[{"role": "user", "content": given}])
    assert PAID == []


SCHEMA: Any = {"name": "n", "strict": True, "schema": {"type": "object", "properties": {}, "required": ["x"]}}


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_not_in_the_form_is_a_refusal(client: Any, engine: OpenAIServer, stream: bool) -> None:
    engine.replies[:] = [Answer("I would rather not.")] * 4
    wanted: Any = {"type": "json_schema", "json_schema": SCHEMA}
    if stream:
        choices = [chunk.choices[0] for chunk in chat(client, "plain", response_format=wanted, stream=True)]
        refusal = "".join(choice.delta.refusal or "" for choice in choices)
        content = "".join(choice.delta.content or "" for choice in choices) or None
        finish = choices[-1].finish_reason
    else:
        (choice,) = chat(client, "plain", response_format=wanted).choices
        refusal, content, finish = choice.message.refusal, choice.message.content, choice.finish_reason
    assert (refusal, content, finish) == ("I would rather not.", None, "stop")
    engine.replies[:] = [Answer("I would rather not.")] * 4
    text: Any = {"format": {"type": "json_schema", **SCHEMA}}
    if stream:
        *events, last = respond(client, "plain", text=text, stream=True)
        assert "response.refusal.done" in [event.type for event in events]
        response = last.response
    else:
        response = respond(client, "plain", text=text)
    (message,) = response.output
    assert (response.status, message.content[0].refusal) == ("completed", "I would rather not.")


def test_a_form_that_was_cut_is_told_as_cut(client: Any, engine: OpenAIServer) -> None:
    engine.replies[:] = [Answer('{"x": "abc', finish="length")]
    wanted: Any = {"type": "json_schema", "json_schema": SCHEMA}
    (choice,) = chat(client, "plain", response_format=wanted).choices
    assert (choice.finish_reason, choice.message.content) == ("length", '{"x": "abc')
    assert json.loads(choice.message.content + '"}') == {"x": "abc"}


def test_a_pipeline_that_fails_keeps_its_words_for_the_log(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(query: str) -> str:
        raise RuntimeError("http://10.0.0.5 said: no")

    pipeline = Pipeline(name="pipe")
    pipeline.add_node(broken)
    with Serving(tmp_path, {"pipe": as_agent(pipeline)}) as served:
        answer = served.ask("POST", "/v1/chat/completions", {"model": "pipe", **ASKED})
    assert answer.status == 500
    assert answer.headers["x-should-retry"] == "false"  # a pipeline may have done something
    assert "10.0.0.5" not in answer.text
    assert "10.0.0.5" in caplog.text


@pytest.mark.parametrize("ask", [chat, respond])
def test_a_server_that_stops_after_an_effect_names_the_run_and_is_not_asked_again(tmp_path: Path, ask: Any) -> None:
    paid = threading.Event()

    @tool
    async def pay_slowly(name: str) -> None:
        """Pay somebody."""
        paid.set()
        await asyncio.get_running_loop().create_future()

    script = [{"call": {"tool": "pay_slowly", "input": {"name": "Ada"}}}]
    agents = {"payer": Agent(PromptModel(script=script), [pay_slowly], name="payer")}
    with ThreadPoolExecutor() as pool:
        with Serving(tmp_path, agents) as served:
            client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY)
            asked = pool.submit(ask, client, "payer")
            assert paid.wait(30)
        with client, pytest.raises(openai.InternalServerError) as raised:  # asked again, there would be no server
            asked.result(30)
    assert (raised.value.status_code, raised.value.response.headers["x-should-retry"]) == (503, "false")
    assert ", run: run_" in str(raised.value)
