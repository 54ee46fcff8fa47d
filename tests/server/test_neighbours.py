"""What one tenant sends holds nobody up, whatever it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fakes.app_server import Serving, answering, upload
from fakes.tenants import Customer
from fakes.until import until
from retinue.server.files.turns import Turns


def asking(content: str = "Hi", **more: Any) -> dict[str, Any]:
    return {"model": "agent-1", "messages": [{"role": "user", "content": content}], **more}


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
        assert said.status != 200
        assert said.error["message"]
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


def test_each_tenant_has_its_turn_and_the_last_place_is_for_one_who_has_none() -> None:
    turns = Turns()
    begun: list[str] = []
    for _ in range(4):
        waiting = {"a": len(begun), "b": len(begun) + 1} if len(begun) < 2 else {"a": len(begun)}
        for number in turns.next(waiting, 4 - len(begun)):
            tenant = next(one for one, at in waiting.items() if at == number)
            turns.begin(tenant)
            begun.append(tenant)
    assert begun == ["a", "b", "a"]
    assert turns.next({"a": 7, "c": 9}, 1) == [9]
    turns.end("b")
    assert turns.next({"a": 7}, 2) == [7]
    assert turns.next({"a": 7, "b": 8, "c": 9}, 3) == [8, 9, 7]


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_who_was_served_longest_ago_is_next(order: list[str]) -> None:
    turns, last = Turns(), dict.fromkeys("abcd", 0)
    for number, _ in enumerate(order, 1):
        (chosen,) = turns.next({one: at for at, one in enumerate("abcd")}, 1)
        tenant = "abcd"[chosen]
        assert last[tenant] == min(last.values())
        turns.begin(tenant)
        turns.end(tenant)
        last[tenant] = number
