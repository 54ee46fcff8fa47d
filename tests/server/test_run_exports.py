"""A run is exported as JSON, and imported as a run to look at, which is never driven."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakes.app_server import Answer, Serving
from fakes.kept_runs import due_for
from fakes.looking import PROMPT, Windows, boss, completion, events_of, looking, rested, seeing_key
from fakes.tenants import Customer
from retinue.store.due import Reason
from retinue.store.run_queries import find_run


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    windows = Windows()
    agents = {"looks": looking(windows), "boss": boss(windows)}
    with Serving(tmp_path_factory.mktemp("served"), agents) as serving:
        yield serving


@pytest.fixture(scope="module")
def key(served: Serving) -> str:
    return seeing_key(served)


def exported(served: Serving, run_id: str, key: str) -> dict[str, Any]:
    answer = served.ask("GET", f"/v1/runs/{run_id}/export", key=key)
    assert answer.status == 200, answer.text
    body: dict[str, Any] = answer.body
    return body


def imported(served: Serving, given: Any, key: str) -> Answer:
    return served.ask("POST", "/v1/runs/import", given, key=key)


def without_ids(given: dict[str, Any]) -> dict[str, Any]:
    run = {name: value for name, value in given["run"].items() if name != "id"}
    return {**given, "run": run, "members": [without_ids(one) for one in given["members"]]}


@pytest.mark.parametrize("agent", ["looks", "boss"])
def test_what_is_imported_is_exported_again_but_for_the_ids(served: Serving, key: str, agent: str) -> None:
    first = exported(served, completion(served, agent), key)
    assert [len(first["members"]), first["object"], first["version"]] == [int(agent == "boss"), "run.export", 1]
    run = imported(served, first, key).body
    assert (run["kind"], run["status"], run["imported_from"]["run_id"]) == ("imported", "completed", first["run"]["id"])
    again = exported(served, run["id"], key)
    assert without_ids(again) == without_ids(first)
    assert again["run"]["id"] != first["run"]["id"]
    third = exported(served, imported(served, again, key).body["id"], key)
    assert without_ids(third) == without_ids(first)
    assert len(events_of(served, run["id"])) == len(first["events"])


def test_a_fork_that_is_imported_is_replayed_as_one(served: Serving, key: str) -> None:
    run = completion(served)
    fork = served.ask("POST", f"/v1/runs/{run}/fork", {"observations": {"call_1_0": "In Oslo it snows."}}).body["id"]
    rested(served, fork)
    given = exported(served, fork, key)
    assert given["run"]["forked_from"] == {"run_id": run, "step": 1}
    there = imported(served, given, key).body
    assert there["forked_from"] is None  # the run that it names may be another's here
    assert served.ask("POST", f"/v1/runs/{there['id']}/replay").body["agrees"]


def test_nothing_in_it_is_ever_done(served: Serving, key: str) -> None:
    run = imported(served, exported(served, completion(served), key), key).body["id"]
    assert run not in served.in_loop(served.database.read(lambda connection: due_for(connection, *Reason)))
    for path, given in (
        ("fork", {}),
        ("fork", {"step": 0}),
        ("cancel", None),
        ("submit_tool_outputs", {"tool_outputs": []}),
    ):
        assert served.ask("POST", f"/v1/runs/{run}/{path}", given).status == 400
    row = served.in_loop(served.database.read(lambda connection: find_run(connection, run)))
    assert (row.holds, row.driver, row.epoch, row.thread_id, row.active) == (False, None, 0, None, False)


def test_without_the_scope_the_prompts_are_withheld_and_it_cannot_be_imported(served: Serving, key: str) -> None:
    run = completion(served)
    answer = served.ask("GET", f"/v1/runs/{run}/export")
    assert PROMPT not in answer.text
    assert next(one["withheld"] for one in answer.body["events"] if "withheld" in one) == ["instructions"]
    refused = imported(served, answer.body, key)
    assert refused.status == 400
    assert "instructions is withheld here; export the run with a key that has the scope 'prompts'" in refused.text


def test_it_belongs_to_the_keys_tenant(served: Serving, key: str) -> None:
    given, other = exported(served, completion(served), key), Customer(served, "importer")
    run = other.ask("POST", "/v1/runs/import", given).body["id"]
    assert other.ask("GET", f"/v1/runs/{run}").status == 200
    assert served.ask("GET", f"/v1/runs/{run}").status == 404
    for method, path in (("GET", "export"), ("POST", "replay")):
        ours = served.ask(method, f"/v1/runs/{run}/{path}")
        unknown = served.ask(method, f"/v1/runs/run_0/{path}")
        assert (ours.status, ours.text.replace(run, "run_0")) == (404, unknown.text)


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(given: dict[str, Any]) -> None:
        at: Any = given
        for name in path[:-2]:
            at = at[name]
        at[path[-2]] = path[-1]

    return change


def _nest(given: dict[str, Any]) -> None:
    inner = {"run": given["run"], "events": [], "members": []}
    for _ in range(12):
        inner = {"run": given["run"], "events": [], "members": [inner]}
    given["members"] = [inner]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("version", 2), "version: Input should be 1"),
        (_set("object", "run"), "object: Input should be 'run.export'"),
        (_set("more", 1), "more: Extra inputs are not permitted"),
        (_set("run", "status", "in_progress"), "run.status: Input should be"),
        (_set("run", "status", "requires_action"), "run.status"),
        (_set("run", "tenant", "t"), "run.tenant: Extra inputs are not permitted"),
        (_set("run", "created_at", -1), "run.created_at"),
        (_set("run", "created_at", True), "run.created_at"),
        (_set("run", "model", "a\0b"), "run.model"),
        (_set("run", "metadata", {"a": "x" * 513}), "run.metadata"),
        (_set("events", 0, "kind", "__import__"), "events.0: unknown kind of event '__import__'"),
        (_set("events", 0, "kind", "said"), "events.0"),
        (_set("events", 0, "seq", 0), "events.0.seq"),
        (_set("events", 2, "seq", 1), "events.2: the number 1 follows 2"),
        (_set("events", 1, "at", "now"), "events.1.at"),
        (_set("events", 1, "messages", "x"), "events.1: not an event of kind 'asked': messages"),
        (_set("events", 1, "messages", [{"role": "root", "content": ""}]), "events.1"),
        (_set("events", 1, "told", "x"), "events.1: not an event of kind 'asked': told: "),
        (_set("events", 1, "messages", [{"role": "user", "content": "", "more": 1}]), "events.1"),
        (_set("events", 1, "at", 2.0**53), "events.1.at"),
        (_set("run", "created_at", 2**53 - 1), "run.created_at"),
        (_set("run", "ended_at", 2**53 - 1), "run.ended_at"),
        (_set("events", 2, "reply", "usage", "input_tokens", -5), "events.2: its usage"),
        (_set("events", 2, "reply", "usage", "output_tokens", 10**30), "events.2"),
        (_set("events", 1, "withheld", ["messages"]), "messages is withheld here"),
        (_set("events", 1, "withheld", 7), "withheld"),
        (_nest, "the exported run is too large"),
    ],
)
def test_what_no_export_is_is_refused_with_its_place(
    served: Serving, key: str, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    given = copy.deepcopy(exported(served, completion(served), key))
    change(given)
    before = len(served.ask("GET", "/v1/runs?limit=100&kind=imported").body["data"])
    answer = imported(served, given, key)
    assert (answer.status, said in answer.error["message"]) == (400, True), answer.text
    assert len(served.ask("GET", "/v1/runs?limit=100&kind=imported").body["data"]) == before


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "[" * 100_000, '{"a":' * 5_000, "\xff\xfe", '{"run": NaN}'])
def test_what_is_no_json_is_refused(served: Serving, key: str, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = served.ask("POST", "/v1/runs/import", key=key, data=body.encode("latin-1"), headers=headers)
    assert (answer.status, "cannot be imported" in answer.error["message"]) == (400, True), answer.text


@pytest.mark.full
def test_a_long_run_is_imported(served: Serving, key: str) -> None:
    """Of more values than the body of any other request may have."""
    given = exported(served, completion(served), key)
    (asked,) = [one for one in given["events"] if one["kind"] == "asked"][:1]
    ended = given["events"].pop()
    for seq in range(len(given["events"]) + 1, 5_000):
        given["events"].append({**asked, "seq": seq})
    given["events"].append({**ended, "seq": 5_000})
    assert len(json.dumps(given)) > 4_000_000
    headers, body = {"Content-Type": "application/json"}, io.BytesIO(json.dumps(given).encode())
    assert served.ask("POST", "/v1/runs/import", key=key, data=body, headers=headers).status == 200
