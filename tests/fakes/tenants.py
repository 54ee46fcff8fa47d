"""Two customers of one server, or two users of one customer, and one of each kind of thing for each of them, made as a
client makes them."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
from sqlalchemy import ColumnElement, Table, insert, select

from retinue import Agent, ConversationMemory, PromptModel
from retinue.core.user_records import Policy
from retinue.store.api_keys import hash_key
from retinue.store.run_queries import find_run
from retinue.store.tables import events, keys, metadata, runs, submissions
from retinue.store.user_records import keep_policy
from retinue.store.workspaces import change_files, pack

from .app_server import Answer, Serving
from .until import until

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
_REST = ("requires_action", "completed", "failed", "cancelled", "incomplete", "expired")
_SCRIPT = [{"when": "weather", "call": {"tool": "get_weather", "input": {}}}, {"when": "", "say": "Hello."}]


def agents() -> dict[str, Agent]:
    """What the server has for all of them: who asked for the weather is asked to look, anybody else is greeted."""
    model, memory = PromptModel(script=_SCRIPT, sees=True), ConversationMemory()
    return {"agent-1": Agent(model, name="agent-1", strategy="tool_calling", memory=memory)}


class Customer:
    """A tenant with a key of its own, or a `user` of it. All that it says has `word` in it; `ids` are those of its
    things, by kind."""

    def __init__(
        self,
        served: Serving,
        tenant: str,
        *,
        user: str | None = None,
        revoked: bool = False,
        scopes: Sequence[str] = ("all", "audit"),
    ) -> None:
        self.tenant = tenant
        self.user = user
        name = user or tenant
        self.word = f"word-of-{name}"
        self.key = f"sk-{name}-{secrets.token_hex(12)}"
        self.ids: dict[str, str] = {}
        self._served = served
        known = {
            "id": f"key_{secrets.token_hex(12)}",
            "user": user,
            "name": name,
            "prefix": self.key[:8],
            "scopes": list(scopes),
        }
        now = int(time.time())
        row = {"hash": hash_key(self.key), "tenant": tenant, "created_at": now, "revoked_at": now if revoked else None}
        with served.database.engine.begin() as connection:
            connection.execute(insert(keys).values(**row, **known))

    def ask(self, method: str, path: str, given: Any = None, **more: Any) -> Answer:
        """One request with its key."""
        return self._served.ask(method, path, given, key=self.key, **more)

    def make_all(self, paths: Mapping[str, Any]) -> None:
        """One thing of each kind that the server with these `paths` can make."""
        for kind, (path, make) in MAKERS.items():
            if path in paths and (self.user is None or kind not in OF_TENANTS):
                self.ids[kind] = make(self)

    def made(self, path: str, given: Any, **more: Any) -> Any:
        """What was made by a POST."""
        answer = self.ask("POST", path, given, **more)
        assert answer.status == 200, (path, answer.text)
        return answer.body

    def keep(self, policy: Policy) -> None:
        """Have it always allowed, as a person's decision does."""
        with self._served.database.engine.begin() as connection:
            keep_policy(connection, self.tenant, self.user or "somebody", policy)

    def write(self, run_id: str, path: str) -> None:
        """Have a file in the workspace of a run."""
        with self._served.database.engine.begin() as connection:
            run = find_run(connection, run_id)
            assert run is not None
            change_files(connection, run, pack({path: self.word.encode()}), run_id, lambda connection, size: None)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that the database holds of it, but for its keys."""
        with self._served.database.engine.connect() as connection:
            owned = {
                name: [tuple(row) for row in connection.execute(select(table).where(*self._own(table)))]
                for name, table in metadata.tables.items()
                if "tenant" in table.c and table is not keys and (self.user is None or "user" in table.c)
            }
            own = select(runs.c.id).where(*self._own(runs))
            for table in (events, submissions):
                rows = connection.execute(select(table).where(table.c.run_id.in_(own)))
                owned[table.name] = [tuple(row) for row in rows]
            return owned

    def _own(self, table: Table) -> list[ColumnElement[bool]]:
        return [table.c.tenant == self.tenant, *([table.c.user == self.user] if self.user else [])]


def _thread(who: Customer) -> str:
    said = {"role": "user", "content": f"What of the weather, {who.word}?"}
    return str(who.made("/v1/threads", {"messages": [said], "metadata": {"of": who.word}})["id"])


def _run(who: Customer) -> str:
    """One that waits for its client's function."""
    path = f"/v1/threads/{who.ids['thread']}/runs"
    run = who.made(path, {"assistant_id": who.ids["assistant"]})["id"]
    until(lambda: who.ask("GET", f"{path}/{run}").body["status"] in _REST)
    who.write(run, "notes.txt")
    return str(run)


def _call(who: Customer) -> str:
    run = who.ask("GET", f"/v1/threads/{who.ids['thread']}/runs/{who.ids['run']}").body
    return str(run["required_action"]["submit_tool_outputs"]["tool_calls"][0]["id"])


def _first(path: str) -> Callable[[Customer], str]:
    return lambda who: str(who.ask("GET", path.format(**who.ids)).body["data"][0]["id"])


def _posted(path: str, given: Callable[[Customer], Any]) -> Callable[[Customer], str]:
    return lambda who: str(who.made(path.format(**who.ids), given(who))["id"])


def _file(who: Customer) -> str:
    form = aiohttp.FormData({"purpose": "assistants"})
    form.add_field("file", f"All about {who.word}.".encode(), filename=f"{who.word}.txt", content_type="text/plain")
    return str(who.made("/v1/files", None, data=form)["id"])


def _endpoint(who: Customer) -> Any:
    return {"type": "http", "name": "look", "description": f"For {who.word}.", "url": "http://93.184.215.14/look"}


def _memory(who: Customer) -> str:
    said = [{"role": "user", "content": who.word}]
    who.made("/v1/chat/completions", {"model": "agent-1", "messages": said, "user": who.word})
    of = "" if who.user else f"?user={who.word}"  # what a client calls a user is another than who was authenticated
    return str(who.ask("GET", f"/v1/memories{of}").body["data"][0]["id"])


def _item(who: Customer) -> str:
    said = {"items": [{"type": "message", "role": "user", "content": who.word}]}
    return str(who.made(f"/v1/conversations/{who.ids['conversation']}/items", said)["data"][0]["id"])


def _in_store(who: Customer) -> str:
    path = f"/v1/vector_stores/{who.ids['vector_store']}/files"
    made = str(who.made(path, {"file_id": who.ids["file"]})["id"])
    until(lambda: who.ask("GET", f"{path}/{made}").body["status"] != "in_progress")
    return made


def _policy(who: Customer) -> str:
    made = Policy(f"policy_{secrets.token_hex(12)}", "agent-1", "pay", "", {"to": who.word}, "call", 1)
    who.keep(made)
    return made.id


MAKERS: dict[str, tuple[str, Callable[[Customer], str]]] = {
    "assistant": (
        "/v1/assistants",
        _posted("/v1/assistants", lambda who: {"model": "agent-1", "instructions": who.word, "tools": [WEATHER]}),
    ),
    "thread": ("/v1/threads", _thread),
    "message": ("/v1/threads/{thread_id}/messages", _first("/v1/threads/{thread}/messages")),
    "run": ("/v1/threads/{thread_id}/runs", _run),
    "step": ("/v1/threads/{thread_id}/runs/{run_id}/steps", _first("/v1/threads/{thread}/runs/{run}/steps")),
    "call": ("/v1/threads/{thread_id}/runs/{run_id}/submit_tool_outputs", _call),
    "completion": (
        "/v1/chat/completions",
        _posted(
            "/v1/chat/completions",
            lambda who: {"model": "agent-1", "store": True, "messages": [{"role": "user", "content": who.word}]},
        ),
    ),
    "memory": ("/v1/memories", _memory),
    "policy": ("/v1/policies", _policy),
    "tool": ("/v1/tools", _posted("/v1/tools", _endpoint)),
    "audit_entry": ("/v1/audit", _first("/v1/audit")),
    "conversation": ("/v1/conversations", _posted("/v1/conversations", lambda who: {"metadata": {"of": who.word}})),
    "item": ("/v1/conversations/{conversation_id}/items", _item),
    "response": ("/v1/responses", _posted("/v1/responses", lambda who: {"model": "agent-1", "input": who.word})),
    "file": ("/v1/files", _file),
    "vector_store": ("/v1/vector_stores", _posted("/v1/vector_stores", lambda who: {"name": who.word})),
    "vector_store_file": ("/v1/vector_stores/{vector_store_id}/files", _in_store),
    "batch": (
        "/v1/vector_stores/{vector_store_id}/file_batches",
        _posted("/v1/vector_stores/{vector_store}/file_batches", lambda who: {"file_ids": [who.ids["file"]]}),
    ),
}
"""How a thing of each kind is made, and the path without which there is none; each may use those before it."""


OF_TENANTS = ("tool", "audit_entry")
"""What belongs to no user."""


def unlike(id_: str) -> str:
    """An id of the same kind that nobody has."""
    new = secrets.token_hex(32)
    return re.sub(r"[0-9a-f]{24,}", lambda found: new[: len(found[0])], id_)
