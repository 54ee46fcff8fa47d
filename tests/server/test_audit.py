"""The audit log over HTTP and the command line: what people did is there, and nothing of what they wrote."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving, upload
from fakes.looking import Windows, paying
from fakes.tenants import Customer
from fakes.until import until
from retinue.cli import main
from retinue.store.api_keys import create_key


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    url = request.getfixturevalue("a_postgres").database() if request.param == "postgresql" else ""
    with Serving(tmp_path_factory.mktemp("served"), {"agent-1": paying(Windows())}, url=url) as server:
        yield server


def audit(served: Serving, customer: Customer, query: str = "") -> list[dict[str, Any]]:
    making = partial(create_key, tenant=customer.tenant, scopes=("audit",))
    key = served.in_loop(served.database.write(making))
    found = served.ask("GET", f"/v1/audit{query}", key=key)
    assert found.status == 200, found.text
    return list(found.body["data"])


def waiting(customer: Customer) -> tuple[str, str]:
    """A run that waits for approval, and its call."""
    assistant = customer.made("/v1/assistants", {"model": "agent-1"})["id"]
    asked = {"assistant_id": assistant, "thread": {"messages": [{"role": "user", "content": "Secret words"}]}}
    run = customer.made("/v1/threads/runs", asked)["id"]
    path = f"/v1/runs/{run}"
    until(lambda: customer.ask("GET", path).body["status"] == "requires_action")
    call = customer.ask("GET", path).body["required_action"]["submit_tool_outputs"]["tool_calls"][0]["id"]
    return run, call


def test_decisions_and_cancels_are_recorded_with_who_and_whence(served: Serving) -> None:
    customer = Customer(served, "deciding")
    run, call = waiting(customer)
    path = f"/v1/runs/{run}/submit_tool_outputs"
    answer = {"tool_outputs": [{"tool_call_id": call, "output": "Reject"}]}
    said = customer.ask("POST", path, answer)
    assert said.status == 200
    customer.ask("POST", path, answer)  # repeated: nothing is done
    other, _ = waiting(customer)
    assert customer.ask("POST", f"/v1/runs/{other}/cancel").status == 200
    cancelled, rejected = audit(served, customer)
    assert (cancelled["action"], cancelled["target"]) == ("run.cancelled", other)
    assert (rejected["action"], rejected["target"]) == ("call.reject", run)
    assert rejected["actor"].startswith("key_")
    assert rejected["request_id"] == said.headers["x-request-id"]
    assert rejected["address"] == "127.0.0.1"
    assert set(rejected["detail"]) == {"call", "tool"}
    assert "Secret" not in json.dumps([cancelled, rejected])


def test_what_is_removed_forked_and_exported_is_recorded_once_it_is_done(served: Serving) -> None:
    customer = Customer(served, "doing")
    file = upload(served, "a.txt", b"abc", key=customer.key).body["id"]
    for _ in range(2):  # the second time it is not there
        customer.ask("DELETE", f"/v1/files/{file}")
    run, _ = waiting(customer)
    fork = customer.made(f"/v1/runs/{run}/fork", {"step": 0})["id"]
    exported = customer.ask("GET", f"/v1/runs/{run}/export")
    assert exported.status == 200
    imported = served.ask("POST", "/v1/runs/import", exported.body, key=customer.key)
    assert [one["action"] for one in audit(served, customer, "?order=asc")][:3] == [
        "file.deleted",
        "run.forked",
        "run.exported",
    ]
    (forked,) = audit(served, customer, "?action=run.forked")
    assert (forked["target"], forked["detail"]) == (fork, {"from": run})
    assert len(audit(served, customer, "?action=run")) == 2 + (imported.status == 200)
    assert audit(served, customer, "?action=ru") == []


def test_a_tenant_sees_only_its_own_and_needs_the_scope(served: Serving) -> None:
    one, other = Customer(served, "seeing"), Customer(served, "seen")
    file = upload(served, "a.txt", b"abc", key=other.key).body["id"]
    other.ask("DELETE", f"/v1/files/{file}")
    assert audit(served, one) == []
    assert len(audit(served, other)) == 1
    assert Customer(served, "seeing", scopes=("all",)).ask("GET", "/v1/audit").status == 403


def test_old_entries_are_pruned_and_that_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "r.db"
    for tenant in ("old", "new"):
        main(["quotas", "set", tenant, "--runs", "5/day", "--db", str(db)])
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE audit_entries SET created_at = 1 WHERE tenant = 'old'")
    capsys.readouterr()
    for gone in (1, 0):
        assert main(["audit", "prune", "--older-than", "1d", "--db", str(db)]) == 0
        assert capsys.readouterr().out == f"{gone} entries were deleted\n"
    assert main(["audit", "list", "--json", "--db", str(db)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["action"], one["tenant"]) for one in found] == [("audit.pruned", ""), ("quota.set", "new")]
    assert found[0]["detail"] == {"entries": 1}


def test_commands_are_recorded_with_the_user_of_the_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = ["--db", str(tmp_path / "r.db")]
    main(["keys", "make", "--tenant", "acme", "--json", *db])
    made = json.loads(capsys.readouterr().out)
    main(["keys", "revoke", made["id"], *db])
    main(["quotas", "set", "acme", "--runs", "5/day", *db])
    main(["quotas", "remove", "acme", *db])
    capsys.readouterr()
    assert main(["audit", "list", "--json", *db]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["action"] for one in found] == ["quota.removed", "quota.set", "key.revoked", "key.made"]
    assert all(one["actor"].startswith("os:") and one["tenant"] == "acme" for one in found)
    assert made["key"] not in json.dumps(found)
