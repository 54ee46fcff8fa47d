"""What a server logs: every failed run and every answer of 5xx is a line with its cause, and each line can be read."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from fakes.served import Served, serving
from fakes.until import until_async
from retinue._internal.log_lines import JsonLines, TextLines
from retinue.components import sandbox
from retinue.server.log_output import RepeatFilter, log_workers

pytestmark = pytest.mark.anyio
AGENTS = """
agents:
  - {name: good, params: {model: scripted, strategy: tool_calling, script: [{say: one}]}}
  - {name: bad, params: {model: scripted, strategy: tool_calling, script: [{when: what nobody asks, say: one}]}}
"""


def ask(model: str) -> Any:
    return {"model": model, "messages": [{"role": "user", "content": "Hi"}]}


async def asked(server: Served, method: str, path: str, body: Any = None, **more: str) -> tuple[int, str, Any]:
    """The status, the request's id and the body of an answer."""
    headers = {"Authorization": f"Bearer {server.key}", **more}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, server.root + path, json=body, headers=headers) as response,
    ):
        return response.status, response.headers["x-request-id"], await response.json()


def lines(server: Served) -> list[dict[str, Any]]:
    """What was logged."""
    return [json.loads(line) for line in server.log.splitlines() if not line.startswith("Retinue is ready")]


async def test_a_page_that_is_refused_is_a_line_the_first_time(tmp_path: Path) -> None:
    with serving(tmp_path, AGENTS) as server:
        for origin in ("https://one.example", "https://one.example", "https://two.example"):
            async with (
                aiohttp.ClientSession(headers={"Origin": origin}) as session,
                session.get(f"{server.root}/v1/models") as refused,
            ):
                assert refused.status == 403
        await until_async(lambda: logged(server, "two.example"))
    assert [line["message"].count("one.example") for line in lines(server) if "--cors" in line["message"]] == [1, 0]


async def test_a_run_that_fails_and_an_answer_of_500_are_lines_with_their_cause(tmp_path: Path) -> None:
    with serving(tmp_path, AGENTS) as server:
        trace = "0af7651916cd43dd8448eb211c80319c"
        known = {"X-Request-Id": "gateway-7/1", "traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        status, request, said = await asked(server, "POST", "/v1/chat/completions", ask("bad"), **known)
        assert status >= 500
        assert request in said["error"]["message"]
        await until_async(lambda: logged(server, "/v1/chat/completions"))
    found = [line for line in lines(server) if line.get("request") == request]
    (run,) = [one for one in found if one["logger"] == "retinue.run_log"]
    (answer,) = [one for one in found if one["logger"] != "retinue.run_log"]
    assert {(one["client_request"], one["trace"]) for one in (run, answer)} == {("gateway-7/1", trace)}
    assert re.fullmatch(r"run_\w+", run["run"])
    assert run["message"].startswith("ended without an answer: ERROR: ")
    assert "no rule of the script fits" in run["message"]
    assert f"POST /v1/chat/completions was answered with {status}: " in answer["message"]
    assert len(lines(server)) == 2


async def test_a_run_on_a_thread_that_fails_is_a_line(tmp_path: Path) -> None:
    with serving(tmp_path, AGENTS) as server:
        _, _, assistant = await asked(server, "POST", "/v1/assistants", {"model": "bad"})
        thread = {"messages": [{"role": "user", "content": "Hi"}]}
        given = {"assistant_id": assistant["id"], "thread": thread}
        _, request, run = await asked(server, "POST", "/v1/threads/runs", given)
        await until_async(lambda: logged(server, "without an answer"))
    (line,) = lines(server)
    assert (line["run"], line["request"], line["level"]) == (run["id"], request, "warning")


@pytest.mark.parametrize("form", ["text", "json"])
async def test_each_request_is_a_line_of_the_access_log(tmp_path: Path, form: str) -> None:
    with serving(tmp_path, AGENTS, args=["--access-log", form, "--log-level", "error"]) as server:
        wanted = [
            await asked(server, "GET", "/health"),
            await asked(server, "POST", "/v1/chat/completions", ask("good")),
            await asked(server, "GET", "/v1/nothing/%0aforged%1b[2J?key=in-the-query"),
        ]
        await until_async(lambda: logged(server, "forged"))
    log = [line for line in server.log.splitlines() if not line.startswith("Retinue is ready")]
    assert len(log) == 3
    assert "in-the-query" not in server.log
    for (status, request, _), line in zip(wanted, log, strict=True):
        assert line.isprintable()
        if form == "json":
            said = json.loads(line)
            assert (said["status"], said["request"], said["client"]) == (status, request, "127.0.0.1")
            assert said["logger"] == "retinue.access"
            assert {"at", "level", "message", "method", "path", "bytes", "ms", "tenant", "key"} <= set(said)
        else:
            assert f" {status} [request={request} client=127.0.0.1 " in line
            assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO retinue.access: (GET|POST) /", line)


async def test_nothing_is_logged_of_what_goes_well_unless_it_is_wanted(tmp_path: Path) -> None:
    with serving(tmp_path, AGENTS) as server:
        assert (await asked(server, "POST", "/v1/chat/completions", ask("good")))[0] == 200
        assert (await asked(server, "GET", "/v1/threads/thread_none"))[0] == 404
    assert lines(server) == []


async def test_every_step_can_be_followed_and_read(tmp_path: Path) -> None:
    with serving(tmp_path, AGENTS, args=["--log-level", "debug", "--log-format", "text"]) as server:
        _, request, _ = await asked(server, "POST", "/v1/chat/completions", ask("good"))
        await asked(server, "POST", "/v1/chat/completions", ask("bad"))
        await until_async(lambda: logged(server, "was answered with"))
    mine = [line for line in server.log.splitlines() if request in line]
    shapes = ["begins: ", "step 1: asked with", "step 1: a reply of 3 characters", "answered with 3 characters"]
    assert [shape for shape in shapes if any(shape in line for line in mine)] == shapes
    assert re.search(rf"\[request={request} run=run_\w+ step=1\]$", mine[1])
    assert all(line.isprintable() for line in server.log.splitlines())


async def test_a_client_that_breaks_off_is_no_error(tmp_path: Path) -> None:
    with serving(tmp_path, AGENTS, args=["--log-level", "info"]) as server:
        port = int(server.root.rpartition(":")[2])
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\n"
        with socket.create_connection(("127.0.0.1", port)) as leaving:
            leaving.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
            await asyncio.sleep(0.05)
        await until_async(lambda: logged(server, "client disconnected"))
        with socket.create_connection(("127.0.0.1", port)) as strange:
            strange.sendall(b"no request at all\r\n\r\n")
            await until_async(lambda: logged(server, "Invalid HTTP request"))
    ours = [one for one in lines(server) if one["logger"].startswith("retinue.")]
    about = [one for one in ours if not one["logger"].startswith("retinue.store.migrations")]
    assert [(one["level"], one["message"]) for one in about] == [
        ("info", "POST /v1/chat/completions: the client disconnected before the end of the request or response")
    ]
    assert "Traceback" not in server.log


@given(st.text(max_size=3_000), st.text(max_size=50), st.text(max_size=50))
def test_whatever_is_logged_is_one_line_of_bounded_fields(message: str, path: str, error: str) -> None:
    try:
        raise ValueError(error * 100)
    except ValueError:
        failed = logging.LogRecord("retinue", logging.ERROR, "", 0, "%s", (message,), sys.exc_info())
    access = logging.LogRecord("retinue.access", logging.INFO, "", 0, "GET", None, None)
    vars(access)["fields"] = {"path": path * 100, "status": 200}
    for record in (failed, access):
        said = JsonLines().format(record)
        assert said.isprintable()
        fields = json.loads(said)
        assert all(len(str(value).encode("utf-8", "replace")) <= 2_048 for value in fields.values())
        first, *trace = TextLines().format(record).split("\n")
        assert first.isprintable()
        assert all(line.isprintable() and line.startswith("    ") for line in trace)


def test_what_workers_write_to_standard_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with log_workers():
        with sandbox.spawning():
            words = [sys.executable, "-c", "import os; os.write(2, b'thread main panicked\\n' * 2 + b'x' * 5000)"]
            worker = subprocess.Popen(words)
        assert worker.wait(timeout=30) == 0
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == ["a worker wrote: thread main panicked"] * 2
    assert max(map(len, said)) < 2_100


async def logged(server: Served, what: str) -> bool:
    return what in server.log


async def test_at_level_debug_no_key_and_no_text_of_a_client_is_logged(tmp_path: Path) -> None:
    wrong, text = "sk-wrong-51d06fcd2ab14bfa", "canary-9fd4e1c07a52"
    asks = {"model": "good", "input": text}
    with serving(tmp_path, AGENTS, args=["--log-level", "debug", "--access-log", "json"]) as server:
        for key in (server.key, wrong):
            headers = {"Authorization": f"Bearer {key}", "X-Api-Key": key, "Cookie": f"key={key}"}
            async with aiohttp.ClientSession(headers=headers) as session:
                said = ask("good") | {"messages": [{"role": "user", "content": text}], "user": text}
                for path, body in (("/v1/chat/completions", said), ("/v1/responses", asks), ("/v1/files", said)):
                    async with session.post(f"{server.root}{path}", json=body) as response:
                        await response.read()
                async with session.get(f"{server.root}/v1/models?api_key={key}&q={text}") as response:
                    await response.read()
            address = f"{server.root.replace('http', 'ws')}/v1/responses?key={key}"
            with suppress(InvalidStatus, ConnectionClosed), connect(address, additional_headers=headers) as ws:
                for message in ({"type": "response.create"} | asks, {"type": text}):
                    ws.send(json.dumps(message))
                    while json.loads(ws.recv(timeout=30))["type"] not in ("response.completed", "error"):
                        pass
                ws.send(b"\xff" + text.encode())
                ws.recv(timeout=30)
        with socket.create_connection(("127.0.0.1", int(server.root.rpartition(":")[2]))) as client:
            client.sendall(f"GET /{text} HTTP/9\r\nAuthorization: Bearer {server.key}\r\n\r\n".encode())
            client.recv(1000)
    assert "begins: " in server.log
    for canary in (server.key, wrong, text):
        assert canary not in server.log


def test_what_is_said_again_and_again_is_dropped_and_counted() -> None:
    now = 0.0
    repeats = RepeatFilter(lambda: now)

    def passed(name: str, message: str, *args: Any) -> str | None:
        record = logging.LogRecord(name, logging.WARNING, "", 0, message, args, None)
        return record.getMessage() if repeats.filter(record) else None

    asyncios = [passed("asyncio", "out of files on port %d", at) for at in range(5_000)]
    assert sum(one is not None for one in asyncios) == 10
    assert [passed("retinue.server", "the run %d failed", at) for at in range(100)][-1] == "the run 99 failed"
    assert all(passed("retinue.access", "GET /health") for _ in range(100))
    now += 1.0
    assert passed("asyncio", "out of files on port %d", 7) == "out of files on port 7 (and 4,990 more like it)"
    assert passed("asyncio", "out of files on port %d", 8) is None
