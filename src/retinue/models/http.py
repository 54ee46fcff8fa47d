"""The lean HTTP client of the models: one server, JSON up, JSON or a stream of it down."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from ssl import SSLError
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary, finalize, ref

import aiohttp

from ..errors import ModelError, ModelRefused, ModelUnavailable, UsageError
from .failures import answered
from .settings import TimeLimits
from .sse import JsonLines, ServerSentEvents
from .wire import Headers

_READERS: Mapping[str, type[ServerSentEvents | JsonLines]] = {
    "text/event-stream": ServerSentEvents,
    "application/x-ndjson": JsonLines,
}
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def bearer(key: str) -> Mapping[str, str]:
    """The key as most servers want it."""
    return {"Authorization": f"Bearer {key}"}


class HttpClient:
    """A client of one server. May be used from several event loops; each keeps its own connections,
    which close with the loop (or by `close`)."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        limits: TimeLimits = TimeLimits(),
        headers: Headers = bearer,
    ) -> None:
        self.base_url = base_url
        self._headers = headers
        self._api_key = (api_key or "").strip()
        if not self._api_key.isprintable():
            raise UsageError("the API key has characters that no key has, such as a line break")
        self._limits = limits
        self._keepers: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[aiohttp.ClientSession, None]]
        ] = WeakKeyDictionary()

    async def get(self, path: str) -> Any:
        """The JSON at `path`. Raises `ModelError`."""
        async with aclosing(self.exchange(path)) as reads:
            async for bodies in reads:
                return bodies[0]
        raise ModelUnavailable(f"{self.base_url}{path} answered with nothing")

    async def exchange(self, path: str, body: bytes | None = None) -> AsyncGenerator[list[Any], None]:
        """The JSON values of the answer, but a closing `[DONE]`: those that came with each read of the network.

        With a `body` it is a POST, else a GET. Raises `ModelError`.
        """
        response = None
        try:
            response = await self._sent(await self._session(), f"{self.base_url}{path}", body)
            if response.status != 200:
                raise await self._failure(response)
            kind = _READERS.get(response.content_type)
            if kind is None:
                yield [self._parsed(await response.text(errors="replace"), response)]
                return
            reader = kind()
            while chunk := await response.content.readany():  # to its end, so the connection is kept
                found = [self._parsed(text, response) for text in reader.feed(chunk) if text.strip() != "[DONE]"]
                if found:
                    yield found
        except (TimeoutError, aiohttp.ClientError, UnicodeError) as error:
            raise self._problem(error, f"{self.base_url}{path}") from error
        finally:
            if response is not None:
                response.release()  # which closes the connection if not all was read

    async def close(self) -> None:
        """Close the running loop's connections."""
        keeper = self._keepers.pop(asyncio.get_running_loop(), None)
        if keeper is not None:
            await keeper[1].aclose()

    async def _sent(self, session: aiohttp.ClientSession, url: str, body: bytes | None) -> aiohttp.ClientResponse:
        """Send the request; once more if the server had hung up a connection that was kept."""
        method = "GET" if body is None else "POST"
        try:
            return await session.request(method, url, data=body, allow_redirects=False)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await session.request(method, url, data=body, allow_redirects=False)

    def _problem(self, error: Exception, url: str) -> ModelError:
        """What went wrong on the way, as the error for it."""
        match error:
            case TimeoutError():
                return ModelUnavailable(f"{url} did not answer in time")
            case aiohttp.ClientConnectorError():
                return ModelUnavailable(f"cannot connect to {self.base_url}: {_reason(error.os_error)}")
            case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | UnicodeError():
                return ModelRefused(f"{self.base_url!r} is not the address of a server (want http://host:port)")
        return ModelUnavailable(f"{url} broke off: {type(error).__name__}")

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        keeper = self._keepers.get(loop)
        if keeper is None:
            # The loop closes its async generators before itself, and so closes the session.
            generator = self._kept_session()
            keeper = self._keepers[loop] = await anext(generator), generator
            finalize(self, _let_go, ref(loop), generator).atexit = False
            for old in [old for old in self._keepers if old.is_closed()]:
                del self._keepers[old]
        return keeper[0]

    async def _kept_session(self) -> AsyncGenerator[aiohttp.ClientSession, None]:
        headers = {"Content-Type": "application/json"} | (dict(self._headers(self._api_key)) if self._api_key else {})
        limits = aiohttp.ClientTimeout(
            total=self._limits.total, sock_connect=self._limits.connect, sock_read=self._limits.idle
        )
        # Servers drop idle connections after 5 seconds (llama.cpp, uvicorn, Node); be gone before them.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3.0)
        async with aiohttp.ClientSession(
            headers=headers,
            timeout=limits,
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=_proxy(self.base_url),
        ) as session:
            yield session

    def _parsed(self, text: str, response: aiohttp.ClientResponse) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            kind = response.content_type
            raise ModelUnavailable(
                f"{response.url} answered with {kind} that is not JSON: {self.redacted(text)[:80]!r}"
            ) from error

    async def _failure(self, response: aiohttp.ClientResponse) -> ModelError:
        text = self.redacted(await response.text(errors="replace"))
        return answered(self.base_url, response.status, text, response.headers.get("Retry-After"))

    def redacted(self, text: str) -> str:
        """`text` without the key, which some servers repeat in their errors."""
        return text.replace(self._api_key, "***") if self._api_key else text


def _let_go(loop: ref[asyncio.AbstractEventLoop], generator: AsyncGenerator[aiohttp.ClientSession, None]) -> None:
    """Close what a client that is gone has left open."""
    running = loop()
    if running is not None and not running.is_closed():
        running.call_soon_threadsafe(running.create_task, generator.aclose())


def _proxy(base_url: str) -> str | None:
    """The proxy that HTTPS_PROXY and the like name for this server; none for one on this machine."""
    try:
        address = urlsplit(base_url)
        host = address.hostname or ""
    except ValueError:  # no address at all, as the first request will say
        return None
    return None if host in _THIS_MACHINE or proxy_bypass(host) else getproxies().get(address.scheme)


def _reason(error: OSError) -> str:
    """What the system says; asyncio words a refused connection in its own way."""
    if error.errno and error.errno > 0 and not isinstance(error, SSLError):
        return os.strerror(error.errno)
    return error.strerror or str(error)
