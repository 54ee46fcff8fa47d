"""What is somebody else's is not there: every operation of the OpenAPI document, with every id that it takes, for two
tenants, and for two users of one.

An operation that is new is looked at by itself. One with an id of a kind that this file does not know fails, and says
what to add.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
import pytest

from fakes.app_server import Answer, Serving
from fakes.openapi import Operation, Place, document, example, operations, places
from fakes.tenants import MAKERS, OF_TENANTS, Customer, agents, unlike
from retinue.limits.rate import KeyThrottle
from sampling import every

DOCUMENT = document()
OPERATIONS = [  # the operator's own are no tenant's
    one for one in operations(DOCUMENT) if not one.path.startswith("/v1/studio/evals")
]

# What each parameter's name stands for: a kind of tests/fakes/tenants.py, or None for what is no tenant's.
KINDS: Mapping[str, str | None] = {
    "assistant_id": "assistant",
    "thread_id": "thread",
    "x-retinue-thread": "thread",
    "message_id": "message",
    "run_id": "run",
    "forked_from": "run",
    "step_id": "step",
    "tool_call_id": "call",
    "completion_id": "completion",
    "response_id": "response",
    "previous_response_id": "response",
    "conversation": "conversation",
    "conversation_id": "conversation",
    "item_id": "item",
    "file_id": "file",
    "file_ids": "file",
    "vector_store_id": "vector_store",
    "vector_store_ids": "vector_store",
    "batch_id": "batch",
    "memory_id": "memory",
    "tool_id": "tool",
    "policy_id": "policy",
    "container_id": None,  # OpenAI's; there are none here
    "connector_id": None,
    "tunnel_id": None,
    "id": None,  # of an item that is sent: whoever sends it may choose it
    "call_id": "call",  # of the Responses API
    "approval_request_id": "call",
}
# The same by operation and place, where the name alone does not say it.
PLACES: Mapping[tuple[str, str], str | None] = {
    ("POST /v1/chat/completions", "messages.[].tool_calls.[].id"): "call",
    ("POST /v1/responses", "conversation.id"): "conversation",
    ("POST /v1/responses/input_tokens", "conversation.id"): "conversation",
}
LISTS: Mapping[str, str | None] = {  # what `after` and `before` stand for, by the end of a list's path
    "/assistants": "assistant",
    "/audit": "audit_entry",
    "/threads": "thread",
    "/messages": "message",
    "/runs": "run",
    "/runs/{run_id}/events": None,  # a number
    "/steps": "step",
    "/chat/completions": "completion",
    "/responses": "response",
    "/input_items": "item",
    "/conversations": "conversation",
    "/memories": "memory",
    "/policies": "policy",
    "/tools": "tool",
    "/items": "item",
    "/files": "file",
    "/vector_stores": "vector_store",
}
OPEN = (("GET", "/health"), ("GET", "/ready"))  # for who has no key
_AN_ID = re.compile(r"(.+_)?ids?|after|before|conversation|x-retinue-thread")
_UNTOLD = ("x-request-id", "openai-processing-ms", "date")


class Slot(NamedTuple):
    """Where an id stands in a request: `kind` is what it is an id of."""

    where: str  # path, query, header, body
    name: str
    kind: str
    place: Place = ()


def kind_of(operation: Operation, name: str, place: Place = ()) -> str | None:
    """What a parameter is an id of; `None` if it is none, or nobody's."""
    if not _AN_ID.fullmatch(name):
        return None
    at = ".".join(place)
    if (str(operation), at) in PLACES:
        return PLACES[str(operation), at]
    if name in ("after", "before"):
        ends = [kind for end, kind in LISTS.items() if operation.path.endswith(end)]
        assert ends, f"{operation} lists something new: say in LISTS of {__file__} what its '{name}' is an id of"
        return ends[0]
    assert name in KINDS, (
        f"{operation} takes '{at or name}', which may be an id: say in KINDS (or PLACES) of {__file__} of what kind, "
        "and in MAKERS of tests/fakes/tenants.py how one is made; or None if it is no tenant's"
    )
    return KINDS[name]


def slots(operation: Operation) -> list[Slot]:
    """All places of a request at which ids of things stand that this server makes."""
    found = [
        Slot(where, name, kind)
        for where, names in operation.parameters.items()
        for name in names
        if (kind := kind_of(operation, name))
    ]
    body = places(DOCUMENT, operation.body) if operation.body else ()
    inner = [Slot("body", place[-1], kind, place) for place in body if (kind := kind_of(operation, place[-1], place))]
    return [slot for slot in dict.fromkeys(found + inner) if MAKERS[slot.kind][0] in DOCUMENT["paths"]]


def send(who: Customer, operation: Operation, filled: Mapping[Slot, str], **more: Any) -> Answer:
    """The request of an operation, with ids in some of its slots."""
    by_name = {slot.name: id_ for slot, id_ in filled.items() if slot.where == "path"}
    path = re.sub(r"\{(\w+)[^}]*\}", lambda found: quote(by_name.get(found[1], "agent-1")), operation.path)
    query = {slot.name: id_ for slot, id_ in filled.items() if slot.where == "query"}
    query |= {"path": "notes.txt"} if operation.path.endswith("/workspace/content") else {}
    more["headers"] = {slot.name: id_ for slot, id_ in filled.items() if slot.where == "header"} | more.get(
        "headers", {}
    )
    if operation.content_type.startswith("multipart"):
        form = aiohttp.FormData({"purpose": "assistants"})
        form.add_field("file", b"text", filename="a.txt", content_type="text/plain")
        return who.ask(operation.method, path, params=query, data=form, **more)
    inner = next(((slot.place, id_) for slot, id_ in filled.items() if slot.where == "body"), ((), None))
    given = example(DOCUMENT, operation.body, *inner) if operation.body else None
    return who.ask(operation.method, path, given, params=query, **more)


def variants(operation: Operation) -> Iterator[tuple[list[Slot], list[Slot]]]:
    """Which slots hold somebody else's id, and which the asker's own."""
    all_of_them = slots(operation)
    path = [slot for slot in all_of_them if slot.where == "path"]
    needed = [
        slot for slot in all_of_them if slot.where == "body" and len(slot.place) == 1 and _required(operation, slot)
    ]
    if path:
        yield path, needed[:1]
        for one in path if len(path) > 1 else ():
            yield [one], [other for other in path if other != one] + needed[:1]
    for one in all_of_them:
        if one.where != "path":
            yield [one], path


def _required(operation: Operation, slot: Slot) -> bool:
    return slot.name in (example(DOCUMENT, operation.body or {}) or {})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("tenants"), agents(), wrong_keys=KeyThrottle(100_000)) as server:
        yield server


@pytest.fixture(scope="module", params=["tenants", "users"])
def two(served: Serving, request: pytest.FixtureRequest) -> tuple[Customer, Customer]:
    """Who has one of each, and who has the same and would like to see the former's."""
    if request.param == "users":
        owner, other = (customer(served, "shared", name, scopes=["all"]) for name in ("ann", "ben"))
    else:
        owner, other = customer(served, "owner"), customer(served, "other")
    return owner, other


def customer(served: Serving, tenant: str, user: str | None = None, **more: Any) -> Customer:
    one = Customer(served, tenant, user=user, **more)
    one.make_all(DOCUMENT["paths"])
    return one


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_what_is_somebody_elses_is_as_if_it_were_not_there(
    two: tuple[Customer, Customer], operation: Operation
) -> None:
    owner, other = two
    before = owner.rows()
    for foreign, own in variants(operation):
        if owner.user and any(slot.kind in OF_TENANTS for slot in foreign + own):
            continue
        mine = {slot: other.ids[slot.kind] for slot in own}
        theirs = {slot: owner.ids[slot.kind] for slot in foreign}
        nobodys = {slot: unlike(id_) for slot, id_ in theirs.items()}
        said = send(other, operation, mine | theirs)
        expected = send(other, operation, mine | nobodys)
        where = (str(operation), [slot.name for slot in foreign], said.text)
        assert masked(said, theirs) == masked(expected, nobodys), where
        assert owner.word not in said.text, where
        assert said.status < 500, where
        if any(slot.where == "path" for slot in foreign):
            assert said.status == 404, where
    assert owner.rows() == before, f"{operation} changed what is not the asker's"


def masked(answer: Answer, asked: Mapping[Slot, str]) -> tuple[int, dict[str, str], str]:
    """An answer without the ids that were asked for; of one that made something, without what is new in it."""
    text = answer.text
    for slot, id_ in asked.items():
        text = text.replace(id_, f"<{slot.kind}>")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    told = {name: headers[name] for name in headers if name not in _UNTOLD and not name.startswith("x-ratelimit-")}
    if answer.status < 300:
        text = re.sub(r"[a-z]+[_-][0-9a-f]{24,}\w*", "<id>", text)
        text = re.sub(r"\b\d{10}(\.\d+)?\b", "<time>", text)
        text = re.sub(r'_tokens":\d+', '_tokens":0', text)  # with what is remembered of a user, a prompt is longer
        text = re.sub(r"rc1\.[\w=-]+", "<sealed>", text)  # which holds what was asked
        told.pop("content-length", None)
    return answer.status, told, text


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method == "GET"], ids=str)
def test_the_same_is_there_for_its_owner(two: tuple[Customer, Customer], operation: Operation) -> None:
    """Else the test above would test nothing."""
    owner, _ = two
    if owner.user and operation.path.startswith(("/v1/tools/", "/v1/audit")):
        return
    path = {slot: owner.ids[slot.kind] for slot in slots(operation) if slot.where == "path"}
    answer = send(owner, operation, path)
    if operation.path.endswith("/results/{call_id}"):  # the call waits for its result: see test_context_kept
        assert answer.status == 404, answer.text
        return
    assert answer.status == 200, answer.text
    if path:
        assert (
            any(id_ in answer.text for id_ in owner.ids.values())
            or '"data":[]' in answer.text
            or owner.word in answer.text
        )


@pytest.fixture(scope="module")
def refusals(served: Serving) -> Mapping[str | None, str]:
    """What is said to nobody, to who guesses and to whose key was revoked, by their keys."""
    revoked = Customer(served, "revoked", revoked=True).key
    return {key: served.ask("GET", "/v1/models", key=key).text for key in (None, f"sk-{'0' * 40}", revoked)}


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_nobody_is_answered_without_a_good_key(
    served: Serving, refusals: Mapping[str | None, str], operation: Operation, full: bool
) -> None:
    """Whatever is asked, the same is said, and nothing of what was sent is read."""
    if (operation.method, operation.path) in OPEN:
        assert served.ask(operation.method, operation.path, key=None).status == 200
        return
    path = re.sub(r"\{(\w+)[^}]*\}", "x", operation.path)
    keys = list(refusals) if full else every(list(refusals), len(refusals), OPERATIONS.index(operation))
    for key in keys:  # a wrong one takes a fifth of a second
        asked = served.ask(operation.method, path, key=key, data=b"{" if operation.body else None)
        assert (asked.status, asked.text) == (401, refusals[key])


@pytest.fixture(scope="module")
def sender(served: Serving) -> Customer:
    """Who sends everything twice."""
    return customer(served, "sender")


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method == "POST"], ids=str)
def test_what_is_sent_twice_with_one_key_is_done_once(sender: Customer, operation: Operation) -> None:
    path = {slot: sender.ids[slot.kind] for slot in slots(operation) if slot.where == "path"}
    if [slot.kind for slot in path] == ["thread"]:
        path = dict.fromkeys(path, MAKERS["thread"][1](sender))  # one on which nothing runs
    body = [slot for slot in slots(operation) if slot.where == "body"]
    needed = [slot for slot in body if _required(operation, slot) or operation.path.endswith("/submit_tool_outputs")]
    filled = path | {slot: sender.ids[slot.kind] for slot in needed[:1]}
    headers = {"Idempotency-Key": str(operation)}
    first, again = (send(sender, operation, filled, headers=headers) for _ in range(2))
    assert first.status < 500, first.text
    if first.status == 200 and not operation.path.endswith(("/search", "/replay")):  # which make nothing
        assert again.headers.get("idempotent-replayed"), f"{operation} does not write through Context.write"
        assert (again.status, again.text) == (200, first.text)
