"""Vector stores through the SDK."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, each, of, refused

pytestmark = MARKS
PARIS = "Paris is the capital of France. The Seine flows through it."
LONDON = "London is the capital of England. The Thames flows through it."
PAGE = b"<!doctype html><title>Rome</title><main><p>Rome is the capital of Italy, on the Tiber.</p></main>"
NO_PDF = b"%PDF-1.4 and then nothing of the kind"


async def uploaded(client: Any, name: str, content: bytes | str) -> str:
    data = content if isinstance(content, bytes) else content.encode()
    made = await of(client.files.create(file=(name, data), purpose="assistants"))
    id_: str = made.id
    return id_


async def store_with(client: Any, **texts: Any) -> Any:
    """A store with these files, indexed: `paris=…` is paris.md."""
    store = await of(client.vector_stores.create(name="cities"))
    files = [(f"{name}.md", text.encode()) for name, text in texts.items()]
    batch = await of(client.vector_stores.file_batches.upload_and_poll(store.id, files=files))
    assert (batch.status, batch.file_counts.completed) == ("completed", len(files))
    return await of(client.vector_stores.retrieve(store.id))


async def test_a_store_is_made_changed_listed_and_deleted(client: Any) -> None:
    made = await of(client.vector_stores.create(name="One", metadata={"a": "1"}))
    assert (made.id[:3], made.object, made.name, made.status) == ("vs_", "vector_store", "One", "completed")
    assert (made.file_counts.total, made.usage_bytes, made.expires_at) == (0, 0, None)
    assert await of(client.vector_stores.retrieve(made.id)) == made
    changed = await of(
        client.vector_stores.update(made.id, name="Two", expires_after={"anchor": "last_active_at", "days": 2})
    )
    assert (changed.name, changed.metadata) == ("Two", {"a": "1"})
    assert changed.expires_at == changed.last_active_at + 2 * 86_400
    assert made.id in [one.id async for one in each(client.vector_stores.list(limit=5))]
    gone = await of(client.vector_stores.delete(made.id))
    assert (gone.id, gone.object, gone.deleted) == (made.id, "vector_store.deleted", True)
    for call in (client.vector_stores.retrieve, client.vector_stores.delete, client.vector_stores.files.list):
        with refused(openai.NotFoundError, f"No vector store found with id '{made.id}'."):
            await of(call(made.id))


async def test_what_files_say_is_found(client: Any) -> None:
    store = await store_with(client, paris=PARIS, london=LONDON)
    assert (store.status, store.file_counts.completed) == ("completed", 2)
    assert store.usage_bytes == len(PARIS) + len(LONDON)
    page = await of(client.vector_stores.search(store.id, query="Which river flows through the capital of France?"))
    assert [one.filename for one in page.data] == ["paris.md", "london.md"]
    first, second = page.data
    assert [one.text for one in first.content] == [PARIS]
    assert 1 >= first.score > second.score > 0
    many = await of(client.vector_stores.search(store.id, query=["Thames", "Seine"], max_num_results=1))
    assert len(many.data) == 1
    least = {"score_threshold": (first.score + second.score) / 2}
    some = await of(
        client.vector_stores.search(
            store.id, query="Which river flows through the capital of France?", ranking_options=least
        )
    )
    assert [one.filename for one in some.data] == ["paris.md"]
    none = await of(client.vector_stores.search(store.id, query="*\"'(){}[]; DROP TABLE words --"))
    assert none.data == []


async def test_a_page_is_read_and_what_cannot_be_is_told(client: Any) -> None:
    store = await of(client.vector_stores.create())
    contents = {"rome.html": PAGE, "a.pdf": NO_PDF, "empty.txt": b" \n", "image.png": b"\x89PNG\r\n\x00\x00\x00"}
    ids = {name: await uploaded(client, name, data) for name, data in contents.items()}
    files: list[Any] = [{"file_id": one} for one in ids.values()]
    batch = await of(client.vector_stores.file_batches.create(store.id, files=files))
    batch = await of(client.vector_stores.file_batches.poll(batch.id, vector_store_id=store.id))
    assert (batch.status, batch.file_counts.completed, batch.file_counts.failed) == ("completed", 1, 3)
    failed = client.vector_stores.file_batches.list_files(
        batch.id, vector_store_id=store.id, filter="failed", order="asc"
    )
    told = {one.id: one.last_error async for one in each(failed)}
    assert [told[ids[name]].code for name in ("a.pdf", "empty.txt", "image.png")] == [
        "invalid_file",
        "invalid_file",
        "unsupported_file",
    ]
    text = await of(client.vector_stores.files.content(ids["rome.html"], vector_store_id=store.id))
    assert "capital of Italy" in "".join(one.text for one in text.data)
    assert "<p>" not in text.data[0].text


async def test_files_are_put_in_listed_and_taken_out(client: Any) -> None:
    store = await store_with(client, paris=PARIS, london=LONDON)
    listed = [one async for one in each(client.vector_stores.files.list(store.id, limit=1))]
    assert [one.status for one in listed] == ["completed", "completed"]
    paris, london = sorted(listed, key=lambda one: one.usage_bytes)
    assert (paris.usage_bytes, london.usage_bytes) == (len(PARIS), len(LONDON))
    assert paris.chunking_strategy.static.max_chunk_size_tokens == 800
    gone = await of(client.vector_stores.files.delete(paris.id, vector_store_id=store.id))
    assert (gone.id, gone.object, gone.deleted) == (paris.id, "vector_store.file.deleted", True)
    page = await of(client.vector_stores.search(store.id, query="capital of France"))
    assert [one.file_id for one in page.data] == [london.id]
    with refused(openai.NotFoundError, f"No file found with id '{paris.id}' in vector store '{store.id}'."):
        await of(client.vector_stores.files.retrieve(paris.id, vector_store_id=store.id))
    assert await of(client.files.retrieve(paris.id))  # the file itself stays
    await of(client.files.delete(london.id))
    page = await of(client.vector_stores.search(store.id, query="capital of France"))
    assert page.data == []
    assert (await of(client.vector_stores.retrieve(store.id))).file_counts.total == 0


async def test_a_file_put_in_again_is_cut_anew(client: Any) -> None:
    store = await of(client.vector_stores.create())
    words = " ".join(f"word{number}" for number in range(400))
    file = await uploaded(client, "words.txt", words)
    chunking: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50}}
    first = await of(client.vector_stores.files.create_and_poll(file, vector_store_id=store.id))
    second = await of(
        client.vector_stores.files.create_and_poll(file, vector_store_id=store.id, chunking_strategy=chunking)
    )
    assert first.usage_bytes == len(words)
    assert second.usage_bytes > 1.5 * len(words)  # for half of each piece is in the next, too
    page = await of(client.vector_stores.search(store.id, query="word200", max_num_results=50))
    assert {len(one.content[0].text) <= 400 for one in page.data} == {True}
    text = await of(client.vector_stores.files.content(file, vector_store_id=store.id))
    assert "".join(one.text for one in text.data) == words
    assert (await of(client.vector_stores.retrieve(store.id))).file_counts.total == 1


async def test_attributes_say_which_files_are_meant(client: Any) -> None:
    store = await of(client.vector_stores.create())
    known = {"paris": {"year": 2020, "land": "France", "draft": True}, "london": {"year": 2024, "land": "England"}}
    for name, attributes in known.items():
        file = await uploaded(client, f"{name}.md", {"paris": PARIS, "london": LONDON}[name])
        await of(client.vector_stores.files.create_and_poll(file, vector_store_id=store.id, attributes=attributes))

    async def found(filters: Any) -> set[str]:
        page = await of(client.vector_stores.search(store.id, query="the capital", filters=filters))
        return {one.filename.removesuffix(".md") for one in page.data}

    assert await found({"type": "eq", "key": "land", "value": "France"}) == {"paris"}
    assert await found({"type": "gte", "key": "year", "value": 2020.5}) == {"london"}
    assert await found({"type": "ne", "key": "draft", "value": True}) == {"london"}
    assert await found({"type": "in", "key": "land", "value": ["France", "Italy"]}) == {"paris"}
    both = [{"type": "eq", "key": "draft", "value": True}, {"type": "lt", "key": "year", "value": 2000}]
    assert await found({"type": "and", "filters": both}) == set()
    assert await found({"type": "or", "filters": [*both, {"type": "nin", "key": "land", "value": ["France"]}]}) == {
        "paris",
        "london",
    }
    changed = await of(client.vector_stores.files.update(file, vector_store_id=store.id, attributes={"land": "France"}))
    assert changed.attributes == {"land": "France"}
    assert await found({"type": "eq", "key": "land", "value": "France"}) == {"paris", "london"}
    with refused(openai.BadRequestError, code="invalid_value", param="filters"):
        await found({"type": "in", "key": "land", "value": "France"})
    with refused(openai.BadRequestError, code="invalid_value", param="filters"):
        await found({"type": "in", "key": "land", "value": ["x"] * 1_000})


async def test_a_batch_is_cancelled(client: Any) -> None:
    store = await of(client.vector_stores.create())
    ids = [await uploaded(client, f"{number}.html", PAGE) for number in range(10)]
    batch = await of(client.vector_stores.file_batches.create(store.id, file_ids=ids))
    assert (batch.status, batch.file_counts.in_progress, batch.file_counts.total) == ("in_progress", 10, 10)
    batch = await of(client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id))
    assert batch.status == "cancelled"
    assert batch.file_counts.cancelled + batch.file_counts.completed == 10
    assert batch.file_counts.cancelled >= 5
    assert await of(client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)) == batch
    with refused(openai.NotFoundError, "No file batch found with id 'vsfb_1'."):
        await of(client.vector_stores.file_batches.retrieve("vsfb_1", vector_store_id=store.id))


@pytest.mark.parametrize(
    ("given", "kind", "code", "param"),
    [
        ({"file_ids": ["file-1"]}, openai.NotFoundError, None, "file_ids"),
        ({"name": "x" * 257}, openai.BadRequestError, "string_above_max_length", "name"),
        ({"expires_after": {"anchor": "created_at", "days": 1}}, openai.BadRequestError, "invalid_value",
         "expires_after.anchor"),
    ],
)  # fmt: skip
async def test_what_no_store_can_be(client: Any, given: Any, kind: Any, code: str | None, param: str) -> None:
    with refused(kind, code=code, param=param):
        await of(client.vector_stores.create(**given))


async def test_what_no_file_of_a_store_can_be(client: Any) -> None:
    store = await of(client.vector_stores.create())
    file = await uploaded(client, "a.txt", "a")
    chunking: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51}}
    param = "chunking_strategy.static.chunk_overlap_tokens"
    with refused(openai.BadRequestError, code="invalid_value", param=param):
        await of(client.vector_stores.files.create(store.id, file_id=file, chunking_strategy=chunking))
    with refused(openai.NotFoundError, "No such File object: file-1", param="file_ids"):
        await of(client.vector_stores.files.create(store.id, file_id="file-1"))
