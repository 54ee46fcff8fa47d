"""A reverse proxy in which the SDK's literal ids, model names and key become real ones; answers pass as they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp import web

from fakes.loopback import Served

from .objects import AGENT, ALIASES, EMBEDDER, MAKERS, QUESTION, NotMadeError, Objects, Server

# What a collection holds that is made one by one, by the end of its path.
_LISTED = {
    "assistants": "assistant_id",
    "messages": "message_id",
    "runs": "run_id",
    "completions": "completion_id",
    "items": "item_id",
    "files": "file_id",
    "vector_stores": "vector_store_id",
}
_LISTS = {"file_ids": "file_id", "vector_store_ids": "vector_store_id"}  # where the tests send ["string"]
_STORES = "/v1/vector_stores/"
_ABSENT = ("/v1/batches", "/v1/containers", "/v1/uploads")  # refused, whatever ids are in it
_HOPS = {"host", "authorization", "content-encoding", "content-length", "transfer-encoding", "connection"}
Query = dict[str, str]


async def _page_of_one(query: Query, body: Any, objects: Objects) -> None:
    if query.get("limit") == "0":
        query["limit"] = "1"


async def _all_outputs(query: Query, body: Any, objects: Objects) -> None:
    for call, output in zip(await objects.tool_calls(), body["tool_outputs"], strict=True):
        output.setdefault("tool_call_id", call)


async def _something_said(query: Query, body: Any, objects: Objects) -> None:
    body.setdefault("input", QUESTION)
    if "previous_response_id" in body:
        body.pop("conversation", None)
    elif "conversation" in body:
        body["conversation"] = await objects.id("conversation_id")


async def _a_token_or_more(query: Query, body: Any, objects: Objects) -> None:
    for name in ("max_completion_tokens", "max_tokens"):
        if body.get(name) == 0:
            body[name] = 1


async def _in_numbers(query: Query, body: Any, objects: Objects) -> None:
    body["encoding_format"] = "float"


async def _files_in_one_way(query: Query, body: Any, objects: Objects) -> None:
    if "files" in body:
        body.pop("file_ids", None)
    else:
        body["file_ids"] = [await objects.id("file_id")]


async def _something_to_find(query: Query, body: Any, objects: Objects) -> None:
    await objects.id("attached_file_id")


# What the tests send and no server can take, beyond literal ids: the method, the path's end, and what is done about it.
# docs/conformance.md says why.
REWRITES: Sequence[tuple[str, str, Callable[[Query, Any, Objects], Awaitable[None]]]] = (
    ("GET", "", _page_of_one),
    ("POST", "/submit_tool_outputs", _all_outputs),
    ("POST", "/chat/completions", _a_token_or_more),
    ("POST", "/responses", _something_said),
    ("POST", "/responses/input_tokens", _something_said),
    ("POST", "/responses/compact", _something_said),
    ("POST", "/embeddings", _in_numbers),
    ("POST", "/file_batches", _files_in_one_way),
    ("POST", "/search", _something_to_find),
)


class Proxy(Served):
    """The proxy before the server at `server_url`, whose key is `key`, as long as `with` lasts.

    A request whose objects cannot be made is answered with 424, which the SDK does not repeat.
    """

    def __init__(self, server_url: str, key: str) -> None:
        self._server_url = server_url
        self._key = key
        app = web.Application()
        app.cleanup_ctx.append(self._connected)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        super().__init__(app)

    async def _connected(self, app: web.Application) -> AsyncIterator[None]:
        headers = {"Authorization": f"Bearer {self._key}"}
        async with aiohttp.ClientSession(self._server_url, headers=headers) as session:
            self._session = session
            yield

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        waiting = request.path.endswith(("/cancel", "/submit_tool_outputs"))
        objects = Objects(Server(self._session), waiting=waiting)
        try:
            path, query, body = await _made_real(request, objects)
        except NotMadeError as error:
            refusal = {"message": f"the proxy: {error}", "type": "proxy_error", "param": None, "code": None}
            return web.json_response({"error": refusal}, status=424)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOPS]
        async with self._session.request(
            request.method, path, params=query, data=body, headers=headers, allow_redirects=False
        ) as answer:
            return await _passed_back(request, answer)


async def _passed_back(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.extend((name, value) for name, value in answer.headers.items() if name.lower() not in _HOPS)
    try:
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        pass  # the client has read enough
    return response


async def _made_real(request: web.Request, objects: Objects) -> tuple[str, Query, bytes]:
    """The request's path, query and body, with what is literal in them made real."""
    sent = await request.read()
    if request.path.startswith(_ABSENT):
        return request.path, dict(request.query), sent
    path = await _real_path(request.path, objects)
    query = await _real_query(request, path, objects)
    if sent and not request.content_type.endswith("json"):
        return path, query, sent
    body = await _real(json.loads(sent), objects) if sent else None
    if isinstance(body, dict) and "model" in body:
        body["model"] = EMBEDDER if path == "/v1/embeddings" else AGENT
    for method, end, rewrite in REWRITES:
        if request.method == method and path.endswith(end):
            await rewrite(query, body, objects)
    return path, query, json.dumps(body).encode() if sent else b""


async def _real_path(path: str, objects: Objects) -> str:
    if path.startswith("/v1/models/"):
        return f"/v1/models/{AGENT}"
    real = ""
    for part in path.split("/")[1:]:
        literal = _literal(part)
        if literal == "file_id" and real.startswith(_STORES):
            literal = "attached_file_id"
        real += f"/{await objects.id(literal) if literal else part}"
    return real


async def _real(value: Any, objects: Objects) -> Any:
    """`value`, with every text that is a literal id made real, and with real ids in lists of ids."""
    if isinstance(value, Mapping):
        listed = {key: [await objects.id(_LISTS[key])] for key, one in value.items() if key in _LISTS and one}
        return {key: await _real(one, objects) for key, one in value.items()} | listed
    if isinstance(value, list):
        return [await _real(one, objects) for one in value]
    literal = _literal(value) if isinstance(value, str) else ""
    return await objects.id(literal) if literal else value


def _literal(text: str) -> str:
    """The name of the object that `text` stands for, if it is one's."""
    name = ALIASES.get(text, text)
    return name if name in MAKERS else ""


def _listed(path: str) -> str:
    """What the collection at `path` holds, if that is made one by one."""
    end = path.rpartition("/")[2]
    if path.startswith("/v1/chat/completions/") or "/file_batches/" in path:
        return ""
    return "attached_file_id" if end == "files" and path.startswith(_STORES) else _LISTED.get(end, "")


async def _real_query(request: web.Request, path: str, objects: Objects) -> Query:
    """The query; if the path is a collection's, there is something in it, also between `after` and `before`."""
    literal = _listed(path) if request.method == "GET" else ""
    if literal:
        await objects.id(literal)
    real = {name: str(await _real(value, objects)) for name, value in request.query.items()} | {"model": AGENT}
    if "after" in request.query:
        real["after"], real["before"] = await objects.ends(path, literal)
    return {name: real[name] for name in request.query}
