"""What is indexed survives, whatever becomes of the server, its index and its tenants."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from fakes.app_server import Answer, Serving, upload
from fakes.served import Served, serving
from fakes.until import until
from retinue.server.indexing.queue import expire
from retinue.store.api_keys import create_key
from retinue.store.tables import files, vector_stores

FILE = """
retinue: 1
components:
  - {name: fake, type: PromptModel, params: {engine: scripted, script: [{say: Hello.}]}}
agents:
  - {name: agent, params: {model: fake, strategy: tool_calling, tools: []}}
"""
TEXTS = [f"Number {number} is about the word{number}." for number in range(12)]


@pytest.fixture
def server(any_url: str, tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, FILE, args=["--db", any_url], env={"RETINUE_CACHE": str(tmp_path / "cache")}) as served:
        yield served


def index_of(server: Served) -> Path:
    """The folder of its indexes, wherever that is."""
    return next(path.parent for path in server.db.parent.glob("**/vs_*.sqlite"))


def filled(server: Served) -> str:
    with server.client() as client:
        ids = [
            client.files.create(file=(f"{number}.txt", text.encode()), purpose="assistants").id
            for number, text in enumerate(TEXTS)
        ]
        return client.vector_stores.create(file_ids=ids).id


def whole(server: Served, store: str) -> bool:
    with server.client() as client:
        counts = client.vector_stores.retrieve(store).file_counts
        assert (counts.failed, counts.total) == (0, len(TEXTS))
        if counts.completed < len(TEXTS):
            return False
        for number in range(len(TEXTS)):
            found = client.vector_stores.search(store, query=f"word{number}").data
            if not found:  # it was just seen that it is lost
                return False
            assert [one.filename for one in found] == [f"{number}.txt"]
        return True


@pytest.mark.full
def test_a_kill_in_the_middle_loses_no_file_and_doubles_none(server: Served) -> None:
    store = filled(server)
    server.kill()
    server.restart()
    until(lambda: whole(server, store))


@pytest.mark.full
def test_an_index_that_is_lost_or_damaged_is_made_again(server: Served) -> None:
    store = filled(server)
    until(lambda: whole(server, store))
    server.stop()
    shutil.rmtree(folder := index_of(server))
    server.restart()
    until(lambda: whole(server, store))
    server.stop()
    (folder / f"{store}.sqlite").write_bytes(b"no database" * 1_000)
    (folder / "vs_of_nobody.sqlite").touch()
    server.restart()
    until(lambda: whole(server, store))
    assert [path.name for path in folder.glob("*.sqlite")] == [f"{store}.sqlite"]


def test_what_is_removed_is_in_no_index(server: Served) -> None:
    store = filled(server)
    until(lambda: whole(server, store))
    folder = index_of(server)
    with server.client() as client:
        client.vector_stores.delete(store)
        until(lambda: not list(folder.iterdir()))


def put(server: Serving, content: bytes, **more: Any) -> tuple[str, str]:
    """A store with one file, indexed; its id, and the file's."""
    file = upload(server, "a.txt", content, **more).body["id"]
    store = server.ask("POST", "/v1/vector_stores", {"file_ids": [file]}, **more).body["id"]
    path = f"/v1/vector_stores/{store}"
    until(lambda: server.ask("GET", path, **more).body["status"] == "completed")
    return store, file


def found(server: Serving, store: str, query: str, **more: Any) -> Answer:
    return server.ask("POST", f"/v1/vector_stores/{store}/search", {"query": query}, **more)


def test_a_tenant_has_nothing_of_another(on_both: Serving) -> None:
    key = on_both.in_loop(on_both.database.write(partial(create_key, tenant="other")))
    store, file = put(on_both, b"The word is swordfish.")
    own, _ = put(on_both, b"Nothing about words.", key=key)
    assert found(on_both, own, "swordfish", key=key).body["data"] == []
    batch = on_both.ask("POST", f"/v1/vector_stores/{store}/file_batches", {"file_ids": [file]}).body["id"]
    mine = (f"/v1/files/{file}", f"/v1/vector_stores/{store}", f"/v1/vector_stores/{store}/files/{file}",
            f"/v1/vector_stores/{store}/file_batches/{batch}")  # fmt: skip
    ways: list[tuple[str, str, Any]] = [
        *(("GET", path, None) for path in (*mine, f"{mine[0]}/content", f"{mine[1]}/files", f"{mine[2]}/content")),
        *(("DELETE", path, None) for path in mine[:3]),
        ("POST", mine[1], {"name": "x"}),
        ("POST", mine[2], {"attributes": {}}),
        ("POST", f"{mine[1]}/search", {"query": "swordfish"}),
        ("POST", f"{mine[1]}/files", {"file_id": file}),
        ("POST", f"{mine[1]}/file_batches", {"file_ids": [file]}),
        ("POST", f"{mine[3]}/cancel", {}),
        ("POST", f"/v1/vector_stores/{own}/files", {"file_id": file}),
        ("POST", "/v1/vector_stores", {"file_ids": [file]}),
    ]

    def made_up(text: str) -> str:
        """The same with ids that nobody has."""
        for one in (store, file, batch):
            text = text.replace(one, one[:-24] + "0" * 24)
        return text

    for method, path, body in ways:
        said = on_both.ask(method, path, body, key=key)
        other = on_both.ask(method, made_up(path), json.loads(made_up(json.dumps(body))), key=key)
        assert (said.status, made_up(said.text)) == (404, other.text), (method, path)
    until(lambda: found(on_both, store, "swordfish").body["data"])  # the batch has it indexed anew


def test_what_has_expired_is_gone(served: Serving) -> None:
    store, file = put(served, b"The word is swordfish.")
    kept, other = put(served, b"The word is swordfish.")
    with served.database.engine.begin() as connection:
        connection.execute(update(files).where(files.c.id == other).values(expires_at=1))
        connection.execute(update(vector_stores).where(vector_stores.c.id == store).values(expires_at=1))
    assert served.ask("GET", f"/v1/vector_stores/{store}").body["status"] == "expired"
    for path, body in (("search", {"query": "x"}), ("files", {"file_id": file})):
        said = served.ask("POST", f"/v1/vector_stores/{store}/{path}", body)
        assert (said.status, said.error["code"]) == (400, "vector_store_expired")
    assert set(served.in_loop(served.database.write(expire))) == {store, kept}
    assert served.ask("GET", f"/v1/files/{other}").status == 404
    assert served.ask("GET", f"/v1/files/{file}").status == 200
    assert found(served, kept, "swordfish").body["data"] == []
