"""The lean HTTP client of the models: one server, JSON up, JSON or server-sent events down."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ssl import SSLError
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary, finalize, ref

import aiohttp

from ..errors import ModelError, ModelRefused, ModelUnavailable, UsageError
from .retrying import retry_after
from .settings import TimeLimits
from .sse import ServerSentEvents

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


class HttpClient:
    """A client of one server. May be used from several event loops; each keeps its own connections,
    which close with the loop (or by `close`)."""

    def __init__(self, base_url: str, api_key: str | None = None, limits: TimeLimits = TimeLimits()) -> None:
        self.base_url = base_url
        self._api_key = (api_key or "").strip()
        if not self._api_key.isprintable():
            raise UsageError("the API key has characters that no key has, such as a line break")
        self._limits = limits
        self._keepers: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[aiohttp.ClientSession, None]]
        ] = WeakKeyDictionary()

    async def get(self, path: str) -> Any:
        """The JSON at `path`. Raises `ModelError`."""
        async with self._answer("GET", path) as response:
            return await self._json(response)

    async def post(self, path: str, body: bytes) -> Any:
        """The JSON answer to `body`. Raises `ModelError`."""
        async with self._answer("POST", path, body) as response:
            return await self._json(response)

    async def stream(self, path: str, body: bytes) -> AsyncGenerator[Any, None]:
        """The JSON of each event of the answer but the closing `[DONE]`. Raises `ModelError`."""
        async with self._answer("POST", path, body) as response:
            if response.content_type != "text/event-stream":
                yield await self._json(response)
                return
            events = ServerSentEvents()
            async for chunk in response.content.iter_any():  # read to its end, so the connection is kept
                for data in events.feed(chunk):
                    if data.strip() != "[DONE]":
                        yield self._parsed(data, response)

    async def close(self) -> None:
        """Close the running loop's connections."""
        keeper = self._keepers.pop(asyncio.get_running_loop(), None)
        if keeper is not None:
            await keeper[1].aclose()

    @asynccontextmanager
    async def _answer(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        session = await self._session()
        url = f"{self.base_url}{path}"
        try:
            async with await self._sent(session, method, url, body) as response:
                if response.status != 200:
                    raise await self._failure(response)
                yield response
        except TimeoutError as error:
            raise ModelUnavailable(f"{url} did not answer in time") from error
        except aiohttp.ClientConnectorError as error:
            raise ModelUnavailable(f"cannot connect to {self.base_url}: {_reason(error.os_error)}") from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, UnicodeError) as error:
            raise ModelRefused(f"{self.base_url!r} is not the address of a server (want http://host:port)") from error
        except aiohttp.ClientError as error:
            raise ModelUnavailable(f"{url} broke off: {type(error).__name__}") from error

    async def _sent(
        self, session: aiohttp.ClientSession, method: str, url: str, body: bytes | None
    ) -> aiohttp.ClientResponse:
        """Send the request; once more if the server had hung up a connection that was kept."""
        try:
            return await session.request(method, url, data=body, allow_redirects=False)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await session.request(method, url, data=body, allow_redirects=False)

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
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        limits = aiohttp.ClientTimeout(
            total=self._limits.total, sock_connect=self._limits.connect, sock_read=self._limits.idle
        )
        # Servers drop idle connections after 5 seconds (llama.cpp, uvicorn, Node); be gone before them.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3.0)
        async with aiohttp.ClientSession(
            headers=headers, timeout=limits, connector=connector, proxy=_proxy(self.base_url)
        ) as session:
            yield session

    async def _json(self, response: aiohttp.ClientResponse) -> Any:
        return self._parsed(await response.text(errors="replace"), response)

    def _parsed(self, text: str, response: aiohttp.ClientResponse) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            kind = response.content_type
            raise ModelUnavailable(
                f"{response.url} answered with {kind} that is not JSON: {self.redacted(text)[:80]!r}"
            ) from error

    async def _failure(self, response: aiohttp.ClientResponse) -> ModelError:
        message, code = said(self.redacted(await response.text(errors="replace")))
        message = f"{self.base_url} answered {response.status}: {message}"
        if response.status in (401, 403):
            return ModelRefused(f"{message} (is the API key right?)")
        if response.status in (408, 425, 429) or response.status >= 500:
            if code == "insufficient_quota":
                return ModelRefused(message)
            return ModelUnavailable(message, retry_after(response.headers.get("Retry-After")))
        return ModelRefused(message)

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


def said(text: str) -> tuple[str, str]:
    """An error body's message and code, in any of the shapes servers use."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text.split())[:200] or "(no message)", ""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, Mapping):
        return " ".join(str(error).split())[:500], ""
    message = next((error[key] for key in ("message", "detail", "error") if error.get(key)), "(no message)")
    return " ".join(str(message).split())[:500], str(error.get("code", ""))
