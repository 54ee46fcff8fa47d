"""The only way out of a sandbox: an HTTP proxy that lets programs talk HTTPS to hosts by their names.

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

from ..errors import NotDone, ToolError
from ..net.connection_pool import connect
from ..net.ssrf_guard import SsrfGuard

PORT = 3128  # in the sandbox
_MOST_HEAD, _PIECE = 16_384, 65_536  # bytes
_MOST_AT_ONCE = 32  # connections of a sandbox
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
    names, names such as `*.example.org`, or `host:port` of a server that may be private. Raises `NotDone`."""
    proxy = _Proxy(hosts)
    server = await asyncio.start_server(proxy.serve, sock=await _listen_within(process, user), limit=_MOST_HEAD)
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
        words = (sys.executable, "-I", "-S", "-c", _ENTER, str(process), str(user), str(PORT))
        helper = await asyncio.create_subprocess_exec(*words, stdin=there.fileno(), stdout=DEVNULL, stderr=PIPE, env={})
        _, said = await helper.communicate()
        if helper.returncode:
            why = said.decode("utf-8", "replace").strip()[-200:]
            raise NotDone(f"the sandbox's network cannot be entered: {why}")
        _, (handle, *_), _, _ = socket.recv_fds(here, 1, 1)
        listening = socket.socket(fileno=handle)
        listening.setblocking(False)
        return listening


class _Proxy:
    """Makes tunnels for a sandbox. Whatever it refuses, it says why in the body."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._names = [one.lower() for one in hosts if ":" not in one]
        self._private = tuple(one.lower() for one in hosts if ":" in one)
        self._guard = SsrfGuard(allow=self._private)
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve a connection."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            if len(self.tasks) > _MOST_AT_ONCE:
                raise ToolError(f"more than {_MOST_AT_ONCE} connections at once")
            async with asyncio.timeout(_SECONDS):
                there, back = await self._connect(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            sending, receiving = asyncio.ensure_future(_copy(reader, back)), asyncio.ensure_future(_copy(there, writer))
            try:
                await receiving  # the server says when it has said everything
            finally:
                sending.cancel()
                receiving.cancel()
                back.close()
        except ToolError as error:
            writer.write(f"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\nsandbox: {error}\n".encode())
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n")
        finally:
            self.tasks.discard(task)
            writer.close()

    async def _connect(self, head: bytes) -> tuple[StreamReader, StreamWriter]:
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        url = urlsplit(f"https://{target}/")
        host, port = (url.hostname or "").rstrip("."), url.port or 443
        if method != "CONNECT" or url.username is not None:
            raise ToolError("programs reach hosts over HTTPS only")
        named = host in self._names or any(one[:2] == "*." and host.endswith(one[1:]) for one in self._names)
        if not (named and port == 443) and f"{host}:{port}" not in self._private:
            raise ToolError(f"{host}:{port} is not among the hosts that this sandbox may reach")
        way = await self._guard.route(f"https://{host}:{port}/")
        return await asyncio.open_connection(sock=await connect(way.ips, port))


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
