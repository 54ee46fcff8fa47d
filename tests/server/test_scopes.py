"""What keys may do: each route says what it needs, and a key without it is refused before anything is looked at."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fakes.app_server import KEY, Serving
from fakes.tenants import Customer
from retinue.store.api_keys import create_key

ALONE = ("read", "runs", "agents", "memories", "tools", "secrets", "prompts", "audit")
_POSTS = {
    "runs": """
        /v1/chat/completions
        /v1/completions
        /v1/chat/completions/{completion_id}
        /v1/conversations
        /v1/conversations/{conversation_id}
        /v1/conversations/{conversation_id}/items
        /v1/responses
        /v1/responses/input_tokens
        /v1/responses/compact
        /v1/audio/speech
        /v1/audio/transcriptions
        /v1/embeddings
        /v1/responses/{response_id}/cancel
        /v1/runs/import
        /v1/runs/{run_id}/cancel
        /v1/runs/{run_id}/fork
        /v1/runs/{run_id}/submit_tool_outputs
        /v1/runs/{run_id}/workspace/files
        /v1/threads
        /v1/threads/runs
        /v1/threads/{thread_id}
        /v1/threads/{thread_id}/messages
        /v1/threads/{thread_id}/messages/{message_id}
        /v1/threads/{thread_id}/runs
        /v1/threads/{thread_id}/runs/{run_id}
        /v1/threads/{thread_id}/runs/{run_id}/cancel
        /v1/threads/{thread_id}/runs/{run_id}/submit_tool_outputs
        /v1/runs/{run_id}/cancel
        /v1/runs/{run_id}/submit_tool_outputs
    """,
    "agents": """
        /v1/assistants
        /v1/assistants/{assistant_id}
        /v1/files
        /v1/vector_stores
        /v1/vector_stores/{vector_store_id}
        /v1/vector_stores/{vector_store_id}/file_batches
        /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel
        /v1/vector_stores/{vector_store_id}/files
        /v1/vector_stores/{vector_store_id}/files/{file_id}
    """,
    "tools": "/v1/tools",
    "read": "/v1/vector_stores/{vector_store_id}/search /v1/runs/{run_id}/replay",
}
_DELETES = {
    "runs": """
        /v1/chat/completions/{completion_id}
        /v1/conversations/{conversation_id}
        /v1/conversations/{conversation_id}/items/{item_id}
        /v1/policies/{policy_id}
        /v1/responses/{response_id}
        /v1/threads/{thread_id}
        /v1/threads/{thread_id}/messages/{message_id}
    """,
    "agents": """
        /v1/assistants/{assistant_id}
        /v1/files/{file_id}
        /v1/models/{model}
        /v1/vector_stores/{vector_store_id}
        /v1/vector_stores/{vector_store_id}/files/{file_id}
    """,
    "tools": "/v1/tools/{tool_id}",
    "secrets": "/v1/secrets/{name}",
    "memories": """
        /v1/memories
        /v1/memories/{memory_id}
    """,
}
SCOPES = {
    (method, path): scope
    for method, table in (("POST", _POSTS), ("DELETE", _DELETES), ("PUT", {"secrets": "/v1/secrets/{name}"}))
    for scope, paths in table.items()
    for path in paths.split()
}
"""What each operation that is no GET needs, said once more: a GET needs `read`, unless `scope_of` says otherwise."""


OPEN = {("GET", "/health"), ("GET", "/ready")}
"""What needs no key."""


def operations(served: Serving) -> list[tuple[str, str]]:
    paths = served.ask("GET", "/openapi.json").body["paths"]
    every = [(method.upper(), path) for path, there in paths.items() for method in there]
    return [one for one in every if one not in OPEN]


def scope_of(operation: tuple[str, str]) -> str:
    if operation[0] == "GET":
        private = {
            "/v1/memories": "memories",
            "/v1/secrets": "secrets",
            "/v1/studio/evals": "prompts",
            "/v1/audit": "audit",
        }
        return next((scope for path, scope in private.items() if operation[1].startswith(path)), "read")
    return SCOPES[operation]


def key_with(served: Serving, *scopes: str, tenant: str = "default") -> str:
    key: str = served.in_loop(served.database.write(partial(create_key, tenant=tenant, scopes=scopes)))
    return key


def test_every_operation_has_its_scope(served: Serving) -> None:
    assert {one for one in operations(served) if one[0] != "GET"} == set(SCOPES)


@pytest.mark.parametrize("scope", ALONE)
def test_a_key_does_what_it_may_and_nothing_else(served: Serving, scope: str) -> None:
    key = key_with(served, scope)
    for method, path in operations(served):
        said, needed = served.ask(method, path, key=key), scope_of((method, path))
        if needed == scope:
            assert said.status not in (401, 403), f"{method} {path}"
            continue
        assert said.status == 403, f"{method} {path}"
        assert said.error == {
            "message": f"You have insufficient permissions for this operation. Missing scopes: {needed}.",
            "type": "invalid_request_error",
            "param": None,
            "code": "missing_scope",
        }


@pytest.mark.parametrize("path", ["/v1/nowhere", "/nowhere", "/v1", "//v1/threads", "/v1//threads", "/v1/%74hreads"])
def test_what_is_not_known_is_for_those_that_may_do_all(served: Serving, path: str) -> None:
    known = path.endswith("%74hreads")  # which is threads
    assert served.ask("POST", path, {}, key=key_with(served, *ALONE)).status == (200 if known else 403)
    assert served.ask("POST", path, {}, key=key_with(served, "all")).status in (200, 404)
    assert served.ask("POST", path, {}, key=KEY).status in (200, 404)


WISH: dict[str, Any] = {"file_search": {"vector_stores": [{}]}}


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/v1/threads", {"tool_resources": WISH}),
        ("/v1/threads/{thread}", {"tool_resources": WISH}),
        ("/v1/threads/runs", {"assistant_id": "{assistant}", "tool_resources": WISH}),
        ("/v1/threads/runs", {"assistant_id": "{assistant}", "thread": {"tool_resources": WISH}}),
    ],
)
def test_who_may_only_converse_makes_no_vector_stores_on_the_way(
    path: str, given: dict[str, Any], served: Serving
) -> None:
    customer = Customer(served, "converses")
    thread = customer.made("/v1/threads", {})["id"]
    assistant = customer.made("/v1/assistants", {"model": "agent-1"})["id"]
    path = path.format(thread=thread)
    given = {**given, **({"assistant_id": assistant} if "assistant_id" in given else {})}
    said = served.ask("POST", path, given, key=key_with(served, "runs", "read", tenant="converses"))
    assert (said.status, said.error["code"]) == (403, "missing_scope")
    assert customer.ask("GET", "/v1/vector_stores").body["data"] == []
    both = key_with(served, "runs", "agents", tenant="converses")
    assert served.ask("POST", path, given, key=both).status == 200
    for store in customer.ask("GET", "/v1/vector_stores").body["data"]:
        customer.ask("DELETE", f"/v1/vector_stores/{store['id']}")


def test_who_may_not_read_gets_nothing_of_a_run_by_forking_it(served: Serving) -> None:
    chat = {"model": "agent-1", "messages": [{"role": "user", "content": "Hi"}], "store": True}
    served.ask("POST", "/v1/chat/completions", chat)
    run = served.ask("GET", "/v1/runs").body["data"][0]["id"]
    forks = [
        served.ask("POST", f"/v1/runs/{run}/fork", {}, key=key_with(served, *scopes))
        for scopes in (("runs",), ("runs", "read"))
    ]
    assert [one.status for one in forks] == [200, 200]
    assert [{"steps", "messages"} <= set(one.body) for one in forks] == [False, True]
