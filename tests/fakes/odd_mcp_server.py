"""`mcp_misbehaving.py` at an address (streamable HTTP), in a thread of its own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from .loopback import Served
from .mcp_misbehaving import ACT, OBJECT

SESSION = "Mcp-Session-Id"


class OddServer(Served):
    """Its tool `act` does its work, which is an entry in `effects`, and then answers in the way it is told, as JSON.

    Beyond those of the program: `{"status": 404, "body": "…", "headers": {…}}`, `{"body": "…ID…", "type": "…"}`, and
    `{"drops": true}`. A session that it does not know, such as all of them after `sessions.clear()`, is answered by
    `stranger`: a status and a body.
    """

    def __init__(self, stranger: tuple[int, str] = (404, "")) -> None:
        self.effects: list[str] = []
        self.sessions: set[str] = set()
        self.opened = 0
        self._stranger = stranger
        self._told: asyncio.Future[Any] | None = None
        app = web.Application()
        app.router.add_post("/mcp", self._answer)
        app.router.add_delete("/mcp", self._end)
        super().__init__(app)

    async def _end(self, request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        if message.get("method") == "initialize":
            self.opened += 1
            self.sessions.add(session := f"session-{self.opened}")
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {},
                "serverInfo": {"name": "odd", "version": "1"},
            }
            return self._said(message, {"result": result}, {SESSION: session})
        if request.headers.get(SESSION) not in self.sessions:
            status, text = self._stranger
            return web.Response(status=status, text=text, content_type="application/json")
        match message.get("method"):
            case "tools/list":
                return self._said(message, {"result": {"tools": [ACT]}})
            case "tools/call":
                way = message["params"]["arguments"]["way"]
                self.effects.append(way)
                return await self._act(request, message, json.loads(way))
            case None if self._told is not None:
                self._told.set_result(message["error"])
        return self._said(message, {"result": {}}) if "id" in message else web.Response(status=202)

    async def _act(self, request: web.Request, message: Any, way: dict[str, Any]) -> web.StreamResponse:
        match way:
            case {"status": int(status)}:
                return web.Response(status=status, text=way.get("body", ""), headers=way.get("headers"))
            case {"body": str(body), "type": str(kind)}:
                data = body.replace("ID", str(message["id"])).encode("latin-1")
                return web.Response(body=data, headers={"Content-Type": kind})
            case {"drops": _}:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case {"asks": str(method)}:
                self._told = asyncio.get_running_loop().create_future()
                stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await stream.prepare(request)
                asked = {"id": 99, "method": method, "params": {"message": "Sure?", "requestedSchema": OBJECT}}
                await stream.write(b"data: " + json.dumps({"jsonrpc": "2.0", **asked}).encode() + b"\n\n")
                refusal = {"jsonrpc": "2.0", "id": message["id"], "error": await self._told}
                await stream.write(b"data: " + json.dumps(refusal).encode() + b"\n\n")
                return stream
        return self._said(message, way)

    def _said(self, message: Any, way: dict[str, Any], headers: Any = None) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **way}, headers=headers)
