"""The models' HTTP client, byte by byte: every form of an answer, connections that are kept and that break."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import shutil
import socket
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakes.raw_server import CLOSE, DROP, HANG, RawServer
from retinue import ModelRefused, ModelUnavailable, UsageError
from retinue.net import connection_pool
from retinue.net.connection_pool import route
from retinue.net.http1 import Connection, ServerDisconnectedError, UnreadableAnswerError
from retinue.net.http_client import HttpClient
from retinue.net.retry import TimeLimits

TEXT = b'{"a": "b"}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PLAIN = HEAD + b"Content-Length: 10\r\n\r\n" + TEXT
CHUNKED = HEAD + b'Transfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n6;x=y\r\n: "b"}\r\n0\r\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SQUEEZED = zlib.compressobj(wbits=-15)
RAW_DEFLATE = SQUEEZED.compress(TEXT) + SQUEEZED.flush()


def squeezed(encoding: str, body: bytes) -> bytes:
    return HEAD + f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


ANSWERS = {
    "length": PLAIN,
    "chunked": CHUNKED + b"\r\n",
    "trailers": CHUNKED + b"Content-Type: text/html\r\nX-Checksum: 1\r\n\r\n",
    "1xx before it": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + PLAIN,
    "gzip": squeezed("gzip", gzip.compress(TEXT)),
    "deflate": squeezed("deflate", zlib.compress(TEXT)),
    "raw deflate": squeezed("Deflate", RAW_DEFLATE),
    "identity": squeezed("identity", TEXT),
}
UNTIL_CLOSE = {
    "until the end": HEAD + b"\r\n" + TEXT,
    "1.0": HEAD.replace(b"1.1", b"1.0") + b"\r\n" + TEXT,
    "gzip until the end": HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(TEXT),
}
GARBAGE = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a huge head": HEAD + b"X-Large: " + b"x" * 100_000 + b"\r\n\r\n",
    "a head without end": HEAD + b"X-Many: x\r\n" * 10_000,
    "trailers without end": CHUNKED + b"X-Many: x\r\n" * 10_000,
    "1xx without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000,
    "two lengths": HEAD + b"Content-Length: 10\r\nContent-Length: 11\r\n\r\n" + TEXT,
    "length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 10\r\n\r\n", 1),
    "no length of a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "an encoding that nobody asked for": squeezed("br", TEXT),
    "no gzip": squeezed("gzip", TEXT),
}


# ── one connection, fed by hand ──────────────────────────────────────────────────────────────────


class Wire(asyncio.Transport):
    """A transport that leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.paused = self.aborted = False

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def wired() -> tuple[Connection, Wire]:
    wire, connection = Wire(), Connection(asyncio.get_running_loop())
    connection.connection_made(wire)
    connection.send(b"", 60, asyncio.get_running_loop().time() + 60)
    return connection, wire


async def fed(reads: list[bytes], *, eof: bool = False) -> tuple[int, dict[str, str], bytes, bool]:
    """The status, the headers and the body that come of these reads, and whether the connection is kept."""
    connection, _ = wired()
    body = asyncio.ensure_future(whole(connection))
    await asyncio.sleep(0)
    for data in reads:
        connection.data_received(data)
        await asyncio.sleep(0)  # the reader sees each on its own
    if eof:
        connection.eof_received()
    text = await body
    return connection.status, connection.headers, text, connection.release()


async def whole(connection: Connection) -> bytes:
    await connection.read_head()
    pieces = []
    while piece := await connection.read():
        pieces.append(piece)
    return b"".join(pieces)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_may_come_in_two_reads_split_anywhere(runner: asyncio.Runner, answer: bytes) -> None:
    at_once = runner.run(fed([answer]))
    assert (at_once[0], at_once[1]["content-type"], *at_once[2:]) == (200, "application/json", TEXT, True)
    for at in range(1, len(answer)):
        assert runner.run(fed([answer[:at], answer[at:]])) == at_once
    assert runner.run(fed([answer[at : at + 1] for at in range(len(answer))])) == at_once


@given(st.sampled_from([*ANSWERS.values(), *UNTIL_CLOSE.values()]), st.data())
def test_any_split_into_reads_gives_the_same(runner: asyncio.Runner, answer: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(answer) - 1))))
    reads = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    eof = answer in UNTIL_CLOSE.values()
    assert runner.run(fed(reads, eof=eof)) == runner.run(fed([answer], eof=eof))


@pytest.mark.parametrize("answer", UNTIL_CLOSE.values(), ids=UNTIL_CLOSE)
def test_some_answers_end_with_the_connection(runner: asyncio.Runner, answer: bytes) -> None:
    assert runner.run(fed([answer], eof=True))[2:] == (TEXT, False)


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_ends_too_early_is_an_error(runner: asyncio.Runner, answer: bytes) -> None:
    for at in range(len(answer)):
        with pytest.raises(ServerDisconnectedError):
            runner.run(fed([answer[:at]], eof=True))


def test_what_is_squeezed_has_an_end_of_its_own(runner: asyncio.Runner) -> None:
    answer = UNTIL_CLOSE["gzip until the end"]
    for at in range(answer.index(b"\r\n\r\n") + 5, len(answer)):
        with pytest.raises(ServerDisconnectedError):
            runner.run(fed([answer[:at]], eof=True))


@pytest.mark.parametrize("size", [7, 1 << 20])
@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_an_error_and_the_connection_is_closed(runner: asyncio.Runner, answer: bytes, size: int) -> None:
    with pytest.raises(UnreadableAnswerError):
        runner.run(fed([answer[at : at + size] for at in range(0, len(answer), size)], eof=True))


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_answers_have_no_body(runner: asyncio.Runner, status: bytes) -> None:
    answer = b"HTTP/1.1 " + status + b"\r\nContent-Type: text/html\r\n\r\n"
    assert runner.run(fed([answer])) == (int(status[:3]), {"content-type": "text/html"}, b"", True)


@pytest.mark.parametrize("more", [PLAIN, b"HTTP/1.1 408 Timeout\r\n\r\n", b"garbage"])
def test_what_comes_behind_an_answer_is_no_part_of_it_and_the_connection_is_closed(
    runner: asyncio.Runner, more: bytes
) -> None:
    assert runner.run(fed([PLAIN + more]))[2:] == (TEXT, False)
    assert runner.run(fed([PLAIN, more]))[2:] == (TEXT, False)


def test_what_nobody_asked_for_closes_the_connection(runner: asyncio.Runner) -> None:
    async def unasked() -> tuple[bool, bool]:
        connection, wire = wired()
        connection.data_received(PLAIN)
        assert connection.release()
        connection.data_received(b"HTTP/1.1 408 Timeout\r\n\r\n")
        return connection.is_open, wire.aborted

    assert runner.run(unasked()) == (False, True)


def test_no_more_is_taken_from_the_network_than_is_read(runner: asyncio.Runner) -> None:
    async def flooded() -> None:
        connection, wire = wired()
        connection.data_received(HEAD + b"Content-Length: 9000000\r\n\r\n")
        while not wire.paused:
            connection.data_received(b"x" * 300_000)
        assert len(await connection.read()) == 1_200_000
        assert not wire.paused
        connection.close()

    runner.run(flooded())


def test_what_came_before_an_error_is_read_first(runner: asyncio.Runner) -> None:
    async def reset() -> bytes:
        connection, _ = wired()
        connection.data_received(PLAIN[:-3])
        connection.connection_lost(ConnectionResetError())
        seen = await connection.read()
        with pytest.raises(ConnectionResetError):
            await connection.read()
        return seen

    assert runner.run(reset()) == TEXT[:-3]


# ── a client and a server ────────────────────────────────────────────────────────────────────────


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """What comes of it; nothing may be left open."""
    gc.freeze()  # all that other tests have left in this process need not be looked through
    try:
        return asyncio.run(work)
    finally:
        gc.collect()
        gc.unfreeze()


async def asked(*answers: bytes, times: int = 1) -> tuple[list[Any], RawServer]:
    """What a client gets that asks so many times, one after another."""
    async with RawServer(*answers) as server:
        client = HttpClient(server.url)
        return [await client.get("/x") for _ in range(times)], server


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_connection_is_kept(answer: bytes) -> None:
    got, server = run(asked(answer, answer, answer, times=3))
    assert got == [{"a": "b"}] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        *(answer + CLOSE for answer in UNTIL_CLOSE.values()),
        PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    ],
    ids=[*UNTIL_CLOSE, "Connection: close"],
)
def test_a_connection_that_ends_with_the_answer_is_not(answer: bytes) -> None:
    got, server = run(asked(answer, answer, times=2))
    assert got == [{"a": "b"}] * 2
    assert server.connections == 2


def test_a_connection_that_rested_too_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "_KEPT", -1.0)
    assert run(asked(PLAIN, PLAIN, times=2))[1].connections == 2


@pytest.mark.parametrize("first", [PLAIN, PLAIN + CLOSE])
def test_a_kept_connection_that_is_closed_is_no_failure(first: bytes) -> None:
    answers = (first, PLAIN) if first.endswith(CLOSE) else (first, DROP, PLAIN)
    got, server = run(asked(*answers, times=2))
    assert got == [{"a": "b"}] * 2
    assert server.connections == 2


@pytest.mark.parametrize("answers", [(DROP, PLAIN), (PLAIN, b"HTTP/1.1 2" + CLOSE, PLAIN), (PLAIN, DROP, DROP, PLAIN)])
def test_what_a_new_connection_or_half_an_answer_breaks_is_a_failure(answers: tuple[bytes, ...]) -> None:
    with pytest.raises(ModelUnavailable, match="/x broke off: ServerDisconnectedError"):
        run(asked(*answers, times=2))


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_an_error_of_the_model(answer: bytes) -> None:
    with pytest.raises(ModelUnavailable, match=r"/x (cannot be understood|broke off: ServerDisconnectedError)"):
        run(asked(answer + CLOSE))


def test_the_request_is_what_servers_expect() -> None:
    async def posted() -> tuple[list[Any], RawServer]:
        async with RawServer(PLAIN, PLAIN) as server:
            client = HttpClient(f"{server.url}/a b/v1", "key é")
            async with aclosing(client.exchange("/../é?q=ü", b'{"x": 1}')) as reads:
                return [values async for values in reads] + [await client.get("/m")], server

    got, server = run(posted())
    assert got == [[{"a": "b"}], {"a": "b"}]
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    assert (first, body) == ("POST /a%20b/%C3%A9?q=%C3%BC HTTP/1.1", b'{"x": 1}')
    expected = {f"Host: 127.0.0.1:{server.port}", "Content-Length: 8", "Content-Type: application/json"}
    assert expected | {"Accept-Encoding: identity", "Authorization: Bearer key é"} <= set(headers)
    assert server.requests[1].startswith(b"GET /a%20b/v1/m HTTP/1.1\r\n")
    assert b"Content-Length" not in server.requests[1]


def test_events_are_handed_out_as_they_arrive() -> None:
    async def events() -> list[Any]:
        async with RawServer(STREAM + b"a\r\ndata: 1\n\n\n\r\n" + HANG) as server:
            client = HttpClient(server.url)
            async with aclosing(client.exchange("/x")) as reads:
                first = await anext(reads)
            await server.hung_up.wait()  # as not all was read
            return first

    assert run(events()) == [1]


def test_the_connections_of_a_client_that_nobody_has_any_more_are_closed() -> None:
    async def forgotten() -> None:
        async with RawServer(PLAIN) as server:
            await HttpClient(server.url).get("/x")
            gc.collect()
            async with asyncio.timeout(5):
                await server.hung_up.wait()

    run(forgotten())


def test_several_at_once_have_a_connection_each() -> None:
    async def three() -> int:
        async with RawServer(*[PLAIN] * 6) as server:
            client = HttpClient(server.url)
            for _ in range(2):
                assert await asyncio.gather(*(client.get("/x") for _ in range(3))) == [{"a": "b"}] * 3
            return server.connections

    assert run(three()) == 3


def test_a_server_that_falls_silent_is_noticed_on_a_connection_that_has_served_before() -> None:
    async def asked() -> int:
        async with RawServer(PLAIN, PLAIN, HANG) as server:
            client = HttpClient(server.url, limits=TimeLimits(idle=0.05))
            for _ in range(2):
                assert await client.get("/x") == {"a": "b"}
            # the timer of the first request is due during the third, and looks again
            with pytest.raises(ModelUnavailable, match="did not answer in time"):
                await client.get("/x")
            return server.connections

    assert run(asked()) == 1


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [b"", HEAD, PLAIN[:-3], STREAM + b"9\r\ndata: 1\n\n"], ids=len)
def test_a_request_may_be_cancelled_at_any_point(answer: bytes) -> None:
    async def cancelled() -> None:
        async with RawServer((answer or b"\r\n") + HANG, PLAIN) as server:
            client = HttpClient(server.url)
            task = asyncio.create_task(client.get("/x"))
            await server.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()
            assert await client.get("/x") == {"a": "b"}

    run(cancelled())


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_connecting_may_be_cancelled_after_any_number_of_turns_of_the_loop(scheme: str, host: str) -> None:
    async def cancelled(url: str, turns: int) -> None:
        task = asyncio.create_task(HttpClient(url).get("/x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    with socket.create_server(("127.0.0.1", 0)) as silent:  # which the system connects to, and nobody serves
        for turns in range(16):
            run(cancelled(f"{scheme}://{host}:{silent.getsockname()[1]}", turns))


def test_closing_ends_what_is_going_on() -> None:
    async def closed() -> None:
        async with RawServer(PLAIN[:-3] + HANG) as server:
            client = HttpClient(server.url)
            task = asyncio.create_task(client.get("/x"))
            await server.asked.wait()
            await client.close()
            with pytest.raises(ModelUnavailable, match="broke off: ServerDisconnectedError"):
                await task

    run(closed())


def test_a_loop_may_end_in_the_middle_of_an_answer() -> None:
    async def left() -> AsyncIterator[list[Any]]:
        async with RawServer(STREAM + b"a\r\ndata: 1\n\n\n\r\n" + HANG) as server:
            reads = HttpClient(server.url).exchange("/x")
            await anext(reads)
            return reads

    run(left())


# ── other ways there ─────────────────────────────────────────────────────────────────────────────


def test_a_server_may_be_at_an_ipv6_address() -> None:
    async def over_6() -> RawServer:
        async with RawServer(PLAIN, host="::1") as server:
            await HttpClient(server.url).get("/x")
            return server

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    server = run(over_6())
    assert f"\r\nHost: [::1]:{server.port}\r\n".encode() in server.requests[0]


def test_a_name_with_several_addresses_that_all_refuse_says_so_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(
        ModelUnavailable, match=rf"^cannot connect to http://localhost:{port}: Connection refused \(is it running\?\)$"
    ):
        run(HttpClient(f"http://localhost:{port}").get("/x"))


def test_an_address_with_a_user_is_refused_without_being_repeated() -> None:
    with pytest.raises(ModelRefused, match=r"is not the address of a server") as raised:
        run(HttpClient("http://me:secret@host").get("/x"))
    assert "secret" not in str(raised.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate with its key, for this machine and models.example."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    names = "subjectAltName=DNS:localhost,DNS:models.example,IP:127.0.0.1"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run(
        [*command, "-addext", names, "-keyout", path, "-out", f"{path}.crt"], check=True, capture_output=True
    )
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def asked_twice_in_tls(tls: ssl.SSLContext, *answers: bytes) -> RawServer:
    async with RawServer(*answers, tls=tls) as server:
        client = HttpClient(server.url.replace("127.0.0.1", "localhost"))
        assert [await client.get("/x") for _ in range(2)] == [{"a": "b"}] * 2
        return server


def test_tls_connections_are_kept_too(tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert run(asked_twice_in_tls(tls, PLAIN, PLAIN)).connections == 1
    assert run(asked_twice_in_tls(tls, PLAIN, DROP, PLAIN)).connections == 2
    assert run(asked_twice_in_tls(tls, *[UNTIL_CLOSE["until the end"] + CLOSE] * 2)).connections == 2


def test_a_certificate_that_nobody_trusts_is_an_error_that_says_so(tls: ssl.SSLContext) -> None:
    with pytest.raises(
        ModelUnavailable, match=r"^cannot connect to https://localhost:\d+: .*certificate verify failed"
    ):
        run(asked_twice_in_tls(tls, PLAIN))


def test_no_tls_where_it_is_expected_is_an_error_that_says_so() -> None:
    async def asked_in_tls() -> None:
        async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
            await HttpClient("https://127.0.0.1:{1}".format(*server.sockets[0].getsockname())).get("/x")

    with pytest.raises(ModelUnavailable, match=r"^cannot connect to https://127.*SSL"):
        run(asked_in_tls())


# ── proxies ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_is_asked_for_the_whole_address(no_proxies: pytest.MonkeyPatch, variable: str) -> None:
    async def over_proxy() -> RawServer:
        async with RawServer(PLAIN, PLAIN) as proxy:
            no_proxies.setenv(variable, f"http://me:p%40ss@127.0.0.1:{proxy.port}")
            client = HttpClient("http://models.example/v1")
            assert [await client.get("/x") for _ in range(2)] == [{"a": "b"}] * 2
            return proxy

    proxy = run(over_proxy())
    head = proxy.requests[0]
    assert head.startswith(b"GET http://models.example/v1/x HTTP/1.1\r\nHost: models.example\r\n")
    assert b"\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in head
    assert proxy.connections == 1


def test_a_proxy_leads_to_tls_through_a_tunnel(
    no_proxies: pytest.MonkeyPatch, tls: ssl.SSLContext, certificate: Path
) -> None:
    async def over_proxy() -> tuple[RawServer, RawServer]:
        async with (
            RawServer(PLAIN, PLAIN, tls=tls) as server,
            RawServer(b"HTTP/1.1 200 Connection established\r\n\r\n") as proxy,
        ):
            proxy.behind = server
            no_proxies.setenv("https_proxy", f"me:word@127.0.0.1:{proxy.port}")
            client = HttpClient("https://models.example/v1", "k")
            assert [await client.get("/x") for _ in range(2)] == [{"a": "b"}] * 2
            await client.close()
            return server, proxy

    no_proxies.setenv("SSL_CERT_FILE", str(certificate))
    server, proxy = run(over_proxy())
    (head,) = proxy.requests
    assert head.startswith(b"CONNECT models.example:443 HTTP/1.1\r\nHost: models.example:443\r\n")
    assert b"Proxy-Authorization: Basic bWU6d29yZA==" in head
    assert server.requests[0].startswith(b"GET /v1/x HTTP/1.1\r\nHost: models.example\r\n")
    assert b"Proxy-" not in server.requests[0]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n", "the proxy answered 407"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "the proxy sent data before the tunnel was used"),
        (DROP, "the server closed the connection"),
        (b"garbage\r\n\r\n", "the response is not valid HTTP"),
    ],
)
def test_a_proxy_that_grants_no_tunnel_is_an_error_that_says_so(
    no_proxies: pytest.MonkeyPatch, answer: bytes, problem: str
) -> None:
    async def over_proxy() -> None:
        async with RawServer(answer) as proxy:
            no_proxies.setenv("HTTPS_PROXY", proxy.url)
            await HttpClient("https://models.example").get("/x")

    with pytest.raises(ModelUnavailable, match=f"^cannot connect to https://models.example: {problem}"):
        run(over_proxy())


def test_no_proxy_leads_to_this_machine_or_to_what_no_proxy_names(no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert run(asked(PLAIN))[0] == [{"a": "b"}]
    no_proxies.setenv("NO_PROXY", "models.example")
    assert route("http://models.example").proxy is None
    assert route("http://other.example").proxy is not None


def test_a_proxy_of_another_kind_is_named_without_its_password(no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("ALL_PROXY", "socks5://me:word@127.0.0.1:1080")
    with pytest.raises(
        UsageError, match=r"^the environment names the proxy 'socks5://\*\*\*@127.0.0.1:1080'; want one of"
    ):
        run(HttpClient("http://models.example").get("/x"))


# ── addresses ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "authority", "name"),
    [
        ("http://host", "host:80", "host"),
        ("https://host", "host:443", "host"),
        ("https://host:80/v1", "host:80", "host:80"),
        ("http://HOST:8080", "host:8080", "host:8080"),
        ("https://[::1]", "[::1]:443", "[::1]"),
        ("https://[fe80::1%eth0]:4", "[fe80::1%eth0]:4", "[fe80::1%eth0]:4"),
        ("http://bücher.example", "xn--bcher-kva.example:80", "xn--bcher-kva.example"),
    ],
)
def test_an_address_is_read(url: str, authority: str, name: str) -> None:
    server = route(url).server
    assert (server.authority, server.name) == (authority, name)


@pytest.mark.parametrize(
    "url", ["http://", "http://a b", "http://a\x00", "ws://host", "http://host:x", "http://u@h", ""]
)
def test_what_is_no_address_is_an_error(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- of several kinds
        route(url)


@given(st.text(max_size=9), st.text(max_size=9))
def test_a_head_is_one_whatever_the_path(path: str, query: str) -> None:
    way = route("http://host")
    try:
        head = way.request("GET", f"http://host/{path}?{query}", {})
    except ValueError:
        return
    first, second, *end = head.decode("ascii").split("\r\n")
    assert (first.count(" "), second, end) == (2, "Host: host", ["", ""])


def test_json_is_what_comes_of_any_kind() -> None:
    assert json.loads(TEXT) == run(asked(PLAIN.replace(b"application/json", b"Text/Plain; x")))[0][0]
