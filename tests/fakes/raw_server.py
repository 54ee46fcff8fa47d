"""A server that says exactly the bytes it is told to, in the event loop of the test.

async with RawServer(b"HTTP/1.1 200 OK\r\n…", DROP) as server:
    ...
    assert server.connections == 1
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Self

DROP = b""  # hang up unanswered
HANG = b"hang"  # behind an answer: say nothing more
CLOSE = b"close"  # behind an answer: hang up


class RawServer:
    """Answers each request with the next of `answers`; as a proxy, passes on what follows CONNECT to `behind`."""

    def __init__(self, *answers: bytes, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()  # a client has
        self.hung_up = asyncio.Event()  # a client has
        self.behind: RawServer | None = None
        self.port = 0
        self._tls, self._host = tls, host
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """Its address."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, OSError):
            self.hung_up.set()
        except asyncio.CancelledError:  # by `__aexit__`; asyncio would log it
            pass
        finally:
            writer.transport.abort() if self._tls else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        self.requests.append(head + await reader.readexactly(sum(lengths)))
        self.asked.set()
        answer = self.answers.pop(0)
        if answer == DROP:
            return False
        writer.write(answer.removesuffix(HANG).removesuffix(CLOSE))
        await writer.drain()
        if head.startswith(b"CONNECT") and self.behind is not None:
            await self._pass_on(reader, writer, self.behind.port)
            return False
        if answer.endswith(HANG):
            await reader.readexactly(1)
        return not answer.endswith(CLOSE)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(_copy(reader, forth), _copy(back, writer))
        finally:
            forth.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
