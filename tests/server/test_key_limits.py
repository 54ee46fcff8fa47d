"""What keys may use: requests, tokens, runs, streams; and bodies and connections that are too much, or too slow."""

from __future__ import annotations

import asyncio
import http.client
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx2
import openai
import pytest

from chaos.overload import LIMITS, overload
from fakes.app_server import KEY, Answer, Serving, answering, with_run
from fakes.kept_runs import calling
from fakes.postgres import Postgres
from fakes.served import serving
from fakes.until import until
from retinue import Agent, tool
from retinue.limits.rate import Bounds, KeyLimits, format_duration
from retinue.server import maintenance
from retinue.store.api_keys import create_key, hash_key, key_id_of

ID = key_id_of(hash_key(KEY))
CHAT: Any = {"model": "agent-1", "messages": [{"role": "user", "content": "Begin"}]}
PARIS = answering("agent-1", *["Paris."] * 9)


class Clock:
    """Seconds, as they are told."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Working:
    """A server with limits, whose agent works until it is let go on."""

    def __init__(self, folder: Path, bounds: Bounds, **more: Any) -> None:
        self.on = threading.Event()
        self.served = Serving(folder, {"agent-1": self._agent()}, limits=KeyLimits(bounds), **more)

    def _agent(self) -> Agent:
        @tool(effects="read")
        def work() -> str:
            """Work."""
            assert self.on.wait(30)
            return "worked 1"

        return calling([work], {"tool": "work", "input": {}})

    def begin(self, **more: Any) -> Answer:
        """A run on a thread of its own."""
        assistant = self.served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
        thread = {"messages": CHAT["messages"]}
        return self.served.ask("POST", "/v1/threads/runs", {"assistant_id": assistant, "thread": thread}, **more)

    def status(self, run: Any) -> str:
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
        return str(self.served.ask("GET", path).body["status"])


@pytest.fixture
def clock() -> Clock:
    return Clock()


def too_many(said: Answer, kind: str, words: str, ms: int) -> None:
    """Assert that a request was refused in these words."""
    assert said.status == 429
    assert (said.error["type"], said.error["code"], said.error["param"]) == (kind, "rate_limit_exceeded", None)
    assert said.error["message"] == words
    assert said.headers["retry-after-ms"] == str(ms)
    assert said.headers["retry-after"] == str(-(-ms // 1000))


def test_requests_of_a_minute(tmp_path: Path, clock: Clock) -> None:
    with Serving(tmp_path, limits=KeyLimits(Bounds(requests=10), clock)) as served:
        for left in range(9, -1, -1):
            said = served.ask("POST", "/v1/threads", {})
            assert said.status == 200
            assert said.headers["x-ratelimit-limit-requests"] == "10"
            assert said.headers["x-ratelimit-remaining-requests"] == str(left)
            assert said.headers["x-ratelimit-reset-requests"] == ("1m0s" if not left else f"{60 - 6 * left}s")
        words = "Rate limit reached for requests per min (RPM): Limit 10, Used 10, Requested 1. Please try again in 6s."
        for _ in range(3):  # what is refused does not count
            too_many(served.ask("POST", "/v1/threads", {}), "requests", words, 6000)
        assert served.ask("GET", "/health").status == 200
        clock.now += 0.6
        assert served.ask("GET", "/v1/models").status == 200  # a tenth of a request
        assert served.ask("GET", "/v1/models").status == 429
        clock.now += 6
        assert [served.ask("POST", "/v1/threads", {}).status for _ in range(2)] == [200, 429]
        clock.now += 3600
        said = served.ask("GET", "/v1/models")
        assert said.headers["x-ratelimit-remaining-requests"] == "9"
        assert said.headers["x-ratelimit-reset-requests"] == "600ms"


def test_keys_have_limits_of_their_own_and_do_not_share_them(tmp_path: Path, clock: Clock) -> None:
    with Serving(tmp_path, limits=KeyLimits(Bounds(requests=3), clock)) as served:
        one, free, usual = (
            served.in_loop(served.database.write(partial(create_key, limits=limits)))
            for limits in ({"requests": 1}, {"requests": None}, {"unheard-of": 1})
        )
        for key, most in ((one, 1), (free, 9), (usual, 3), (KEY, 3)):
            statuses = Counter(served.ask("POST", "/v1/threads", {}, key=key).status for _ in range(9))
            assert statuses == Counter({200: most, 429: 9 - most})
        assert "x-ratelimit-limit-requests" not in served.ask("POST", "/v1/threads", {}, key=free).headers


def test_without_limits_nothing_is_said_of_them(served: Serving) -> None:
    assert not [name for name in served.ask("GET", "/v1/models").headers if "ratelimit" in name.lower()]


def test_the_sdk_waits_as_long_as_it_is_told(tmp_path: Path, clock: Clock) -> None:
    limits = KeyLimits(Bounds(requests=3000), clock)
    waits = []

    def time_passes(response: httpx2.Response) -> None:
        if response.status_code == 429:
            waits.append(int(response.headers["retry-after-ms"]))
            clock.now += waits[-1] / 1000

    with Serving(tmp_path, {"agent-1": PARIS}, limits=limits) as served:
        for _ in range(3000):
            limits.request(ID, reads=False)
        with (
            httpx2.Client(event_hooks={"response": [time_passes]}) as http,
            openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, http_client=http, max_retries=1) as client,
        ):
            assert client.chat.completions.create(**CHAT).choices[0].message.content == "Paris."
            assert waits == [20]
            with pytest.raises(openai.RateLimitError) as raised:
                client.with_options(max_retries=0).chat.completions.create(**CHAT)
    assert raised.value.code == "rate_limit_exceeded"


def test_tokens_of_a_minute(tmp_path: Path, clock: Clock) -> None:
    limits = KeyLimits(Bounds(tokens=60), clock)
    with Serving(tmp_path, {"agent-1": PARIS}, limits=limits) as served:
        assert served.ask("POST", "/v1/threads", {}).headers["x-ratelimit-remaining-tokens"] == "60"
        assert served.ask("POST", "/v1/chat/completions", CHAT).body["usage"]["total_tokens"] == 2
        until(lambda: served.ask("POST", "/v1/threads", {}).headers["x-ratelimit-remaining-tokens"] == "58")
        limits.spent(ID, 98)  # what a run needs is known when it has ended
        words = "Rate limit reached for tokens per min (TPM): Limit 60, Used 100, Requested 1. Please try again in 41s."
        too_many(served.ask("POST", "/v1/chat/completions", CHAT), "tokens", words, 41000)
        assert served.ask("POST", "/v1/threads", {}).headers["x-ratelimit-remaining-tokens"] == "0"
        run = served.ask("GET", "/v1/runs").body["data"][0]["id"]
        too_many(served.ask("POST", f"/v1/runs/{run}/fork", {}), "tokens", words, 41000)
        clock.now += 41
        assert served.ask("POST", "/v1/chat/completions", CHAT).status == 200


def test_runs_above_the_number_under_way_wait_and_those_above_the_queue_are_refused(tmp_path: Path) -> None:
    working = Working(tmp_path, Bounds(runs=1, queue=1))
    with working.served:
        first, second = working.begin().body, working.begin().body
        until(lambda: working.status(first) == "in_progress")
        assert working.status(second) == "queued"
        words = "Rate limit reached for runs: Limit 2, Used 2, Requested 1. Please try again in 1s."
        too_many(working.begin(), "requests", words, 1000)
        too_many(working.served.ask("POST", "/v1/chat/completions", CHAT), "requests", words, 1000)
        assert len(working.served.ask("GET", "/v1/threads").body["data"]) == 2  # of what was refused, nothing is left
        other = working.served.in_loop(working.served.database.write(create_key))
        third = working.served.ask("POST", "/v1/threads/runs", {"assistant_id": first["assistant_id"]}, key=other)
        assert third.status == 200
        working.on.set()
        for run in (first, second):
            until(lambda run=run: working.status(run) == "completed")  # type: ignore[misc]
        assert working.begin().status == 200


def test_many_at_once_are_no_more_than_the_limit(tmp_path: Path) -> None:
    working = Working(tmp_path, Bounds(runs=2, queue=3))
    with working.served as served:
        assistant = served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
        body = {"assistant_id": assistant, "thread": {"messages": CHAT["messages"]}}

        async def ask(session: aiohttp.ClientSession) -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {KEY}"}
            async with session.post(f"{served.url}/v1/threads/runs", json=body, headers=headers) as response:
                return response.status, await response.json()

        async def ask_all() -> list[tuple[int, Any]]:
            async with aiohttp.ClientSession() as session:
                return await asyncio.gather(*(ask(session) for _ in range(40)))

        answers = asyncio.run(ask_all())
        assert Counter(status for status, _ in answers) == Counter({200: 5, 429: 35})
        working.on.set()
        for status, run in answers:
            if status == 200:
                until(lambda run=run: working.status(run) == "completed")  # type: ignore[misc]


def test_a_run_that_was_cancelled_in_the_queue_leaves_its_place(tmp_path: Path) -> None:
    working = Working(tmp_path, Bounds(runs=1, queue=1))
    with working.served:
        first, second = working.begin().body, working.begin().body
        until(lambda: working.status(first) == "in_progress")
        assert working.begin().status == 429
        path = f"/v1/threads/{second['thread_id']}/runs/{second['id']}/cancel"
        assert working.served.ask("POST", path).body["status"] == "cancelled"
        assert until(lambda: working.begin().status == 200)
        working.on.set()


def test_open_streams(tmp_path: Path) -> None:
    working = Working(tmp_path, Bounds(streams=1))
    with working.served as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0)
        with client, client.chat.completions.create(**CHAT, stream=True) as stream:
            next(stream)
            words = "Rate limit reached for open streams: Limit 1, Used 1, Requested 1. Please try again in 1s."
            too_many(served.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True}), "requests", words, 1000)
            assert served.ask("GET", "/v1/statistics").body["runs"] == {"in_progress": 1}  # nothing was begun
            working.on.set()
            assert served.ask("POST", "/v1/chat/completions", CHAT).status == 200
            list(stream)
        until(lambda: served.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True}).status == 200)
        assert served.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True, "n": 2}).status == 400
        until(lambda: served.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True}).status == 200)


@pytest.mark.parametrize("how", ["?stream=true", "?stream=1", "?stream=yes", "?stream=on&stream=True", "accept"])
def test_open_streams_of_what_is_read_however_it_is_asked_for(tmp_path: Path, how: str) -> None:
    working = Working(tmp_path, Bounds(streams=1))
    with working.served as served:
        thread, run = with_run(served)
        given = {"model": "agent-1", "input": "Hi", "background": True}
        response = served.ask("POST", "/v1/responses", given).body["id"]
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0)
        with client, client.chat.completions.create(**CHAT, stream=True) as stream:
            next(stream)
            accept = {"Accept": "application/json, text/event-stream;q=0.5"} if how == "accept" else {}
            query = "" if accept else how
            paths = [f"/v1/threads/{thread}/runs/{run}", *([] if accept else [f"/v1/responses/{response}"])]
            for path in paths:
                said = served.ask("GET", path + query, headers=accept)
                assert (said.status, said.error["code"]) == (429, "rate_limit_exceeded")
                assert served.ask("GET", path).status == 200
            working.on.set()
            list(stream)


def test_limits_of_the_command(tmp_path: Path) -> None:
    agent = "agents: [{name: agent-1, params: {model: scripted, strategy: tool_calling, script: [{say: Hello}]}}]\n"
    limits = ["--limit-requests", "100/min", "--limit-tokens", "1", "--limit-runs", "1", "--limit-queue", "0"]
    with serving(tmp_path, agent, args=[*limits, "--limit-streams", "1"]) as server, server.client() as client:
        said = client.chat.completions.with_raw_response.create(**CHAT)
        assert said.headers["x-ratelimit-limit-requests"] == "100"
        with pytest.raises(openai.RateLimitError) as raised:
            client.chat.completions.create(**CHAT)  # the first has used up all tokens
        assert raised.value.type == "tokens"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0ms"), (0.0121, "13ms"), (0.999, "999ms"), (1, "1s"), (59.1, "1m0s"), (360, "6m0s"), (3661, "1h1m1s")],
)
def test_durations_are_written_as_openai_does(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


# ── bodies and connections ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"metadata": {"a": "1", "a": "2"}}', "duplicate key 'a' in an object"),
        ('{"messages": [], "messages": []}', "duplicate key 'messages' in an object"),
        ('{"a":' * 20_000 + "1" + "}" * 20_000, "nested more than 64 levels deep"),
    ],
    ids=["twice", "twice at the top", "deep objects"],
)
def test_json_that_is_not_taken(served: Serving, text: str, problem: str) -> None:
    said = served.ask("POST", "/v1/threads", data=text, headers={"Content-Type": "application/json"})
    assert said.status == 400
    assert problem in said.error["message"]


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, patience=0.2, header_seconds=0.2, connections=3) as served:
        yield served


def connected(served: Serving) -> socket.socket:
    where = urlsplit(served.url)
    return socket.create_connection((str(where.hostname), where.port or 0), timeout=20)


def test_a_body_that_does_not_arrive(impatient: Serving) -> None:
    head = (
        f"POST /v1/threads HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 1000\r\n\r\n"
    )
    with connected(impatient) as connection:
        connection.sendall(head.encode() + b"{")
        said = b"".join(iter(lambda: connection.recv(10_000), b""))  # to the end: it is closed
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_timeout"' in said


@pytest.mark.parametrize("begun", [b"", b"GET /health HTTP/1.1\r\nHost: loc"], ids=["nothing", "half of the headers"])
def test_headers_that_do_not_arrive(impatient: Serving, begun: bytes) -> None:
    with connected(impatient) as connection:
        connection.sendall(begun)
        assert closed(connection)
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(impatient) as connection:
        connection.sendall(whole)
        assert connection.recv(9).startswith(b"HTTP/1.1 ")
        connection.sendall(whole[:-2])  # the next one on the same connection
        assert closed(connection)


def closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True


def test_one_address_has_so_many_connections(tmp_path: Path) -> None:
    with Serving(tmp_path, connections=3) as served:
        there = [connected(served) for _ in range(3)]
        with connected(served) as fourth:
            assert closed(fourth)
        there.pop().close()
        until(lambda: answers(served))
        for one in there:
            one.close()


def answers(served: Serving) -> bool:
    try:
        return served.ask("GET", "/health").status == 200
    except aiohttp.ClientError:
        return False


@pytest.mark.full
def test_idle_connections_of_strangers_take_no_file_descriptor_that_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "agents.yml"
    file.write_text("agents: [{name: a, params: {model: scripted, script: [{say: one}]}}]", "utf-8")
    serve = f"ulimit -n 320; exec {sys.executable} -m retinue serve {file} --port 0 --db {tmp_path}/runs.db"
    with (
        subprocess.Popen(["bash", "-c", serve], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server,
        ExitStack() as stack,
    ):
        assert server.stdout is not None
        stack.callback(server.kill)
        url = next(line for line in server.stdout if b"ready" in line).split()[-1].decode()
        place = ("127.0.0.1", int(url.rpartition(":")[2]))
        busy = http.client.HTTPConnection(*place)
        busy.request("GET", "/health")
        busy.getresponse().read()
        kept = busy.sock
        idle = [socket.create_connection(place, source_address=(f"127.0.0.{2 + at % 2}", 0)) for at in range(400)]
        for _ in range(5):
            with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
                assert response.status == 200
        busy.request("GET", "/health")
        busy.getresponse().read()
        assert busy.sock is kept  # of an address with few connections, none is closed
        busy.close()
        for one in idle:
            one.close()
        server.terminate()
        assert len(server.communicate(timeout=30)[1]) < 5_000


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_overload_is_refused_and_what_was_accepted_is_done(limits: tuple[str, ...]) -> None:
    limits = (*limits[:-1], limits[-1].replace("50", "5").replace("100", "20"))
    seen = overload(150, 0.5, limits=limits, delay=0.5)  # slow runs: a slow client asks for too many of them too
    assert not seen.problems(longest=30.0)  # how quick it is, `create_key chaos` measures
    assert seen.statuses[200] >= 10
    assert seen.statuses[429] >= 10


@pytest.mark.full
def test_a_process_that_gets_no_requests_learns_the_limits_of_new_keys(
    a_postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_LEARNS", 0.01)
    limits = KeyLimits()
    with Serving(tmp_path, url=a_postgres.database(), limits=limits) as served:
        key = served.in_loop(served.database.write(partial(create_key, limits={"runs": 3})))
        until(lambda: limits.runs(key_id_of(hash_key(key))) == 3)
