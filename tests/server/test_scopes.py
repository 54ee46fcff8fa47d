"""What keys may do: each route says what it needs, and a key without it is refused before anything is looked at."""

from __future__ import annotations

from functools import partial

import pytest

from fakes.app_server import KEY, Serving
from retinue.server.middleware.auth import OPEN
from retinue.server.middleware.scopes import needed
from retinue.store.keys import make

ALONE = ("read", "runs", "agents")


def operations(served: Serving) -> list[tuple[str, str]]:
    paths = served.ask("GET", "/openapi.json").body["paths"]
    return [(method.upper(), path) for path, there in paths.items() for method in there if path not in OPEN]


def key_with(served: Serving, *scopes: str) -> str:
    key: str = served.in_loop(served.database.write(partial(make, scopes=scopes)))
    return key


def test_every_operation_has_its_scope(served: Serving) -> None:
    found = {(method, path): needed(method, path) for method, path in operations(served)}
    assert set(found.values()) == set(ALONE)  # and none is left to those that may do all
    for (method, path), scope in found.items():
        assert (scope == "read") == (method == "GET" or path.endswith("/search")), (method, path)


@pytest.mark.parametrize("scope", ALONE)
def test_a_key_does_what_it_may_and_nothing_else(served: Serving, scope: str) -> None:
    key = key_with(served, scope)
    for method, path in operations(served):
        said = served.ask(method, path, key=key)
        if needed(method, path) == scope:
            assert said.status not in (401, 403), f"{method} {path}"
            continue
        assert said.status == 403, f"{method} {path}"
        assert said.error == {
            "message": f"You have insufficient permissions for this operation. Missing scopes: {needed(method, path)}.",
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
