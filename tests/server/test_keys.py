"""Keys beside a server that runs: made, used, expired and revoked; also while something is streamed to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.app_server import KEY, Serving
from fakes.served import Served, serving
from fakes.until import until
from retinue.cli import main
from retinue.store.api_keys import create_key, find_key, hash_key, key_id_of

AGENT = """
agents:
  - name: agent-1
    params: {model: scripted, strategy: tool_calling, script: [{say: one two three, delay: %s}]}
"""
QUESTION: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def server(any_url: str, tmp_path: Path) -> Iterator[tuple[Served, str]]:
    """A server whose agent takes a while, and its database."""
    with serving(tmp_path, AGENT % 30, args=["--db", any_url], env={"TZ": "UTC"}) as there:
        yield there, any_url


def test_a_key_is_made_and_revoked_while_the_server_runs(
    server: tuple[Served, str], capsys: pytest.CaptureFixture[str]
) -> None:
    there, db = server
    assert main(["keys", "make", "--tenant", "acme", "--json", "--db", db]) == 0
    made = json.loads(capsys.readouterr().out)
    with there.client(api_key=made["key"]) as client:
        assert next(iter(client.models.list())).id == "agent-1"
        with client.chat.completions.create(model="agent-1", messages=QUESTION, stream=True) as stream:
            next(stream)
            assert main(["keys", "revoke", made["id"], "--db", db]) == 0
            until(lambda: refused(client), 1.0)
            with pytest.raises(openai.APIError, match="Incorrect API key provided"):  # and it does not wait for the run
                list(stream)
    assert there.log.count("\n") == 1, there.log  # that it is ready


def refused(client: openai.OpenAI) -> bool:
    try:
        client.models.list()
    except openai.AuthenticationError:
        return True
    return False


def test_a_key_has_its_time(tmp_path: Path) -> None:
    at = [1_000_000_000.0]
    with Serving(tmp_path, now=lambda: at[0]) as served:
        key = served.in_loop(served.database.write(partial(create_key, expires_in=60)))
        at[0] = served.in_loop(served.database.read(partial(find_key, wanted=hash_key(key)))).created_at
        for seconds, status in ((0, 200), (59, 200), (1, 401), (3600, 401)):
            at[0] += seconds
            assert served.ask("GET", "/v1/models", key=key).status == status
        assert served.ask("GET", "/v1/models", key=key).error["code"] == "invalid_api_key"


def test_each_tenant_sees_what_is_its_own(served: Serving) -> None:
    mine, other, also = (
        served.in_loop(served.database.write(partial(create_key, tenant=tenant))) for tenant in ("a", "b", "a")
    )
    thread = served.ask("POST", "/v1/threads", {}, key=mine).body["id"]
    statuses = [served.ask("GET", f"/v1/threads/{thread}", key=key).status for key in (mine, also, other, KEY)]
    assert statuses == [200, 200, 404, 404]


def test_a_run_is_of_the_key_that_asked_for_it(served: Serving) -> None:
    body = {"model": "agent-1", "messages": QUESTION}
    run = served.ask("POST", "/v1/chat/completions", body).body["id"].replace("chatcmpl-", "run_")
    kept = served.in_loop(
        served.database.read(
            lambda connection: connection.exec_driver_sql("SELECT id, key_id FROM runs").all(),
        )
    )
    assert (run, key_id_of(hash_key(KEY))) in [tuple(row) for row in kept]
