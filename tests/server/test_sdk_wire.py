"""What the SDK hides: headers, frames, and that whatever goes wrong is said in OpenAI's envelope."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from fakes.served import Served

pytestmark = pytest.mark.anyio
HELLO = {"model": "plain", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
async def http_client(deployed: Served) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that only knows the address and the key."""
    headers = {"Authorization": f"Bearer {deployed.key}"}
    async with aiohttp.ClientSession(f"{deployed.url}/", headers=headers) as session:
        yield session


async def post(session: aiohttp.ClientSession, path: str, body: Any) -> Any:
    async with session.post(path, json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_frames_of_a_run(http_client: aiohttp.ClientSession) -> None:
    assistant = await post(http_client, "assistants", {"model": "plain"})
    thread = {"messages": [{"role": "user", "content": "Hello"}]}
    body = {"assistant_id": assistant["id"], "thread": thread, "stream": True}
    async with http_client.post("threads/runs", json=body) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-cache", "no")
        assert response.headers["x-request-id"]
        text = await response.text()
    assert text.startswith("retry: 1000\n")
    frames = [frame for frame in text.removeprefix("retry: 1000\n").split("\n\n") if not frame.startswith(":")]
    assert frames[-2:] == ["event: done\ndata: [DONE]", ""]
    for number, frame in enumerate(frames[:-2]):
        *id_, event, data = frame.split("\n")
        assert id_ == ([f"id: {number}"] if number else [])  # the thread's is no event of the run
        assert re.fullmatch(r"event: thread\.[a-z_.]+", event)
        assert json.loads(data.removeprefix("data: "))["id"]


async def test_frames_of_a_chat(http_client: aiohttp.ClientSession) -> None:
    async with http_client.post("chat/completions", json={**HELLO, "stream": True}) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        text = await response.text()
    frames = [frame for frame in text.split("\n\n") if not frame.startswith(":")]
    assert frames[-2:] == ["data: [DONE]", ""]
    assert {json.loads(frame.removeprefix("data: "))["object"] for frame in frames[:-2]} == {"chat.completion.chunk"}


async def test_a_run_says_when_to_ask_again(http_client: aiohttp.ClientSession) -> None:
    assistant = await post(http_client, "assistants", {"model": "plain"})
    thread = {"messages": [{"role": "user", "content": "Go slowly"}]}
    run = await post(http_client, "threads/runs", {"assistant_id": assistant["id"], "thread": thread})
    async with http_client.get(f"threads/{run['thread_id']}/runs/{run['id']}") as response:
        assert 0 < int(response.headers["openai-poll-after-ms"]) <= 1000


async def test_every_key_is_there_also_where_it_is_null(http_client: aiohttp.ClientSession) -> None:
    assistant = await post(http_client, "assistants", {"model": "plain"})
    thread = await post(http_client, "threads", {})
    message = await post(http_client, f"threads/{thread['id']}/messages", {"role": "user", "content": "Hello"})
    run = await post(http_client, f"threads/{thread['id']}/runs", {"assistant_id": assistant["id"]})
    keys = {
        "id object created_at name description model instructions tools tool_resources metadata temperature top_p "
        "response_format": assistant,
        "id object created_at tool_resources metadata": thread,
        "id object created_at thread_id status incomplete_details completed_at incomplete_at role content "
        "assistant_id run_id attachments metadata": message,
        "id object created_at thread_id assistant_id status required_action last_error expires_at started_at "
        "cancelled_at failed_at completed_at incomplete_details model instructions tools metadata usage temperature "
        "top_p max_prompt_tokens max_completion_tokens truncation_strategy response_format tool_choice "
        "parallel_tool_calls": run,
    }
    for wanted, given in keys.items():
        assert set(wanted.split()) <= set(given), given["object"]


async def test_an_answer_without_calls_has_no_empty_list_of_them(http_client: aiohttp.ClientSession) -> None:
    (choice,) = (await post(http_client, "chat/completions", HELLO))["choices"]
    assert "tool_calls" not in choice["message"]


async def test_whatever_goes_wrong_is_said_in_the_envelope(http_client: aiohttp.ClientSession) -> None:
    wrong: list[tuple[str, str, dict[str, Any], int]] = [
        ("GET", "nowhere", {}, 404),
        ("GET", "threads/thread_x/nowhere", {}, 404),
        ("PATCH", "assistants", {"json": {}}, 405),
        ("DELETE", "chat/completions", {}, 405),
        ("POST", "chat/completions", {"data": b'{"model": "plain", '}, 400),
        ("POST", "chat/completions", {"data": b"\xff\xfe"}, 400),
        ("POST", "assistants", {"data": b"[]"}, 400),
        ("POST", "assistants", {"data": b"[" * 10_000}, 400),
        ("GET", "models", {"headers": {"Authorization": "Bearer sk-wrong-0123456789-abcd"}}, 401),
    ]
    for method, path, options, status in wrong:
        headers = {"Content-Type": "application/json", **options.pop("headers", {})}
        async with http_client.request(method, path, headers=headers, **options) as response:
            body = await response.json()
        assert (response.status, response.content_type) == (status, "application/json"), (method, path, body)
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert (body["error"]["type"], bool(body["error"]["message"])) == ("invalid_request_error", True)
        assert response.headers["x-request-id"]
        if path == "nowhere":
            assert body["error"]["message"] == "Invalid URL (GET /v1/nowhere)"


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(deployed: Served) -> None:
    def refused() -> tuple[int, Any]:
        connection = http.client.HTTPConnection(deployed.root.removeprefix("http://"), timeout=30)
        connection.putrequest("POST", "/v1/chat/completions")
        for name, value in {"Authorization": f"Bearer {deployed.key}", "Content-Type": "application/json"}.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(10**9))
        connection.endheaders()
        response = connection.getresponse()
        status, body = response.status, json.loads(response.read())
        connection.close()
        return status, body

    status, body = await asyncio.to_thread(refused)
    assert (status, body["error"]["type"]) == (413, "invalid_request_error")


async def test_health_needs_no_key_and_the_rest_does(deployed: Served) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("health", "ready"):
            async with session.get(f"{deployed.root}/{path}") as response:
                assert response.status == 200
        for method, path in (("GET", "models"), ("POST", "threads"), ("GET", "assistants"), ("GET", "nowhere")):
            async with session.request(method, f"{deployed.url}/{path}") as response:
                error = (await response.json())["error"]
            assert (response.status, error["type"]) == (401, "invalid_request_error")
            assert error["message"].startswith("You didn't provide an API key.")


async def test_ids_are_of_their_kind_and_long(http_client: aiohttp.ClientSession) -> None:
    assistant = await post(http_client, "assistants", {"model": "plain"})
    thread = await post(http_client, "threads", {})
    said = await post(http_client, "chat/completions", HELLO)
    for prefix, given in (("asst_", assistant), ("thread_", thread), ("chatcmpl-", said)):
        assert re.fullmatch(f"{prefix}[A-Za-z0-9]{{24,}}", given["id"])


async def test_a_stream_that_is_given_up_does_not_end_the_run(http_client: aiohttp.ClientSession) -> None:
    assistant = await post(http_client, "assistants", {"model": "plain"})
    thread = {"messages": [{"role": "user", "content": "Go slowly"}]}
    body = {"assistant_id": assistant["id"], "thread": thread, "stream": True}
    async with http_client.post("threads/runs", json=body) as response:
        await response.content.readuntil(b"\n\n")
        run = json.loads((await response.content.readuntil(b"\n\n")).split(b"data: ")[1])
    path = f"threads/{run['thread_id']}/runs/{run['id']}"
    async with asyncio.timeout(30):
        while run["status"] in ("queued", "in_progress"):
            async with http_client.get(path) as answer:
                run = await answer.json()
            await asyncio.sleep(int(answer.headers["openai-poll-after-ms"]) / 1000)
    assert run["status"] == "completed"
