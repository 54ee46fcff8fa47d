"""A recorded database: what a former version's server left when it was killed, and what it answered before.

`python -m recorded.databases SRC FOLDER`, with `tests` on the path, has the Retinue in the folder SRC serve the
`agents.yml` in FOLDER, drives it through its API until it is killed, and leaves in FOLDER:

- `runs.db.gz`, the SQLite file; `tables.sql`, which makes that version's tables on PostgreSQL;
- `said.json`: the `keys` of the tenants; `reads`, requests that change nothing, and what was answered; `repeats`,
  requests with an idempotency key; `going_on`, by tenant, where what had not ended is found;
- `ledger.txt`, in which each effect of a tool is a line.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from fakes.served import Served, serving
from fakes.until import until

YEARS = 315_360_000  # seconds: ten, so that whoever opens it finds what waits still waiting
ENDED = ("completed", "failed", "cancelled", "expired", "incomplete")
TENANTS = ("acme", "umbrella")
_WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"location": {"type": "string"}}}}
_AT_CLIENT = {"type": "function", "function": _WEATHER}
_TABLES = """
from retinue.store.schema import schema_statements

print(*schema_statements("postgresql"), sep=";\\n\\n", end=";\\n\\n")
"""
Json = dict[str, Any]


class Api:
    """The API at `url`, as the owner of `key` uses it."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key

    def answer(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON (or text) of an answer; `body` is JSON, or bytes of the type that `headers` say."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        fields = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self._url + path, data, fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, _read(response.read())
        except HTTPError as error:
            return error.code, _read(error.read())

    def get(self, path: str) -> Any:
        """What is there."""
        return self.made("GET", path)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """What a POST came to."""
        return self.made("POST", path, body, **headers)

    def made(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """An answer of which the status is 200."""
        status, answer = self.answer(method, path, body, **headers)
        assert status == 200, (method, path, answer)
        return answer

    def rests(self, path: str, *states: str) -> Any:
        """What is there once its status is one of `states`; without any, once it has ended or waits."""
        wanted = states or (*ENDED, "requires_action")

        def found() -> Any:
            one = self.get(path)
            return one if one["status"] in wanted else None

        return until(found)


def _read(content: bytes) -> Any:
    text = content.decode()
    try:
        return json.loads(text)
    except ValueError:
        return text


class Customer:
    """A tenant: what it makes through its `api`, and where that is found."""

    def __init__(self, name: str, api: Api) -> None:
        self.name = name
        self.api = api
        self.paths: list[str] = []  # of what has come to rest
        self.going_on: dict[str, str] = {}
        self._worker = api.post("/assistants", {"model": "worker", "instructions": f"You work for {name}."})["id"]

    def run(self, question: str, **more: Any) -> str:
        """Where a new run is, on a thread of its own."""
        thread = self.api.post(
            "/threads", {"messages": [{"role": "user", "content": question}], "metadata": {"of": self.name}}
        )["id"]
        run = self.api.post(f"/threads/{thread}/runs", {"assistant_id": self._worker, **more})["id"]
        return f"/threads/{thread}/runs/{run}"

    def response(self, question: str, **more: Any) -> str:
        """Where a new response is."""
        given = {"model": "worker", "input": question, **more}
        return f"/responses/{self.api.post('/responses', given)['id']}"

    def make_what_rests(self) -> None:
        """Whatever ends, or waits."""
        runs = {
            "completed": self.run("Note the harbour.", metadata={"why": "to try"}),
            "failed": self.run("Something that no script knows."),
            "incomplete": self.run("Note the harbour. " * 120, max_prompt_tokens=256),
            "cancelled": self.run("How is the weather?", tools=[_AT_CLIENT]),
            "of a client": self.run("How is the weather?", tools=[_AT_CLIENT]),
            "of a person": self.run(f"Please book for {self.name}.", model="waiter"),
            "of react": self.run("Note the harbour.", model="reactor"),
        }
        for path in runs.values():
            self.api.rests(path)
        self.api.post(f"{runs['cancelled']}/cancel", {})
        self.api.rests(runs["cancelled"], "cancelled")
        self.going_on |= {f"waits: {name}": runs[name] for name in ("of a client", "of a person")}
        for path in runs.values():
            self.paths += self._of_run(path)
        self._chats()
        self._responses()
        self._files()
        self.paths.append("/assistants")

    def _of_run(self, path: str) -> Iterator[str]:
        thread = path.partition("/runs/")[0]
        yield from (path, f"{path}/steps", thread, f"{thread}/runs", f"{thread}/messages?order=asc")
        yield from (f"{path}/steps/{step['id']}" for step in self.api.get(f"{path}/steps")["data"])
        yield from (f"{thread}/messages/{one['id']}" for one in self.api.get(f"{thread}/messages")["data"])

    def _chats(self) -> None:
        for question in ("Hello!", "Note the harbour.", "How is the weather?"):
            given = {"model": "worker", "store": True, "messages": [{"role": "user", "content": question}]}
            tools = {"tools": [_AT_CLIENT]} if "weather" in question else {}
            path = f"/chat/completions/{self.api.post('/chat/completions', {**given, **tools})['id']}"
            self.paths += (path, f"{path}/messages")

    def _responses(self) -> None:
        conversation = f"/conversations/{self.api.post('/conversations', {'metadata': {'of': self.name}})['id']}"
        within = {"conversation": conversation.rpartition("/")[2]}
        first = self.response("Hello!", **within)
        made = [first, self.response("Note the harbour.", **within), self.response("Hello!")]
        made.append(self.response("Note the harbour.", previous_response_id=made[-1].rpartition("/")[2]))
        made.append(self.response("Tell a long story.", max_output_tokens=16, instructions="Be brief."))
        client = self.response("How is the weather?", tools=[{"type": "function", **_WEATHER}])
        person = self.response(f"Please book for {self.name}.", model="waiter")
        made.append(self.response("Something that no script knows.", background=True))
        self.api.rests(made[-1])
        for path in (*made, client, person):
            self.paths += (path, f"{path}/input_items")
        items = self.api.get(f"{conversation}/items")["data"]
        self.paths += (conversation, f"{conversation}/items", *(f"{conversation}/items/{one['id']}" for one in items))
        self.going_on |= {"response": made[3], "response: of a client": client, "response: of a person": person}
        self.going_on["conversation"] = conversation

    def _files(self) -> None:
        bound = "a-line-that-is-in-no-file"
        part = f'--{bound}\r\nContent-Disposition: form-data; name="{{}}"{{}}\r\n\r\n{{}}\r\n'
        form = part.format("purpose", "", "assistants")
        form += part.format("file", '; filename="harbour.txt"', f"All about harbours, for {self.name}.")
        body = f"{form}--{bound}--\r\n".encode()
        file = self.api.post("/files", body, Content_Type=f"multipart/form-data; boundary={bound}")["id"]
        store = f"/vector_stores/{self.api.post('/vector_stores', {'name': self.name})['id']}"
        given = {"file_id": file, "attributes": {"of": self.name}}
        self.api.post(f"{store}/files", given)
        self.api.rests(f"{store}/files/{file}")
        batch = f"{store}/file_batches/{self.api.post(f'{store}/file_batches', {'file_ids': [file]})['id']}"
        self.api.rests(batch)
        self.paths += ("/files", f"/files/{file}", f"/files/{file}/content", "/vector_stores", store, f"{store}/files")
        self.paths += (f"{store}/files/{file}", f"{store}/files/{file}/content", batch, f"{batch}/files")
        self.going_on["vector store"] = store

    def begin_what_goes_on(self, limited: Customer) -> None:
        """Whatever is half done, at a tool that does not end yet; and runs that wait for their turn. `limited`: the
        same tenant, by a key that may have one run under way at a time."""
        self.going_on["half done: read"] = self.run("Look at the harbour.")
        self.going_on["half done: once"] = self.run(f"Pay for {self.name}.")
        self.going_on["half done: react"] = self.run("Look at the harbour.", model="reactor")
        conversation = self.api.post("/conversations", {})["id"]
        background = {"background": True, "conversation": conversation}
        self.going_on["half done: response"] = self.response("Look at the harbour.", **background)
        self.going_on["half done: limited"] = limited.run("Look at the harbour.")
        self.going_on["queued"] = limited.run("Note the harbour.")
        self.going_on["queued: waits for a client"] = limited.run("How is the weather?", tools=[_AT_CLIENT])
        self.going_on["queued: response"] = limited.response("Hello!", background=True)

    def repeats(self) -> Iterator[Json]:
        """Requests that were made with an idempotency key, and what they came to."""
        given = {"role": "user", "content": "Hello!"}
        for path, body in (
            ("/threads", {"messages": [given]}),
            ("/responses", {"model": "worker", "input": "Note the harbour."}),
            ("/chat/completions", {"model": "worker", "messages": [given], "store": True}),  # others are kept for a day
            ("/threads/runs", {"assistant_id": self._worker, "thread": {"messages": [given]}}),
        ):
            key = f"once-{path}"
            answer = self.api.post(path, body, Idempotency_Key=key)
            yield {"who": self.name, "path": path, "body": body, "key": key, "is": answer}

    def chat_that_breaks_off(self) -> None:
        """A completion whose client never hears the end."""
        given = {"model": "worker", "store": True, "messages": [{"role": "user", "content": "Look at the harbour."}]}
        with suppress(OSError):
            self.api.post("/chat/completions", given)


_GATED = 6  # of a tenant's runs: those that are half done, each of which has asked its model once


def record(src: Path, folder: Path) -> None:
    """Make the files that the module's docstring names."""
    env = {"PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1"}
    text = (folder / "agents.yml").read_text("utf-8")
    long = str(YEARS)
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        shutil.copy(folder / "tools.py", there)
        (there / "open").touch()
        with serving(there, text, env=env, args=["--human-ttl", "1", "--run-ttl", long]) as server:
            keys = {who: make_key(server.db, env, who) for one in TENANTS for who in (one, f"{one}/limited")}
            keys["default"] = server.key
            reads = [("default", path) for path in _expired(server)]
        with serving(there, text, env=env, args=["--human-ttl", long, "--run-ttl", long]) as server:
            customers = [Customer(who, Api(server.url, keys[who])) for who in TENANTS]
            for one in customers:
                one.make_what_rests()
                reads += [(one.name, path) for path in one.paths]
            repeats = [said for one in customers for said in one.repeats()]
            server.stop()
            (there / "open").unlink()
            server.restart(RETINUE_CRASHPOINT=f"before asking:{_GATED * len(customers) + 2}")
            answers = _leave(server, customers, keys, reads)
        shutil.copy(there / "ledger.txt", folder)
        (folder / "runs.db.gz").write_bytes(copy_of(server.db))
    going_on = {one.name: one.going_on for one in customers}
    said = {"keys": keys, "reads": answers, "repeats": repeats, "going_on": going_on}
    (folder / "said.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    (folder / "tables.sql").write_text(tables_of(env))


def copy_of(db: Path) -> bytes:
    """A SQLite file, as small as it gets."""
    small = db.with_name("small.db")
    with sqlite3.connect(db) as database:
        database.execute("VACUUM INTO ?", [str(small)])
    return gzip.compress(small.read_bytes(), mtime=0)


def tables_of(env: Mapping[str, str]) -> str:
    """What makes a version's tables on PostgreSQL."""
    tables = _said([sys.executable, "-c", _TABLES], env)
    return "\n".join(line.rstrip() for line in tables.splitlines()) + "\n"


def make_key(db: Path, env: Mapping[str, str], name: str, *scopes: str) -> str:
    """A new key of a tenant; of one that is `/limited`, for one run at a time. Without `scopes`, it is for all."""
    tenant, _, limited = name.partition("/")
    limit = ["--limit", "runs=1"] if limited else []
    limit += [word for scope in scopes for word in ("--scope", scope)]
    words = ["keys", "make", "--tenant", tenant, "--name", name, *limit, "--db", str(db)]
    return _said([sys.executable, "-m", "retinue", *words], env).strip()


def _said(words: list[str], env: Mapping[str, str]) -> str:
    return subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, check=True).stdout


def _expired(server: Served) -> list[str]:
    """The paths of a run that waited for longer than it may."""
    customer = Customer("default", Api(server.url, server.key))
    path = customer.run("How is the weather?", tools=[_AT_CLIENT])
    customer.api.rests(path, "expired")
    return [path, f"{path}/steps"]


def _leave(server: Served, customers: list[Customer], keys: Mapping[str, str], reads: list[tuple[str, str]]) -> Any:
    """Begin what goes on, and have the server killed; what it answered to `reads` before."""
    ledger = server.db.with_name("ledger.txt")
    ledger.touch()
    for one in customers:
        one.api = Api(server.url, keys[one.name])
        one.begin_what_goes_on(Customer(one.name, Api(server.url, keys[f"{one.name}/limited"])))
        threading.Thread(target=one.chat_that_breaks_off, daemon=True).start()
    until(lambda: len(ledger.read_text("utf-8").splitlines()) == _GATED * len(customers))
    found = [{"who": who, "path": path, "is": Api(server.url, keys[who]).get(path)} for who, path in reads]
    last = customers[0]
    with suppress(OSError):
        last.going_on["half done: between steps"] = last.run("Note the harbour.")
    server.process.wait(30)
    return found


if __name__ == "__main__":
    record(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
