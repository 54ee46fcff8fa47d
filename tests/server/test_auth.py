"""Who may ask: whoever has a key, by one of the server's names, and from no page but those that may."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from fakes.app_server import KEY, Serving
from retinue.store.api_keys import create_key, hash_key
from retinue.store.tables import keys


def test_every_operation_wants_a_key(served: Serving) -> None:
    paths = served.ask("GET", "/openapi.json").body["paths"]
    assert len(paths) > 10
    for path, operations in paths.items():
        for method in operations:
            said = served.ask(method.upper(), path, key=None)
            assert said.status == (200 if path in ("/health", "/ready") else 401), f"{method} {path}"
    assert served.ask("GET", "/v1/nowhere", key=None).status == 401


@pytest.mark.parametrize(
    ("said", "message", "code"),
    [
        ("", "You didn't provide an API key.", None),
        ("Basic dXNlcg==", "You didn't provide an API key.", None),
        ("Bearer ", "You didn't provide an API key.", None),
        ("Bearer sk-wrong-1234567890", "Incorrect API key provided: sk-w****7890.", "invalid_api_key"),
        ("Bearer short", "Incorrect API key provided: ****.", "invalid_api_key"),
        (f"Bearer {KEY}x", "Incorrect API key provided: sk-f****789x.", "invalid_api_key"),
    ],
)
def test_what_is_said_without_a_key(served: Serving, said: str, message: str, code: str | None) -> None:
    answer = served.ask("GET", "/v1/models", key=None, headers={"Authorization": said} if said else {})
    assert answer.status == 401
    assert answer.error["message"].startswith(message)
    assert (answer.error["type"], answer.error["code"]) == ("invalid_request_error", code)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_the_key_is_looked_at_before_the_body_is_there(served: Serving) -> None:
    where = urlsplit(served.url)
    with socket.create_connection((str(where.hostname), where.port or 0), timeout=20) as connection:
        connection.sendall(b"POST /v1/threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_of_a_key_only_its_hash_is_kept(served: Serving) -> None:
    key = served.in_loop(served.database.write(partial(create_key, tenant="default")))
    assert served.ask("GET", "/v1/models", key=key).status == 200
    rows = served.in_loop(served.database.read(lambda connection: connection.execute(select(keys)).all()))
    assert [row.hash for row in rows] == [hash_key(key)]
    assert key not in str(rows)


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("edges")
    with Serving(folder, hosts=["agents.example"], origins=["https://chat.example"]) as served:
        yield served


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("agents.example", 200),
        ("evil.test", 421),
        ("evil.test:80", 421),
        ("localhost.evil.test", 421),
        ("10.0.0.1", 421),
    ],
)
def test_names_that_are_not_the_servers_lead_to_nothing(edges: Serving, host: str, status: int) -> None:
    assert edges.ask("GET", "/health", headers={"Host": host}).status == status


def test_one_that_listens_everywhere_has_all_addresses_but_not_all_names(tmp_path: Path) -> None:
    with Serving(tmp_path, hosts=["0.0.0.0"]) as served:
        assert served.ask("GET", "/health", headers={"Host": "10.0.0.1:8000"}).status == 200
        assert served.ask("GET", "/health", headers={"Host": "evil.test"}).status == 421


def test_pages_of_browsers_are_refused_unless_they_may(edges: Serving) -> None:
    refused = edges.ask("GET", "/v1/models", headers={"Origin": "https://evil.test"})
    assert (refused.status, refused.error["code"]) == (403, None)
    taken = edges.ask("GET", "/v1/models", headers={"Origin": "https://chat.example"})
    assert taken.status == 200
    assert taken.headers["Access-Control-Allow-Origin"] == "https://chat.example"
    assert "x-request-id" in taken.headers["Access-Control-Expose-Headers"]


def test_browsers_ask_first_and_without_a_key(edges: Serving) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, x-stainless-os"}
    said = edges.ask("OPTIONS", "/v1/threads", key=None, headers={"Origin": "https://chat.example", **asked})
    assert said.status == 200
    assert "authorization" in said.headers["Access-Control-Allow-Headers"]
    assert edges.ask("OPTIONS", "/v1/threads", key=None, headers={"Origin": "https://evil.test", **asked}).status == 403


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /health HTTP/1.1\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\nhost: evil.test\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\n", 200),
        ("GET /health HTTP/1.0\r\n", 200),
        ("GET /health HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n", 400),
    ],
)
def test_a_request_names_one_host(served: Serving, head: str, status: int) -> None:
    where = urlsplit(served.url)
    with socket.create_connection((str(where.hostname), where.port or 0), timeout=20) as connection:
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        said = b"".join(iter(lambda: connection.recv(10_000), b""))
    assert said.split()[1] == str(status).encode()
    assert (b"HTTP/1.1 requires exactly one 'Host' header" in said) == (status == 400)
