"""A team that is served: each member has a run of its own in the database, below its caller's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.postgres import Postgres
from fakes.until import until
from retinue import Agent, Budget, PromptModel
from retinue.server.context import Options
from retinue.store.api_keys import create_key
from retinue.store.run_queries import delete_runs, old_runs

ASKED = {"query": "q"}
WAITING = ["requires_action"] * 2
NOTED: list[str] = []


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    NOTED.clear()


def note(word: str) -> str:
    """Notes a word."""
    NOTED.append(word)
    return "done"


def agent(name: str, script: Sequence[Mapping[str, Any]], tools: Sequence[Any] = (), **more: Any) -> Agent:
    return Agent(PromptModel(script=script, retries=0), tools, name=name, strategy="tool_calling", **more)


def caller(name: str, below: Sequence[Agent], said: str, **more: Any) -> Agent:
    """Asks all of those below at once, and then answers."""
    asked = [{"tool": one.name, "input": ASKED} for one in below]
    return agent(name, [{"when": "done|did not", "say": said}, {"when": "", "call": asked}], below, **more)


def worker(name: str, tool: Callable[..., Any] = note, **more: Any) -> Agent:
    call = {"tool": tool.__name__, "input": {"word": name}}
    return agent(name, [{"when": "done|refused", "say": f"done by {name}"}, {"when": "", "call": call}], [tool], **more)


def team(*workers: Agent, **more: Any) -> Agent:
    """Three levels: the top, two in the middle, and these."""
    middle = [caller(f"middle_{at}", [one], f"done in {at}") for at, one in enumerate(workers)]
    return caller("top", middle, "all done", **more)


@dataclass
class Place:
    """Where servers keep what they keep."""

    folder: Path
    url: str

    def serving(self, top: Agent) -> Serving:
        return Serving(self.folder, {"top": top}, Options(), self.url)


@pytest.fixture
def place(tmp_path: Path, any_url: str) -> Place:
    return Place(tmp_path, any_url)


def begun(served: Serving, **more: Any) -> dict[str, Any]:
    who = served.ask("POST", "/v1/assistants", {"model": "top"}).body["id"]
    thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Go"}]}).body["id"]
    run: dict[str, Any] = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": who, **more}).body
    return run


def now(served: Serving, run: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = served.ask("GET", f"/v1/threads/{run['thread_id']}/runs/{run['id']}").body
    return found


def rests(served: Serving, run: Mapping[str, Any]) -> dict[str, Any]:
    def rested() -> dict[str, Any] | None:
        found = now(served, run)
        return found if found["status"] not in ("queued", "in_progress", "cancelling") else None

    found = until(rested)
    assert found is not None
    return found


def below(served: Serving) -> list[dict[str, Any]]:
    """All members' runs, oldest first."""
    found: list[dict[str, Any]] = served.ask("GET", "/v1/runs?kind=member&order=asc&limit=100").body["data"]
    return found


def answer(served: Serving, run: Mapping[str, Any]) -> str:
    said = served.ask("GET", f"/v1/threads/{run['thread_id']}/messages").body["data"][0]
    return str(said["content"][0]["text"]["value"])


def test_every_member_has_a_run_below_its_callers(place: Place) -> None:
    with place.serving(team(worker("a"), worker("b"))) as served:
        run = rests(served, begun(served))
        assert (run["status"], answer(served, run)) == ("completed", "all done")
        members = below(served)
        assert sorted(one["model"] for one in members) == [
            "top/middle_0",
            "top/middle_0/a",
            "top/middle_1",
            "top/middle_1/b",
        ]
        assert {one["status"] for one in members} == {"completed"}
        assert {one["root_run_id"] for one in members} == {run["id"]}
        parents = {one["id"]: one["model"] for one in members} | {run["id"]: "top"}
        assert all(one["model"].rpartition("/")[0] == parents[one["parent_run_id"]] for one in members)
        top = served.ask("GET", f"/v1/runs?parent={run['id']}&order=asc").body["data"]
        assert sorted((one["model"], one["call_id"]) for one in top) == [
            ("top/middle_0", "call_1_0"),
            ("top/middle_1", "call_1_1"),
        ]
        assert sorted(NOTED) == ["a", "b"]
        own = sum(one["usage"]["total_tokens"] for one in members if "middle" in one["model"].rpartition("/")[2])
        assert run["usage"]["total_tokens"] > own > 0
        assert "middle_0" not in served.ask("GET", "/v1/models").text  # only the top is exposed


def test_chats_and_responses_of_a_team_are_those_of_its_top(place: Place) -> None:
    with place.serving(team(worker("a"), worker("b"))) as served:
        asked = {"model": "top", "messages": [{"role": "user", "content": "Go"}]}
        chat = served.ask("POST", "/v1/chat/completions", asked)
        assert chat.body["choices"][0]["message"]["content"] == "all done"
        streamed = served.ask("POST", "/v1/chat/completions", {**asked, "stream": True})
        assert "all" in streamed.text
        assert streamed.text.endswith("data: [DONE]\n\n")
        response = served.ask("POST", "/v1/responses", {"model": "top", "input": "Go"})
        assert response.body["status"] == "completed", response.body
        assert len(below(served)) == 12


@pytest.mark.parametrize("decision", ["approve", "reject", '{"decision": "edit", "arguments": {"word": "z"}}', "done"])
def test_a_members_question_is_its_callers_and_the_answer_reaches_it(place: Place, decision: str) -> None:
    asking = worker("a", require_human_feedback=True)
    with place.serving(team(asking, worker("b"))) as served:
        run = rests(served, begun(served))
        assert run["status"] == "requires_action"
        (call,) = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        assert (call["function"]["name"], call["function"]["arguments"]) == ("note", '{"word": "a"}')
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/submit_tool_outputs"
        wrong = served.ask("POST", path, {"tool_outputs": [{"tool_call_id": "call_1", "output": decision}]})
        assert wrong.status == 400
        given = {"tool_outputs": [{"tool_call_id": call["id"], "output": decision}]}
        assert served.ask("POST", path, given).status == 200
        assert served.ask("POST", path, given).status == 200  # sent again
        run = rests(served, run)
        assert (run["status"], answer(served, run)) == ("completed", "all done")
        noted = {"approve": ["a"], "reject": [], "done": []}.get(decision, ["z"])
        assert sorted(NOTED) == sorted([*noted, "b"])


def test_questions_of_several_members_are_asked_one_set_after_the_other(place: Place) -> None:
    """Those that a client was told do not change before it has answered them."""
    workers = [worker(name, require_human_feedback=True) for name in "ab"]
    with place.serving(team(*workers)) as served:
        run, answered = rests(served, begun(served)), 0
        until(lambda: [one["status"] for one in below(served) if one["model"][-2:] in ("/a", "/b")] == WAITING)
        while run["status"] == "requires_action":
            path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/submit_tool_outputs"
            outputs = [{"tool_call_id": one["id"], "output": "approve"} for one in calls_of(run)]
            answered += len(outputs)
            assert served.ask("POST", path, {"tool_outputs": outputs}).status == 200
            run = rests(served, run)
        assert (run["status"], answered) == ("completed", 2)
        assert sorted(NOTED) == ["a", "b"]


def calls_of(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    action = run["required_action"]
    return [] if action is None else list(action["submit_tool_outputs"]["tool_calls"])


def test_a_stream_goes_on_while_members_work_and_wait(place: Place) -> None:
    asking = worker("a", require_human_feedback=True)
    with place.serving(team(asking, worker("b"))) as served:
        who = served.ask("POST", "/v1/assistants", {"model": "top"}).body["id"]
        thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Go"}]}).body["id"]
        told = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": who, "stream": True})
        assert told.text.count("event: thread.run.requires_action") == 1, told.text
        run = rests(served, {"thread_id": thread, "id": below(served)[0]["root_run_id"]})
        path = f"/v1/threads/{thread}/runs/{run['id']}/submit_tool_outputs"
        outputs = [{"tool_call_id": one["id"], "output": "approve"} for one in calls_of(run)]
        told = served.ask("POST", path, {"tool_outputs": outputs, "stream": True})
        assert "event: thread.run.completed" in told.text


async def forever(word: str) -> str:
    """Never returns."""
    NOTED.append(word)
    await asyncio.sleep(3_600)
    return "done"


@pytest.mark.parametrize("waits", ["works", "asks"])
def test_no_member_outlives_a_cancel_of_the_top(place: Place, waits: str) -> None:
    one = worker("a", forever, **({} if waits == "works" else {"require_human_feedback": True}))
    with place.serving(team(one, worker("b", forever))) as served:
        run = begun(served)
        until(lambda: len(NOTED) == (2 if waits == "works" else 1) and (waits == "works" or calls_of(now(served, run))))
        cancelled = served.ask("POST", f"/v1/threads/{run['thread_id']}/runs/{run['id']}/cancel")
        assert cancelled.status == 200
        assert rests(served, run)["status"] == "cancelled"
        until(lambda: {one["status"] for one in below(served)} == {"cancelled"})
        until(lambda: not served.runs.here)


def test_a_question_that_nobody_answers_expires_with_the_run_at_the_top(tmp_path: Path) -> None:
    asking = worker("a", require_human_feedback=True)
    with Serving(tmp_path, {"top": team(asking, worker("b"))}, Options(human_ttl=1)) as served:
        run = begun(served)
        until(lambda: calls_of(now(served, run)))
        until(lambda: now(served, run)["status"] == "expired")
        until(lambda: sorted(one["status"] for one in below(served)) == ["cancelled"] * 2 + ["completed"] * 2)
        assert NOTED == ["b"]


def test_a_member_that_fails_is_an_observation_and_a_team_within_its_budget_ends(place: Place) -> None:
    lost = agent("lost", [{"when": "", "error": 500}])
    with place.serving(caller("top", [lost], "no answer")) as served:
        run = rests(served, begun(served))
        assert (run["status"], answer(served, run)) == ("completed", "no answer")
        assert [one["status"] for one in below(served)] == ["failed"]


def test_a_team_that_is_served_uses_no_more_than_its_top_was_given(place: Place) -> None:
    with place.serving(team(worker("a"), worker("b"), budget=Budget(depth=1))) as served:
        run = rests(served, begun(served))
        assert run["status"] == "completed"
        assert len(below(served)) == 2
        assert NOTED == []


def test_deleting_a_thread_deletes_the_runs_of_members(place: Place) -> None:
    with place.serving(team(worker("a"), worker("b"))) as served:
        run = rests(served, begun(served))
        assert len(below(served)) == 4
        served.ask("DELETE", f"/v1/threads/{run['thread_id']}")
        assert below(served) == []


def test_deleting_a_thread_ends_the_runs_of_members(place: Place) -> None:
    with place.serving(team(worker("a", forever), worker("b", forever))) as served:
        run = begun(served)
        until(lambda: len(NOTED) == 2)
        served.ask("DELETE", f"/v1/threads/{run['thread_id']}")
        until(lambda: not served.runs.here)
        assert below(served) == []


def test_old_runs_of_members_stay_as_long_as_their_callers(place: Place) -> None:
    with place.serving(team(worker("a", require_human_feedback=True), worker("b"))) as served:
        run = rests(served, begun(served))
        until(lambda: [one["status"] for one in below(served)].count("completed") == 2)
        old = partial(old_runs, before=2**40, unstored_before=2**40, most=100)
        assert served.in_loop(served.database.read(old)) == []
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/submit_tool_outputs"
        outputs = [{"tool_call_id": one["id"], "output": "approve"} for one in calls_of(run)]
        served.ask("POST", path, {"tool_outputs": outputs})
        assert rests(served, run)["status"] == "completed"
        assert sorted(NOTED) == ["a", "b"]
        found = served.in_loop(served.database.read(old))
        assert len(found) == 1
        served.in_loop(served.database.write(partial(delete_runs, run_ids=found)))
        assert below(served) == []


def test_a_foreign_tenant_sees_no_members(place: Place) -> None:
    with place.serving(team(worker("a"), worker("b"))) as served:
        rests(served, begun(served))
        member = below(served)[0]["id"]
        other = served.in_loop(served.database.write(partial(create_key, tenant="other")))
        assert served.ask("GET", f"/v1/runs/{member}", key=other).status == 404
        assert served.ask("GET", "/v1/runs", key=other).body["data"] == []


@pytest.mark.full
def test_two_servers_share_a_team(tmp_path: Path, a_postgres: Postgres) -> None:
    """Members are driven by either, whoever was asked; a person answers at the other one; nothing is done twice."""
    place = Place(tmp_path, a_postgres.database())
    asking = worker("a", require_human_feedback=True)
    top = team(asking, *(worker(name) for name in "bcdef"))
    with place.serving(top) as one, place.serving(top) as other:
        runs = [begun(one) for _ in range(4)]
        for run in runs:
            now_ = rests(other, run)
            path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/submit_tool_outputs"
            outputs = [{"tool_call_id": call["id"], "output": "approve"} for call in calls_of(now_)]
            assert other.ask("POST", path, {"tool_outputs": outputs}).status == 200
        assert [rests(one, run)["status"] for run in runs] == ["completed"] * 4
        assert sorted(NOTED) == sorted("abcdef" * 4)
        assert len(below(one)) == 4 * 12


@pytest.mark.parametrize("stream", [False, True])
def test_a_members_question_in_a_chat_completion_is_answered_there(place: Place, stream: bool) -> None:
    asking = worker("a", require_human_feedback=True)
    with place.serving(team(asking, worker("b"))) as served:
        said: list[Any] = [{"role": "user", "content": "Go"}]
        first = served.ask("POST", "/v1/chat/completions", {"model": "top", "messages": said}).body["choices"][0]
        assert first["finish_reason"] == "tool_calls", first
        (call,) = first["message"]["tool_calls"]
        said += [first["message"], {"role": "tool", "tool_call_id": call["id"], "content": "approve"}]
        asked = {"model": "top", "messages": said, "stream": stream}
        answer = served.ask("POST", "/v1/chat/completions", asked)
        told = answer.text if stream else answer.body["choices"][0]["message"]["content"]
        assert "all" in told
        assert "done" in told
        assert sorted(NOTED) == ["a", "b"]


def test_a_members_question_in_a_response_is_answered_there(place: Place) -> None:
    asking = worker("a", require_human_feedback=True)
    with place.serving(team(asking, worker("b"))) as served:
        first = served.ask("POST", "/v1/responses", {"model": "top", "input": "Go"}).body
        (request,) = [one for one in first["output"] if one["type"] == "mcp_approval_request"]
        assert (request["name"], json.loads(request["arguments"])) == ("note", {"word": "a"})
        given = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        more = {"model": "top", "input": [given], "previous_response_id": first["id"]}
        second = served.ask("POST", "/v1/responses", more).body
        assert second["output"][-1]["content"][0]["text"] == "all done", second
        assert sorted(NOTED) == ["a", "b"]
