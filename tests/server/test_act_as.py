"""For whom a request is: the key says so, or whoever may say it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Answer, Serving, answering
from fakes.tenants import Customer
from retinue.store.sealed_secrets import VARIABLE, make_secrets_key

NAMED = {"X-Retinue-User": "alice"}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setenv(VARIABLE, make_secrets_key())
    with Serving(tmp_path, {"agent-1": answering("agent-1", "Paris.", "Rome.")}) as server:
        yield server


@pytest.mark.parametrize(
    ("user", "scopes", "named", "status"),
    [
        (None, ["all", "act-as"], NAMED, 200),
        (None, ["read", "act-as"], NAMED, 200),
        (None, ["all"], NAMED, 403),
        (None, ["all"], {}, 200),
        ("alice", ["all"], NAMED, 200),
        ("bob", ["all"], NAMED, 403),
        ("bob", ["all", "act-as"], NAMED, 403),
        (None, ["all", "act-as"], {"X-Retinue-User": " "}, 400),
        (None, ["all", "act-as"], {"X-Retinue-User": "a" * 257}, 400),
    ],
)
def test_who_may_say_for_whom(
    served: Serving, user: str | None, scopes: list[str], named: dict[str, str], status: int
) -> None:
    asked = Customer(served, "acme", user=user, scopes=scopes).ask("GET", "/v1/key", headers=named)
    assert asked.status == status, asked.text
    if status == 200:
        assert asked.body["user"] == (user or named.get("X-Retinue-User"))
    else:
        assert asked.error["code"] == ("missing_scope" if status == 403 else "invalid_value")


def test_a_backend_sees_one_user_at_a_time(served: Serving) -> None:
    backend = Customer(served, "acme", scopes=["all", "act-as"])
    thread = backend.ask("POST", "/v1/threads", {}, headers=NAMED).body["id"]
    for headers, status in ((NAMED, 200), ({"X-Retinue-User": "bob"}, 404), ({}, 200)):
        assert backend.ask("GET", f"/v1/threads/{thread}", headers=headers).status == status


def test_two_users_may_choose_the_same_names(served: Serving) -> None:
    """Of threads, and of requests that may be repeated."""
    for name in ("alice", "bob"):
        user = Customer(served, "acme", user=name)
        said = {"model": "agent-1", "messages": [{"role": "user", "content": f"I am {name}."}], "store": True}
        headers = {"Idempotency-Key": "one", "X-Retinue-Thread": "mine"}
        answer = user.ask("POST", "/v1/chat/completions", said, headers=headers)
        assert (answer.status, "idempotent-replayed" in answer.headers) == (200, False), answer.text
        assert user.ask("GET", "/v1/threads").body["data"]
    (thread,) = user.ask("GET", "/v1/threads").body["data"]
    assert "alice" not in user.ask("GET", f"/v1/threads/{thread['id']}/messages").text


@pytest.mark.parametrize(
    ("user", "scopes", "status"),
    [
        ("alice", ["runs"], 200),
        ("alice", ["read"], 403),
        (None, ["runs"], 403),
        (None, ["secrets"], 200),
        (None, ["all"], 200),
    ],
)
def test_who_may_set_secrets(served: Serving, user: str | None, scopes: list[str], status: int) -> None:
    one = Customer(served, "acme", user=user, scopes=scopes)
    assert one.ask("PUT", "/v1/secrets/TOKEN", {"value": "tok-0123456789"}).status == status


@pytest.mark.parametrize(
    ("name", "body", "param"),
    [
        ("TOKEN", {"value": "zq-7x!"}, "value"),
        ("TOKEN", {"value": "zq-7x! " * 2}, "value"),
        ("TOKEN", {"value": ["zq-7x!zq-7x!"]}, "value"),
        ("TOKEN", {"value": "zq-7x!zq-7x!", "more": 1}, "more"),
        ("TO-KEN", {"value": "zq-7x!zq-7x!"}, "value"),
    ],
)
def test_what_cannot_be_set_is_not_repeated(served: Serving, name: str, body: Any, param: str) -> None:
    answer = Customer(served, "acme").ask("PUT", f"/v1/secrets/{name}", body)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert "zq-7x!" not in answer.text


def test_without_a_key_the_operator_is_named(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    answer: Answer = Customer(served, "acme").ask("PUT", "/v1/secrets/TOKEN", {"value": "tok-0123456789"})
    assert (answer.status, answer.error["code"]) == (503, "secrets_unavailable")
    assert VARIABLE in answer.error["message"]


def test_the_key_of_a_user_registers_no_tools(served: Serving) -> None:
    given = {"type": "http", "name": "look", "description": "Looks.", "url": "http://93.184.215.14/look"}
    assert Customer(served, "acme", user="alice").ask("POST", "/v1/tools", given).error["code"] == "user_key"
