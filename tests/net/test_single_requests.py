"""Requests with a connection of their own: where they go, what is read of an answer, and that none needs an extra."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys

import pytest

from fakes.raw_server import CLOSE, HANG, RawServer
from retinue import NotDone, ToolError
from retinue.net.connection_pool import ConnectTimeoutError, Route, TooLargeError, open_response, read_body
from retinue.net.http1 import UnreadableAnswerError
from retinue.net.retry import TimeLimits
from retinue.net.url_policy import WebAddress
from retinue.tools.endpoint import make_endpoint

LIMITS = TimeLimits(5.0, 5.0, 5.0)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n"


async def fetch(answer: bytes, most: int = 100, *, packed: bool = False) -> tuple[bytes, RawServer]:
    """The body that a server sends, and the server, which is at an address that its name does not lead to."""
    async with RawServer(answer) as server:
        way = Route(WebAddress("http", "pages.invalid", server.port), ips=["127.0.0.1"])
        request = way.request("GET", "http://pages.invalid/a b", {})
        async with open_response(way, request, LIMITS, packed=packed) as response:
            return await read_body(response, most), server


def test_a_checked_address_is_connected_to_whatever_the_name_and_once() -> None:
    body, server = asyncio.run(fetch(HEAD % 2 + b"\r\nhi"))
    assert (body, server.connections) == (b"hi", 1)
    assert server.requests == [f"GET /a%20b HTTP/1.1\r\nHost: pages.invalid:{server.port}\r\n\r\n".encode()]


def test_lines_may_end_in_lf() -> None:
    assert asyncio.run(fetch(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"))[0] == b"hi"


@pytest.mark.parametrize("coding", [b"gzip", b"br"])
def test_a_packed_answer_is_refused_unless_it_was_asked_for(coding: bytes) -> None:
    data = gzip.compress(b"hi")
    answer = HEAD % len(data) + b"Content-Encoding: " + coding + b"\r\n\r\n" + data
    with pytest.raises(UnreadableAnswerError, match="unsupported Content-Encoding: "):
        asyncio.run(fetch(answer))
    if coding == b"gzip":
        assert asyncio.run(fetch(answer, packed=True))[0] == b"hi"


@pytest.mark.parametrize("data", [gzip.compress(b"x" * 101), gzip.compress(b"x") + b"y" * 200], ids=["bomb", "tail"])
def test_a_body_is_limited_as_it_was_sent_and_unpacked(data: bytes) -> None:
    answer = HEAD % len(data) + b"Content-Encoding: gzip\r\n\r\n" + data
    with pytest.raises(TooLargeError, match="more than 100 bytes"):
        asyncio.run(fetch(answer, packed=True))


def test_an_answer_that_does_not_end_is_read_no_further_than_its_limit() -> None:
    with pytest.raises(TooLargeError):
        asyncio.run(fetch(HEAD % 1_000_000 + b"\r\n" + b"x" * 101 + HANG))


def test_who_has_a_connection_by_no_time_has_sent_nothing() -> None:
    async def connect() -> None:
        way = Route(WebAddress("http", "pages.invalid", 80), ips=["127.0.0.1"])
        async with open_response(way, b"", TimeLimits(0.0, 5.0, 5.0)):
            pass

    with pytest.raises(ConnectTimeoutError):
        asyncio.run(connect())


def test_a_user_in_an_endpoints_address_is_sent_as_its_login_unless_a_header_has_one() -> None:
    async def call(**headers: str) -> bytes:
        async with RawServer(HEAD % 2 + b"\r\nhi") as server:
            post = make_endpoint(server.url.replace("//", "//me:word@"), headers=headers)
            assert await post(a=1) == "hi"
            return server.requests[0]

    asked = asyncio.run(call())
    assert b"\r\nAuthorization: Basic bWU6d29yZA==\r\n" in asked
    assert asked.endswith(b'\r\n\r\n{"a": 1}')
    assert b"me:word" not in asked
    asked = asyncio.run(call(authorization="mine"))
    assert b"\r\nauthorization: mine\r\n" in asked
    assert b"Basic" not in asked


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://127.0.0.1:x/", "http://a b/"])
def test_an_endpoint_that_nothing_was_sent_to_has_done_nothing(url: str) -> None:
    async def call() -> None:
        await make_endpoint(url)()

    with pytest.raises(NotDone, match="the endpoint cannot be reached"):
        asyncio.run(call())


def test_an_endpoint_that_breaks_off_may_have_done_it() -> None:
    async def call() -> None:
        async with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi" + CLOSE) as server:
            await make_endpoint(server.url)()

    with pytest.raises(ToolError, match="the endpoint broke off the connection") as raised:
        asyncio.run(call())
    assert not isinstance(raised.value, NotDone)


CORE = """
import sys
for name in ("aiohttp", "yarl", "idna", "resiliparse"):
    sys.modules[name] = None
import asyncio
from retinue import ToolError
from retinue.components import SearchEngine
from retinue.net.ssrf_guard import SsrfGuard
from retinue.tools.endpoint import make_endpoint
SearchEngine("serper", api_key="k" * 20)
make_endpoint("http://localhost/")
for url in ("http://127.0.0.1/", "http://bücher.example/"):
    try:
        asyncio.run(SsrfGuard().get(url))
    except ToolError as error:
        print(error)
"""


def test_http_needs_no_extra_but_for_international_names() -> None:
    done = subprocess.run([sys.executable, "-c", CORE], capture_output=True, text=True, check=True)
    private, international = done.stdout.splitlines()
    assert "not on the public internet" in private
    assert international == "'bücher.example' needs the extra 'web': pip install 'retinue[web]'"
