"""The only way out of a sandbox: an HTTP proxy that lets programs talk to hosts by their names.

The proxy runs in this process, but it listens within the sandbox's own network, where there is nothing else. A helper
process enters that network, opens the socket there and hands it over. So nothing of the host's network is ever visible
inside. Names are looked up here, by the guard that keeps all else from private addresses."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from ..errors import ToolError
from ..net.connection_pool import connect
from ..net.ssrf_guard import SsrfGuard

PORT = 3128  # in the sandbox
_MOST_HEAD, _PIECE = 16_384, 65_536  # bytes
_MOST_AT_ONCE = 32  # connections of a sandbox
_HOP = ("host", "connection", "proxy-connection", "proxy-authorization", "keep-alive")
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n"
_Streams = tuple[StreamReader, StreamWriter]
_SECONDS = 30.0  # for a request's head, and to connect
_ENTER = """
import ctypes, fcntl, os, socket, sys
libc, user = ctypes.CDLL(None, use_errno=True), int(sys.argv[2])
if user:
    os.setresuid(user, user, user)
network = os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY)
for place, kind in (fcntl.ioctl(network, 0xB701), 0x10000000), (network, 0x40000000):  # its user namespace first
    if libc.setns(place, kind):
        sys.exit("setns: " + os.strerror(ctypes.get_errno()))
listening = socket.create_server(("127.0.0.1", int(sys.argv[3])))
socket.send_fds(socket.socket(fileno=0), [b"."], [listening.fileno()])
"""


@asynccontextmanager
async def open_proxy(process: int, hosts: Sequence[str], user: int = 0) -> AsyncIterator[None]:
    """Serve the proxy in the network of `process`, which is a sandbox of the user `user` (0: our own). `hosts` are
    names, names such as `*.example.org`, or `host:port` of a server that may be private. Raises `ToolError`."""
    listening = await _listen_within(process, user)
    proxy = _Proxy(hosts)
    server = await asyncio.start_server(proxy.serve, sock=listening, limit=_MOST_HEAD)
    try:
        yield
    finally:
        server.close()
        for task in tuple(proxy.tasks):
            task.cancel()
        await asyncio.gather(*proxy.tasks, return_exceptions=True)


async def _listen_within(process: int, user: int) -> socket.socket:
    here, there = socket.socketpair()
    with here, there:
        helper = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _ENTER, str(process), str(user), str(PORT)),
            stdin=there.fileno(),
            stdout=DEVNULL,
            stderr=PIPE,
            env={},
        )
        _, said = await helper.communicate()
        if helper.returncode:
            why = said.decode("utf-8", "replace").strip()[-200:]
            raise ToolError(f"the sandbox's network cannot be entered: {why}")
        _, (handle, *_), _, _ = socket.recv_fds(here, 1, 1)
        listening = socket.socket(fileno=handle)
        listening.setblocking(False)
        return listening


class _Proxy:
    """Answers requests of the sandbox. Whatever it refuses, it says why in the body."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._names = [one.lower() for one in hosts if ":" not in one]
        self._private = tuple(one.lower() for one in hosts if ":" in one)
        self._guard = SsrfGuard(allow=self._private)
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve a connection: one request, or a tunnel."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            if len(self.tasks) > _MOST_AT_ONCE:
                raise ToolError(f"more than {_MOST_AT_ONCE} connections at once")
            async with asyncio.timeout(_SECONDS):
                there, first = await self._open(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"" if first else b"HTTP/1.1 200 OK\r\n\r\n")
            await _relay((reader, writer), there, first)
        except ToolError as error:
            writer.write(_REFUSED + f"sandbox: {error}\n".encode())
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            writer.write(_FAILED)
        finally:
            self.tasks.discard(task)
            writer.close()

    async def _open(self, head: bytes) -> tuple[_Streams, bytes]:
        """Return a connection to the host that is asked for, and what it is sent first: a request of its own gets
        `Connection: close`, so that no second one follows which nobody has looked at."""
        line, *fields = head.decode("latin-1").split("\r\n")
        method, target, version = line.split(" ")
        tunnel = method == "CONNECT"
        url = urlsplit(f"https://{target}/" if tunnel else target)
        if url.scheme != ("https" if tunnel else "http") or url.username is not None or not url.hostname:
            raise ToolError(f"{target[:200]!r} is no address of a web server")
        host, port = url.hostname.rstrip("."), url.port or (443 if tunnel else 80)
        if not self._is_allowed(host, port):
            raise ToolError(f"{host} is not among the hosts that this sandbox may reach")
        way = await self._guard.route(f"http://{host}:{port}/")
        there = await asyncio.open_connection(sock=await connect(way.ips, port))
        if tunnel:
            return there, b""
        kept = [one for one in fields if one and one.partition(":")[0].lower() not in _HOP]
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        said = [f"{method} {path} {version}", f"Host: {url.netloc}", *kept, "Connection: close", "", ""]
        return there, "\r\n".join(said).encode("latin-1")

    def _is_allowed(self, host: str, port: int) -> bool:
        below = any(host.endswith(one[1:]) for one in self._names if one.startswith("*."))
        return below or host in self._names or f"{host}:{port}" in self._private


async def _relay(here: _Streams, there: _Streams, first: bytes) -> None:
    there[1].write(first)
    sending, receiving = (asyncio.ensure_future(_copy(*one)) for one in ((here[0], there[1]), (there[0], here[1])))
    try:
        await receiving  # the server says when it has said everything
    finally:
        for task in (sending, receiving):
            task.cancel()
        there[1].close()


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
