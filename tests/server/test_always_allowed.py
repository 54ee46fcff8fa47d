"""A served run's person says `always`: for that user of that tenant, until it is revoked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes import fork_server
from fakes.app_server import Serving
from fakes.until import until
from retinue import Agent, PromptModel, tool
from retinue.guardrails import SpendPerDay
from retinue.store.api_keys import create_key

SENT: list[str] = []


@tool(approval=True)
def send(to: str) -> str:
    """Send a mail."""
    SENT.append(to)
    return f"sent to {to}"


def mailer() -> Agent:
    script = [
        {"when": "sent to|refused", "finish": "Done."},
        {"when": "Bob", "call": {"tool": "send", "input": {"to": "bob@x.org"}}},
        {"when": "", "call": {"tool": "send", "input": {"to": "ann@x.org"}}},
    ]
    return Agent(PromptModel(script=script), [send], name="mailer", strategy="tool_calling")


@pytest.fixture
def served(tmp_path: Any) -> Iterator[Serving]:
    SENT.clear()
    with Serving(tmp_path, {"mailer": mailer()}) as server:
        yield server


def key(served: Serving, user: str | None, tenant: str = "acme") -> str:
    made: str = served.in_loop(served.database.write(partial(create_key, tenant=tenant, user=user)))
    return made


def ask(served: Serving, key: str, question: str = "Tell Ann") -> dict[str, Any]:
    """The run, once it has ended or waits."""
    said = {"model": "mailer", "input": question, "background": True}
    made = served.ask("POST", "/v1/responses", said, key=key)
    assert made.status == 200, made.text
    path = "/v1/runs/run_" + str(made.body["id"]).partition("_")[2]
    return look(served, path, key)


def look(served: Serving, path: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def rests() -> bool:
        found.update(served.ask("GET", path, key=key).body)
        return found["status"] not in ("queued", "in_progress")

    until(rests)
    return found


def decide(served: Serving, key: str, run: dict[str, Any], **said: Any) -> Any:
    (call,) = run["required_action"]["submit_tool_outputs"]["tool_calls"]
    outputs = [{"tool_call_id": call["id"], "output": json.dumps({"decision": "approve", **said})}]
    return served.ask("POST", f"/v1/runs/{run['id']}/submit_tool_outputs", {"tool_outputs": outputs}, key=key)


def test_nobody_is_asked_again_for_this_user_until_it_is_revoked(served: Serving) -> None:
    ann, bob, other = key(served, "ann"), key(served, "bob"), key(served, "ann", "other")
    run = ask(served, ann)
    assert (run["status"], run["user"]) == ("requires_action", "ann")
    assert decide(served, ann, run, always="call").status == 200
    until(lambda: SENT == ["ann@x.org"])
    assert ask(served, ann)["status"] == "completed"
    for one in (bob, other):
        assert ask(served, one)["status"] == "requires_action"
    assert ask(served, ann, "Tell Bob")["status"] == "requires_action"
    (policy,) = served.ask("GET", "/v1/policies", key=ann).body["data"]
    assert (policy["tool"], policy["always"]) == ("send", "call")
    assert (policy["user"], policy["arguments"], policy["run_id"]) == ("ann", {"to": "ann@x.org"}, run["id"])
    for one in (bob, other):
        assert served.ask("GET", "/v1/policies", key=one).body["data"] == []
        assert served.ask("DELETE", f"/v1/policies/{policy['id']}", key=one).status == 404
    assert served.ask("DELETE", f"/v1/policies/{policy['id']}", key=key(served, None)).body["deleted"]
    assert ask(served, ann)["status"] == "requires_action"
    assert SENT == ["ann@x.org"] * 2


def test_the_log_says_by_which_policy_nobody_was_asked(served: Serving) -> None:
    ann = key(served, "ann")
    decide(served, ann, ask(served, ann), always={"to": "*@x.org"})
    until(lambda: len(SENT) == 1)
    run = ask(served, ann, "Tell Bob")
    assert run["status"] == "completed"
    events = served.ask("GET", f"/v1/runs/{run['id']}/events", key=ann).body["data"]
    (resumed,) = [one["data"] for one in events if one["type"] == "resumed"]
    (policy,) = served.ask("GET", "/v1/policies", key=ann).body["data"]
    assert resumed["decision"]["policy"] == policy["id"]


@pytest.mark.parametrize("always", ["ever", {"cc": "*"}, {"to": 1}, {}, ["call"], 1])
def test_what_cannot_be_always_allowed_is_refused(served: Serving, always: Any) -> None:
    ann = key(served, "ann")
    refused = decide(served, ann, ask(served, ann), always=always)
    assert refused.status == 400
    assert "'call', for the same arguments" in refused.error["message"]


def test_a_run_for_nobody_in_particular_is_allowed_once(served: Serving) -> None:
    whole = key(served, None)
    run = ask(served, whole)
    refused = decide(served, whole, run, always="tool")
    assert (refused.status, SENT) == (400, [])
    assert "for no user" in refused.error["message"]
    assert decide(served, whole, run).status == 200


def test_what_a_user_may_spend_in_a_day_is_counted_by_the_server(tmp_path: Any) -> None:
    script = [{"when": "", "finish": "Hello."}]
    agent = Agent(
        PromptModel(script=script), name="mailer", strategy="tool_calling", hooks=[SpendPerDay(runs=2, tokens=1_000)]
    )
    with Serving(tmp_path, {"mailer": agent}) as served:
        ann, bob = key(served, "ann"), key(served, "bob")
        ended = [ask(served, ann) for _ in range(3)]
        assert [one["status"] for one in ended] == ["completed", "completed", "incomplete"]
        assert ask(served, bob)["status"] == "completed"
        assert ask(served, key(served, "ann", "other"))["status"] == "completed"


def test_tokens_of_a_run_under_way_count_at_the_next_step(tmp_path: Any) -> None:
    @tool(effects="read")
    def look(at: int) -> str:
        """Look."""
        return f"seen {at}"

    script = [{"when": "", "call": {"tool": "look", "input": {"at": at}}, "times": 1} for at in range(9)]
    agent = Agent(
        PromptModel(script=script), [look], name="mailer", strategy="tool_calling", hooks=[SpendPerDay(tokens=60)]
    )
    with Serving(tmp_path, {"mailer": agent}) as served:
        ann = key(served, "ann")
        run = ask(served, ann)
        assert run["status"] == "incomplete"
        assert len(run["steps"]) < 8
        assert "ann has used" in json.dumps(served.ask("GET", f"/v1/runs/{run['id']}/events", key=ann).body)


def test_an_operator_lists_and_revokes_policies_while_the_server_runs(served: Serving, tmp_path: Path) -> None:
    ann, db = key(served, "ann"), str(tmp_path / "retinue.db")
    decide(served, ann, ask(served, ann), always="call")
    until(lambda: len(SENT) == 1)
    (listed,) = json.loads(retinue("policies", "list", "--db", db, "--json"))
    assert (listed["user"], listed["body"]["tool"]) == ("ann", "send")
    assert all(word in retinue("policies", "list", "--db", db) for word in ("ann", "mailer", "send", "call"))
    assert "was revoked" in retinue("policies", "revoke", listed["id"], "--db", db)
    assert "there is no policy" in retinue("policies", "revoke", listed["id"], "--db", db)
    assert ask(served, ann)["status"] == "requires_action"


def retinue(*words: str) -> str:
    done = fork_server.retinue(*words)
    return done.stdout + done.stderr
