"""A2A on the wire: errors in its own codes, keys, scopes, tenants and limits as for every other route."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fakes.app_server import KEY, Answer, Serving, answering
from fakes.tenants import Customer
from retinue import Agent, PromptModel
from retinue.limits.rate import Bounds, KeyLimits
from retinue.store.api_keys import create_key

VERSION = {"A2A-Version": "1.0"}
HELLO: Mapping[str, Any] = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}}
AGENTS = {
    "agent-1": Agent(PromptModel(script=[{"when": "hang", "error": "hang"}, {"when": "", "finish": "Hi."}]), name="a"),
    "agent-2": answering("agent-2"),
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("a2a"), AGENTS) as server:
        yield server


def rpc(served: Serving, method: Any, params: Any = None, *, agent: str = "agent-1", **more: Any) -> Answer:
    asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    return served.ask("POST", f"/a2a/{agent}", asked, **({"headers": VERSION} | more))


def rest(served: Serving, method: str, path: str, body: Any = None, **more: Any) -> Answer:
    return served.ask(method, f"/a2a/agent-1{path}", body, **({"headers": VERSION} | more))


def code_of(answer: Answer) -> int:
    assert set(answer.body) == {"jsonrpc", "id", "error"}
    assert set(answer.body["error"]) == {"code", "message", "data"}
    code: int = answer.body["error"]["code"]
    return code


@pytest.mark.parametrize(
    ("body", "code", "id_"),
    [
        ("{", -32700, None),
        ("[]", -32600, None),
        ('[{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}]', -32600, None),
        ('{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600, 1),
        ('{"jsonrpc": "2.0", "id": true, "method": 5}', -32600, None),
        ('{"jsonrpc": "2.0", "id": "x", "method": "message/send"}', -32601, "x"),
        ('{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}', -32602, 1),
        ('{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": [1]}', -32602, 1),
        ('{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": []}}}', -32602, 1),
        ('{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "run_no"}}', -32001, 1),
        ('{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"statusTimestampAfter": "2026"}}', -32004, 1),
    ],
)
def test_what_is_wrong_with_a_json_rpc_request(two: Serving, body: str, code: int, id_: Any) -> None:
    said = two.ask("POST", "/a2a/agent-1", data=body, headers={**VERSION, "Content-Type": "application/json"})
    assert (said.status, code_of(said), said.body["id"]) == (200, code, id_)


def test_a_mistake_is_named_with_its_place(two: Serving) -> None:
    wrong = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a", "url": "b"}]}}
    said = rpc(two, "SendMessage", wrong).body["error"]["message"]
    assert said.startswith("message.parts[0]: ")
    assert "exactly one of text, raw, url, data" in said
    said = rest(two, "POST", "/message:send", {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}})
    assert said.status == 400
    assert said.body["error"]["status"] == "INVALID_ARGUMENT"
    assert said.body["error"]["details"][0]["reason"] == "INVALID_PARAMS"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"parts": [{"text": "a" * 200_000}, {"text": "b" * 100_000}]}, "300,002 characters; the most is 256,000"),
        ({"metadata": {"a": "b" * 500_000}}, "characters as JSON; the most is 400,000"),
        ({"parts": [{"text": "a"}] * 257}, "at most 256 items"),
        ({"parts": [{"text": " "}]}, "The message is empty."),
    ],
)
def test_messages_are_bounded(two: Serving, more: Mapping[str, Any], problem: str) -> None:
    said = rpc(two, "SendMessage", {"message": {**HELLO["message"], **more}})
    assert code_of(said) == -32602
    assert problem in said.body["error"]["message"]


@pytest.mark.parametrize("version", ["", "0.3", "2.0", "x"])
def test_other_versions_are_refused(two: Serving, version: str) -> None:
    headers = {"A2A-Version": version} if version else {}
    assert code_of(rpc(two, "SendMessage", HELLO, headers=headers)) == -32009
    said = rest(two, "POST", "/message:send", HELLO, headers=headers)
    assert (said.status, said.body["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")


def test_cards_are_for_anybody_and_hide_the_tools(two: Serving, served: Serving) -> None:
    card = two.ask("GET", "/a2a/agent-1/.well-known/agent-card.json", key=None)
    assert card.status == 200
    assert [one["url"] for one in card.body["supportedInterfaces"]] == [f"{two.url}/a2a/agent-1"] * 2
    assert [skill["id"] for skill in card.body["skills"]] == ["agent-1"]
    assert served.ask("GET", "/.well-known/agent-card.json", key=None).body["name"] == "agent-1"
    several = two.ask("GET", "/.well-known/agent-card.json", key=None)
    assert several.status == 404
    assert "/a2a/agent-2/.well-known/agent-card.json" in several.text
    assert two.ask("GET", "/a2a/nobody/.well-known/agent-card.json", key=None).status == 404
    assert two.ask("GET", "/a2a/agent-1/extendedAgentCard", key=None, headers=VERSION).status == 401


def test_no_such_agent(two: Serving) -> None:
    assert rpc(two, "SendMessage", HELLO, agent="nobody").status == 404
    said = two.ask("GET", "/a2a/agent-1", headers=VERSION)
    assert (said.status, said.headers["Allow"]) == (405, "POST")


def test_a_task_belongs_to_its_tenant_and_its_agent(two: Serving) -> None:
    owner, other = Customer(two, "owns"), Customer(two, "looks")
    task = owner.made("/a2a/agent-1/message:send", HELLO, headers=VERSION)["task"]
    path = f"/a2a/agent-1/tasks/{task['id']}"
    assert owner.ask("GET", path, headers=VERSION).status == 200
    before = owner.rows()
    asks = [
        ("GET", path, None),
        ("POST", f"{path}:cancel", {}),
        ("POST", f"{path}:subscribe", {}),
        ("GET", f"{path}:subscribe", None),
        ("POST", "/a2a/agent-1/message:send", {"message": {**HELLO["message"], "taskId": task["id"]}}),
    ]
    for who, agent in ((other, "agent-1"), (owner, "agent-2")):
        for method, where, body in asks:
            said = who.ask(method, where.replace("agent-1", agent), body, headers=VERSION)
            assert (said.status, said.body["error"]["details"][0]["reason"]) == (404, "TASK_NOT_FOUND")
    listed = other.ask("GET", f"/a2a/agent-1/tasks?contextId={task['contextId']}", headers=VERSION).body
    assert listed == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    assert other.ask("GET", f"/a2a/agent-1/tasks?pageToken={task['id']}", headers=VERSION).status == 400
    theirs = {"message": {**HELLO["message"], "contextId": task["contextId"]}}
    assert other.ask("POST", "/a2a/agent-1/message:send", theirs, headers=VERSION).status == 400
    assert owner.rows() == before
    assert [one["kind"] for one in owner.ask("GET", "/v1/runs?kind=a2a").body["data"]] == ["a2a"]


SCOPES = [
    ("POST", "", "runs"),
    ("POST", "/message:send", "runs"),
    ("POST", "/message:stream", "runs"),
    ("POST", "/tasks/run_1:cancel", "runs"),
    ("POST", "/tasks/run_1:subscribe", "read"),
    ("GET", "/tasks/run_1:subscribe", "read"),
    ("GET", "/tasks/run_1", "read"),
    ("GET", "/tasks", "read"),
    ("GET", "/extendedAgentCard", "read"),
    ("POST", "/tasks/run_1/pushNotificationConfigs", "runs"),
    ("DELETE", "/tasks/run_1/pushNotificationConfigs/1", "runs"),
]


@pytest.mark.parametrize("scope", ["read", "runs", "agents"])
def test_each_operation_needs_its_scope(two: Serving, scope: str) -> None:
    key = two.in_loop(two.database.write(partial(create_key, tenant="default", scopes=[scope])))
    for method, path, needed in SCOPES:
        said = rest(two, method, path, {} if method == "POST" else None, key=key)
        assert (said.status == 403) == (needed != scope), (method, path, said.text)
        assert rest(two, method, path, {} if method == "POST" else None, key=None).status == 401


def test_a_repeated_request_is_the_same_task(two: Serving) -> None:
    headers = {**VERSION, "Idempotency-Key": "once"}
    first, again = (rest(two, "POST", "/message:send", HELLO, headers=headers) for _ in range(2))
    assert first.body == again.body
    assert again.headers["idempotent-replayed"] == "true"


def test_a_key_s_limits_hold(tmp_path: Any) -> None:
    agents = {"agent-1": Agent(PromptModel(script=[{"when": "", "error": "hang"}]), name="a")}
    with Serving(tmp_path, agents, at_once=1, limits=KeyLimits(Bounds(runs=1, queue=0, streams=0))) as served:
        later = {**HELLO, "configuration": {"returnImmediately": True}}
        task = rpc(served, "SendMessage", later).body["result"]["task"]
        over_rpc, over_rest = rpc(served, "SendMessage", later), rest(served, "POST", "/message:send", later)
        assert (over_rpc.status, code_of(over_rpc)) == (429, -32000)
        assert over_rest.status == 429
        stream = rest(served, "POST", f"/tasks/{task['id']}:subscribe", {})
        assert (stream.status, stream.body["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
        assert rpc(served, "GetTask", {"id": task["id"]}).status == 200  # looking is no run
        assert rpc(served, "CancelTask", {"id": task["id"]}).body["result"]["status"]["state"] == "TASK_STATE_CANCELED"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NEARLY = st.fixed_dictionaries(
    {"message": st.fixed_dictionaries({}, optional={
        "messageId": st.just("m") | ANY, "role": st.just("ROLE_USER") | ANY, "taskId": ANY,
        "parts": st.lists(st.fixed_dictionaries({}, optional={"text": ANY, "data": ANY, "url": ANY}), max_size=2) | ANY,
    }) | ANY},
    optional={"configuration": ANY},
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(method=st.sampled_from(["SendMessage", "GetTask", "ListTasks", "CancelTask"]), params=NEARLY | ANY)
def test_whatever_is_sent_is_answered(served: Serving, method: str, params: Any) -> None:
    said = served.ask("POST", "/a2a/agent-1", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
                      headers=VERSION)  # fmt: skip
    assert said.status == 200, json.dumps(params)
    assert said.body["id"] == 1
    assert KEY not in said.text
