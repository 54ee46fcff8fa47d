"""What one tenant sends holds nobody up, whatever it is."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Answer, Serving, answering, upload
from fakes.tenants import Customer
from fakes.until import until
from retinue import Agent, PromptModel, Tool
from retinue.server.context import Options
from retinue.store.tenant_view import Quota


def asking(content: str = "Hi", **more: Any) -> dict[str, Any]:
    return {"model": "agent-1", "messages": [{"role": "user", "content": content}], **more}


@pytest.mark.parametrize("places", [20, pytest.param(200, marks=pytest.mark.full)])
def test_long_runs_of_one_tenant_leave_a_place_for_another(tmp_path: Path, places: int) -> None:
    async def wait() -> str:
        """Wait for ever."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    rules = [{"when": "wait", "call": {"tool": "wait", "input": {}}}, {"when": "", "say": "Hello."}]
    agent = Agent(PromptModel(script=rules), [Tool("wait", wait, effects="read", timeout=600)], name="agent-1")
    with Serving(tmp_path, {"agent-1": agent}, at_once=places) as served:
        one, other = Customer(served, "one"), Customer(served, "other")
        for _ in range(places):
            one.made("/v1/responses", {"model": "agent-1", "input": "Please wait.", "background": True})
        began = time.monotonic()
        assert other.ask("POST", "/v1/chat/completions", asking()).status == 200
        assert time.monotonic() - began < 1 or places < 200  # how busy the machine is matters only to the figure


def format_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


BACKTRACKING = "^(a+)+$"
BRANCHING = {
    **{f"d{at}": {"properties": {f"p{of}": {"$ref": f"#/$defs/d{at + 1}"} for of in range(40)}} for at in range(9)},
    "d9": {},
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": BACKTRACKING},
        {"type": "object", "patternProperties": {BACKTRACKING: {"type": "integer"}}, "additionalProperties": False},
        {"type": "object", "$ref": "#/$defs/d0", "$defs": BRANCHING, "required": ["p0"]},
    ],
)
def test_a_schema_that_would_take_for_ever_ends_its_own_run_only(tmp_path: Path, schema: dict[str, Any]) -> None:
    long = "a" * 60 + "!"
    answer = json.dumps(long if schema["type"] == "string" else {long: 1})
    with Serving(tmp_path, {"agent-1": answering("agent-1", *[answer] * 5)}) as served:
        said = served.ask("POST", "/v1/chat/completions", asking(response_format=format_of(schema)))
        (choice,) = said.body["choices"]
        assert (choice["message"]["content"], bool(choice["message"]["refusal"])) == (None, True)
        assert served.ask("POST", "/v1/chat/completions", asking()).status == 200


def test_a_pattern_that_cannot_be_matched_in_linear_time_is_told(served: Serving) -> None:
    given = asking(response_format=format_of({"type": "string", "pattern": "(?=a)b"}))
    said = served.ask("POST", "/v1/chat/completions", given)
    assert said.status == 400
    assert "the pattern '(?=a)b' cannot be matched in linear time" in said.error["message"]


def in_store(served: Serving, customer: Customer, *files: tuple[str, bytes]) -> str:
    ids = [upload(served, name, content, key=customer.key).body["id"] for name, content in files]
    store: str = customer.made("/v1/vector_stores", {"file_ids": ids})["id"]
    return store


def counts(customer: Customer, store: str) -> dict[str, int]:
    found: dict[str, int] = customer.ask("GET", f"/v1/vector_stores/{store}").body["file_counts"]
    return found


BOMB = b"<html><body>" + b"<div>" * 100_000


def test_a_file_that_takes_for_ever_keeps_only_its_own_tenant_waiting(served: Serving) -> None:
    one, other = Customer(served, "bombs"), Customer(served, "beside-bombs")
    bombed = in_store(served, one, *((f"{number}.html", BOMB) for number in range(6)))
    beside = in_store(served, other, ("short.txt", b"Hello there"), ("short.html", b"<p>Hello there"))
    until(lambda: counts(other, beside)["completed"] == 2)
    assert counts(one, bombed)["in_progress"] == 6
    one.ask("DELETE", f"/v1/vector_stores/{bombed}")


def test_a_text_that_is_hard_to_take_apart_is_read_all_the_same(served: Serving) -> None:
    one = Customer(served, "headings")
    heading = b"# a" + b" " * 150_000 + b"x\n"  # spaces that may, or may not, be the end of the heading
    store = in_store(served, one, ("a.md", heading), ("b.md", heading * 10), ("c.txt", b"\n \n" * 60_000 + b"x"))
    until(lambda: counts(one, store)["completed"] == 3)


MANY = {
    "objects": b"[" + b"{}," * 60_000 + b"{}]",
    "messages": b'{"model":"agent-1","messages":[' + b'{"role":"user","content":"a"},' * 60_000 + b"{}]}",
    "names": b"{" + b",".join(b'"%d":1' % number for number in range(60_000)) + b"}",
    "texts": b"[" + b'"",' * 300_000 + b'""]',
}


@pytest.mark.parametrize("body", MANY.values(), ids=MANY)
def test_a_body_of_too_many_values_is_refused_before_they_are_made(body: bytes, served: Serving) -> None:
    said = served.ask(
        "POST", "/v1/chat/completions", data=io.BytesIO(body), headers={"Content-Type": "application/json"}
    )
    words = "We could not parse the JSON body of your request: it has more than 30,000 values."
    assert (said.status, said.error["message"]) == (400, words)


def test_what_is_in_texts_does_not_count(served: Serving) -> None:
    text = 'if (a[i] == "{\\") { b, c };' * 5_000
    said = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": text}]})
    assert said.status == 200
    assert len(json.dumps(text)) > 100_000


def test_a_large_body_is_refused_for_the_first_thing_that_is_wrong(served: Serving) -> None:
    given = {"model": "agent-1", "messages": [{"role": "user", "content": "a" * 60_000}, {"role": 5}, {"role": 6}]}
    said = served.ask("POST", "/v1/chat/completions", given)
    assert (said.status, said.error["param"]) == (400, "messages[1].role")


ONE = {"role": "user", "content": "a"}
TOO_MANY: dict[str, tuple[str, dict[str, Any]]] = {
    "messages": ("/v1/chat/completions", {"model": "agent-1", "messages": [ONE] * 2_049}),
    "messages[0].content": ("/v1/chat/completions", asking() | {"messages": [{**ONE, "content": [{}] * 2_049}]}),
    "input": ("/v1/responses", {"model": "agent-1", "input": [ONE] * 2_049}),
}


@pytest.mark.parametrize("place", TOO_MANY)
def test_a_conversation_has_so_many_messages_and_parts_at_most(place: str, served: Serving) -> None:
    path, given = TOO_MANY[place]
    said = served.ask("POST", path, given)
    assert (said.status, said.error["param"], said.error["code"]) == (400, place, "array_above_max_length")


@pytest.mark.parametrize("family", ["chat", "responses"])
def test_a_file_that_is_named_again_and_again_counts_each_time(family: str, tmp_path: Path) -> None:
    with Serving(tmp_path, {"agent-1": answering("agent-1", *["Hello."] * 3)}) as served:
        counts_each_time(family, served)


def counts_each_time(family: str, served: Serving) -> None:
    file = upload(served, "a.txt", b"a" * 250_000).body["id"]
    chat = family == "chat"
    part = {"type": "file", "file": {"file_id": file}} if chat else {"type": "input_file", "file_id": file}
    path = "/v1/chat/completions" if chat else "/v1/responses"

    def said(times: int) -> Answer:
        said = [*[{"role": "user", "content": [part]}] * times, {"role": "user", "content": "Hi"}]
        return served.ask("POST", path, {"model": "agent-1", "messages" if chat else "input": said})

    assert said(4).status == 200
    refused = said(5)
    words = "the files of a request have at most 1,000,000 characters together"
    assert (refused.status, words in refused.error["message"]) == (400, True)


def test_a_request_names_so_many_files_at_most_also_empty_ones(served: Serving) -> None:
    file = upload(served, "a.txt", b"").body["id"]
    parts = [{"type": "input_file", "file_id": file}] * 101
    said = served.ask("POST", "/v1/responses", {"model": "agent-1", "input": [{"role": "user", "content": parts}]})
    assert (said.status, said.error["param"]) == (400, "input[0].content[100]")
    assert "at most 100 files" in said.error["message"]


def test_a_name_that_is_there_twice_among_many_is_found(served: Serving) -> None:
    body = b"{" + b",".join(b'"%d":1' % number for number in (*range(20_000), 19_999)) + b"}"
    said = served.ask("POST", "/v1/threads", data=io.BytesIO(body), headers={"Content-Type": "application/json"})
    assert (said.status, "duplicate key '19999' in an object" in said.error["message"]) == (400, True)


@pytest.mark.parametrize("path", ["/v1/assistants", "/v1/vector_stores", "/v1/threads"])
def test_only_uploads_may_be_large(path: str, served: Serving) -> None:
    body = io.BytesIO(b'{"name":"' + b"x" * 8_000_000 + b'"}')
    said = served.ask("POST", path, data=body, headers={"Content-Type": "application/json"})
    words = "The body of your request is too large: the limit is 8 MB."
    assert (said.status, said.error["message"]) == (413, words)


# ── what a tenant may keep ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, options=Options(quota=Quota(bytes=1_000, files=3, stores=2))) as served:
        yield served


def refused(said: Answer, what: str) -> bool:
    words = f"Storage limit reached: you may keep {what}. Delete some, or ask the server's operator for more."
    return (said.status, said.error["code"], said.error["message"]) == (400, "storage_limit_reached", words)


def test_a_tenant_may_keep_so_many_bytes_and_files(small: Serving) -> None:
    one, other = Customer(small, "keeps"), Customer(small, "keeps-too")
    first = upload(small, "a.txt", b"x" * 600, key=one.key, headers={"Idempotency-Key": "first"})
    assert refused(upload(small, "b.txt", b"x" * 401, key=one.key), "1,000 bytes of files")
    assert upload(small, "b.txt", b"x" * 400, key=one.key).status == 200
    assert upload(small, "a.txt", b"x" * 600, key=one.key, headers={"Idempotency-Key": "first"}).text == first.text
    assert upload(small, "c.txt", b"", key=one.key).status == 200
    assert refused(upload(small, "d.txt", b"", key=one.key), "3 files")
    assert upload(small, "a.txt", b"x" * 600, key=other.key).status == 200
    one.ask("DELETE", f"/v1/files/{first.body['id']}")
    assert upload(small, "d.txt", b"x" * 600, key=one.key).status == 200


def test_uploads_that_come_together_are_counted_one_by_one(small: Serving) -> None:
    one = Customer(small, "together")

    def put(number: int) -> int:
        return upload(small, f"{number}.txt", b"x", key=one.key).status

    with ThreadPoolExecutor(12) as pool:
        assert sorted(pool.map(put, range(12))) == [200] * 3 + [400] * 9


def test_a_tenant_may_keep_so_many_texts(small: Serving) -> None:
    one = Customer(small, "writes")
    assert one.ask("POST", "/v1/assistants", {"model": "agent-1", "instructions": "x" * 500}).status == 200
    kept = one.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "x" * 500}]})
    assert refused(kept, "1,000 bytes of texts")
    assert len(one.ask("GET", "/v1/assistants").body["data"]) == 1


def test_a_tenant_may_keep_so_many_vector_stores_and_files_in_them(small: Serving) -> None:
    one = Customer(small, "stores")
    files = [upload(small, f"{name}.txt", b"Hello", key=one.key).body["id"] for name in "abc"]
    first = one.made("/v1/vector_stores", {"file_ids": files[:2]})["id"]
    second = one.made("/v1/vector_stores", {"file_ids": files[:1]})["id"]
    thread: dict[str, Any] = {"tool_resources": {"file_search": {"vector_stores": [{}]}}}
    assert refused(one.ask("POST", "/v1/vector_stores", {}), "2 vector stores")
    assert refused(one.ask("POST", "/v1/threads", thread), "2 vector stores")
    more = one.ask("POST", f"/v1/vector_stores/{second}/files", {"file_id": files[2]})
    assert refused(more, "3 files in vector stores")
    one.ask("DELETE", f"/v1/vector_stores/{first}")
    assert one.ask("POST", f"/v1/vector_stores/{second}/files", {"file_id": files[2]}).status == 200
    assert one.ask("POST", "/v1/vector_stores", {}).status == 200
