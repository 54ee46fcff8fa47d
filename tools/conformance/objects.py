"""Real objects behind the SDK's literal ids, made through the server's own API when a request first needs them."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

AGENT = "agent-1"  # of deployment.yaml, whose script these texts go with
EMBEDDER = "minilm"  # the model that makes embeddings
QUESTION = "What is the weather in Paris?"
OUTPUTS = ("It is sunny; also London?", "It rains there.")
_WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"location": {"type": "string"}}}}
_TOOLS = [{"type": "function", "function": _WEATHER}]
_CONTENT = b'{"foo": "bar"}'  # of files, as the SDK's tests want to read it
_SAID = [{"role": "user", "content": QUESTION}] * 3
_SECONDS = 20.0  # for a run, or a file that is indexed, to come to rest
_ACTIVE = ("queued", "in_progress")


class NotMadeError(Exception):
    """The server did not give an object that a request needs; says what was asked and what it answered."""


class Server:
    """The server's API."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(self, method: str, path: str, body: object = None, **query: str) -> Any:
        """The JSON that it answers with. Raises `NotMadeError` if that is an error."""
        return json.loads(await self.text(method, path, json=body, params=query))

    async def text(self, method: str, path: str, **sent: Any) -> str:
        """The text that it answers a request of aiohttp's with. Raises `NotMadeError` if that is an error."""
        async with self._session.request(method, path, **sent) as answer:
            if not answer.ok:
                raise NotMadeError(f"{method} {path} was answered with {answer.status}: {await answer.text()}")
            return await answer.text()


class Objects:
    """What one request needs. Each object is new, so that the request may delete it or end it.

    `waiting`: its run waits for the client's tools; else it has gone through all its steps.
    """

    def __init__(self, server: Server, *, waiting: bool = False, ids: Mapping[str, str] | None = None) -> None:
        self._server = server
        self._waiting = waiting
        self.ids = dict(ids or {})  # by literal; to begin with, those of objects that are there already

    async def id(self, literal: str) -> str:
        """The id to put in place of `literal`, such as `thread_id`."""
        if literal not in self.ids:
            self.ids[literal] = await MAKERS[literal](self)
        return self.ids[literal]

    async def ends(self, path: str, literal: str) -> tuple[str, str]:
        """The first and last ids of the collection at `path`, with something between them.

        `literal`: what it holds, if that is made one by one; a run's steps, for example, come together.
        """
        for _ in range(3 if literal else 0):
            await MAKERS[literal](self)
        page = await self._server.ask("GET", path, order="asc", limit="100")
        return page["data"][0]["id"], page["data"][-1]["id"]

    async def tool_calls(self) -> list[str]:
        """The ids of the calls that the run waits for."""
        run = await self._rested(f"{await self._thread()}/runs/{await self.id('run_id')}")
        return _calls(run)

    async def make_assistant(self) -> str:
        """An assistant that calls the client's tool."""
        return await self._made("/v1/assistants", model=AGENT, tools=_TOOLS)

    async def make_thread(self) -> str:
        """A thread with a question in it, and no run."""
        return await self._made("/v1/threads", messages=[{"role": "user", "content": QUESTION}])

    async def make_message(self) -> str:
        """A message in the thread."""
        return await self._made(f"{await self._thread()}/messages", role="user", content=QUESTION)

    async def make_run(self) -> str:
        """A run that waits for its first tool call's output, or that has got all of them and is completed."""
        runs = f"{await self._thread()}/runs"
        asked = [{"role": "user", "content": QUESTION}]  # also for a second run in the thread
        made = await self._made(runs, assistant_id=await self.id("assistant_id"), additional_messages=asked)
        run = await self._rested(f"{runs}/{made}")
        for output in () if self._waiting else OUTPUTS:
            given = [{"tool_call_id": call, "output": output} for call in _calls(run)]
            await self._server.ask("POST", f"{runs}/{made}/submit_tool_outputs", {"tool_outputs": given})
            run = await self._rested(f"{runs}/{made}")
        wanted = "requires_action" if self._waiting else "completed"
        if run["status"] != wanted:
            raise NotMadeError(f"{runs}/{made} should be {wanted}, but is {run}")
        return made

    async def first_step(self) -> str:
        """The first step of the run."""
        path = f"{await self._thread()}/runs/{await self.id('run_id')}/steps"
        return str((await self._server.ask("GET", path, order="asc"))["data"][0]["id"])

    async def first_call(self) -> str:
        """The first call that the run waits for."""
        return (await self.tool_calls())[0]

    async def make_completion(self) -> str:
        """A stored chat completion of three messages, of the only role that the SDK's type for stored ones knows."""
        said = [{"role": "assistant", "content": QUESTION}] * 3
        return await self._made("/v1/chat/completions", model=AGENT, messages=said, store=True)

    async def make_response(self) -> str:
        """A response in the background that was streamed to its end; or one that takes for ever, to be cancelled."""
        asked = {"model": AGENT, "background": True, "store": True}
        if self._waiting:
            return await self._made("/v1/responses", **asked, input="This takes for ever.")
        body = {**asked, "stream": True, "input": [{"role": "user", "content": "Hello"}] * 3}
        stream = await self._server.text("POST", "/v1/responses", json=body)
        found = re.search(r'"id": ?"(resp_\w+)"', stream)
        if found is None:
            raise NotMadeError(f"a stream of POST /v1/responses has no id: {stream}")
        return found[1]

    async def make_conversation(self) -> str:
        """A conversation without items."""
        return await self._made("/v1/conversations")

    async def make_item(self) -> str:
        """A message in the conversation."""
        path = f"/v1/conversations/{await self.id('conversation_id')}/items"
        return str((await self._server.ask("POST", path, {"items": _SAID[:1]}))["data"][0]["id"])

    async def make_file(self) -> str:
        """A file."""
        form = aiohttp.FormData({"purpose": "assistants"})
        form.add_field("file", _CONTENT, filename="foo.json", content_type="application/json")
        return str(json.loads(await self._server.text("POST", "/v1/files", data=form))["id"])

    async def make_vector_store(self) -> str:
        """A vector store without files."""
        return await self._made("/v1/vector_stores")

    async def make_attached(self) -> str:
        """A file in the vector store, indexed."""
        files = f"{await self._store()}/files"
        made = await self._made(files, file_id=await self.make_file())
        await self._rested(f"{files}/{made}")
        return made

    async def make_batch(self) -> str:
        """A batch of three files in the vector store, all of them indexed."""
        batches = f"{await self._store()}/file_batches"
        made = await self._made(batches, file_ids=[await self.make_file() for _ in range(3)])
        await self._rested(f"{batches}/{made}")
        return made

    async def _store(self) -> str:
        return f"/v1/vector_stores/{await self.id('vector_store_id')}"

    async def _thread(self) -> str:
        return f"/v1/threads/{await self.id('thread_id')}"

    async def _made(self, path: str, **body: object) -> str:
        return str((await self._server.ask("POST", path, body))["id"])

    async def _rested(self, path: str) -> Any:
        until = time.monotonic() + _SECONDS
        while (run := await self._server.ask("GET", path))["status"] in _ACTIVE:
            if time.monotonic() > until:
                raise NotMadeError(f"{path} is still {run['status']} after {_SECONDS:.0f} seconds")
            await asyncio.sleep(0.01)
        return run


MAKERS: Mapping[str, Callable[[Objects], Awaitable[str]]] = {
    "assistant_id": Objects.make_assistant,
    "thread_id": Objects.make_thread,
    "message_id": Objects.make_message,
    "run_id": Objects.make_run,
    "step_id": Objects.first_step,
    "tool_call_id": Objects.first_call,
    "completion_id": Objects.make_completion,
    "response_id": Objects.make_response,
    "conversation_id": Objects.make_conversation,
    "item_id": Objects.make_item,
    "file_id": Objects.make_file,
    "vector_store_id": Objects.make_vector_store,
    "attached_file_id": Objects.make_attached,
    "batch_id": Objects.make_batch,
}


# Other words of the SDK's tests for the same.
ALIASES: Mapping[str, str] = {
    "resp_677efb5139a88190b512bc3fef8e535d": "response_id",
    "resp_123": "response_id",
    "previous_response_id": "response_id",
    "conv_123": "conversation_id",
    "msg_abc": "item_id",
    "file-abc123": "file_id",
    "vs_abc123": "vector_store_id",
    "vsfb_abc123": "batch_id",
}


def _calls(run: Mapping[str, Any]) -> list[str]:
    asked = run["required_action"] or {"submit_tool_outputs": {"tool_calls": []}}
    return [call["id"] for call in asked["submit_tool_outputs"]["tool_calls"]]
