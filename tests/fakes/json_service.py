"""What the stand-ins for services share: they answer in JSON, note what they were asked, and fail when told to.

with FrankfurterServer() as server:
    server.instead += [(429, {"message": "slow down"}, {"Retry-After": "0"})]
    ... CurrencyConverter(base_url=server.url) ...
    assert server.asked[0].params == {"base": "EUR", "symbols": "USD"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from .loopback import Served

Said = tuple[int, Any, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None


class JSONService(Served):
    """The server, while its `with` lasts. A vendor's is a class with `answer`.

    `instead`: what the next requests are answered with, instead of what the vendor would; a body of bytes is sent
    as it is.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.instead: list[Said] = []
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        super().__init__(app)

    def answer(self, asked: Asked) -> Said:
        """What the vendor would answer."""
        raise NotImplementedError

    async def _serve(self, request: web.Request) -> web.Response:
        raw = await request.read()
        asked = Asked(request.path, dict(request.query), dict(request.headers), json.loads(raw) if raw else None)
        self.asked.append(asked)
        status, body, headers = self.instead.pop(0) if self.instead else self.answer(asked)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=data, status=status, headers={"Content-Type": "application/json", **headers})


def key_of(asked: Asked) -> str:
    """The key in an `Authorization` header."""
    return asked.headers.get("Authorization", "").removeprefix("Bearer ")
