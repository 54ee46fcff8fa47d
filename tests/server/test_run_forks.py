"""`POST /v1/runs/{id}/fork`: a new run goes on from any step of another one, which stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.looking import PROMPT, SCRIPT, Windows, boss, completion, events_of, looking, paying, rested, seeing_key
from fakes.tenants import Customer
from retinue.core.events import Asked
from retinue.store.event_log import read_events
from retinue.store.memory_states import owner_of
from retinue.store.run_queries import find_run

SAYS = [{"when": "", "finish": "Another says so."}]
OTHER = [{"when": "In .* it", "finish": "Big."}, *SCRIPT[2:]]


@pytest.fixture(scope="module")
def windows() -> Windows:
    return Windows()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, windows: Windows) -> Iterator[Serving]:
    agents = {
        "looks": looking(windows),
        "pays": paying(windows),
        "boss": boss(windows),
        "bigger": looking(windows, "bigger", script=OTHER),
        "calls": looking(windows, "calls", script=SAYS, strategy="tool_calling"),
    }
    with Serving(tmp_path_factory.mktemp("served"), agents) as serving:
        yield serving


def forked(served: Serving, run_id: str, **given: Any) -> dict[str, Any]:
    answer = served.ask("POST", f"/v1/runs/{run_id}/fork", given)
    assert answer.status == 200, answer.text
    return rested(served, answer.body["id"])


def refused(served: Serving, run_id: str, **given: Any) -> str:
    answer = served.ask("POST", f"/v1/runs/{run_id}/fork", given)
    assert answer.status == 400, answer.text
    return str(answer.error["message"])


def prompts(served: Serving, run_id: str) -> list[Asked]:
    log = served.in_loop(served.database.read(lambda connection: read_events(connection, run_id)))
    return [entry.event for entry in log if isinstance(entry.event, Asked)]


def test_an_edited_observation_is_what_the_model_reads_and_nothing_is_called_again(
    served: Serving, windows: Windows
) -> None:
    run = completion(served)
    before, seen = events_of(served, run), len(windows.seen)
    fork = forked(served, run, observations={"call_1_0": "In Oslo it snows."}, metadata={"why": "trial"})
    assert fork["messages"][-1]["content"] == "It snows."
    assert "In Oslo it snows." in prompts(served, fork["id"])[-1].messages[-1].content
    assert fork["forked_from"] == {"run_id": run, "step": 1}
    assert (fork["kind"], fork["thread_id"], fork["metadata"]) == ("fork", None, {"why": "trial"})
    assert len(windows.seen) == seen
    assert events_of(served, run) == before
    assert served.ask("GET", f"/v1/runs/{run}").body["forked_from"] is None
    listed = served.ask("GET", f"/v1/runs?forked_from={run}").body["data"]
    assert [one["id"] for one in listed] == [fork["id"]]


def test_without_a_step_the_last_decision_is_made_again(served: Serving) -> None:
    fork = forked(served, completion(served))
    assert (fork["forked_from"]["step"], fork["status"]) == (1, "completed")
    assert fork["messages"][-1]["content"] == "It rains."


def test_from_step_0_everything_is_done_again(served: Serving, windows: Windows) -> None:
    run, seen = completion(served), len(windows.seen)
    assert forked(served, run, step=0)["status"] == "completed"
    assert len(windows.seen) == seen + 1


def test_new_instructions_stand_in_the_place_of_the_requests_and_before_the_agents(served: Serving) -> None:
    fork = forked(served, completion(served), instructions="Be merry.")
    assert fork["status"] == "completed"
    kept, new = prompts(served, fork["id"])
    assert "merry" not in str(kept)  # what was sent then
    assert new.messages[0].content == f"Be merry.\n\n{PROMPT}\n\n"
    assert (new.prompt, len(new.messages)) == (1, 4)  # told as a whole, since its beginning is other


def test_another_agent_goes_on_if_it_would_have_come_there(served: Serving) -> None:
    run = completion(served)
    fork = forked(served, run, model="bigger")
    assert (fork["model"], fork["messages"][-1]["content"]) == ("bigger", "Big.")
    assert "would not have come to that step" in refused(served, run, model="calls")


def test_a_fork_has_only_the_tools_that_it_is_left(served: Serving) -> None:
    fork = forked(served, completion(served), step=0, tools=[])
    assert "look: " not in str(prompts(served, fork["id"])[0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"step": 9}, "the run has no step 9: its last one is 2."),
        ({"step": 2}, "step 2 is the run's last, which ended it: fork it from step 0 to 1."),
        ({"observations": {"call_7_0": "x"}}, "the run has no call 'call_7_0'; its calls are call_1_0."),
        ({"observations": {"call_1_0": "x"}, "step": 0}, "the call call_1_0 is of step 1"),
        ({"tools": ["lok"]}, "The agent 'looks' has no tool 'lok'; did you mean 'look'?"),
        ({"model": "lookz"}, "The model 'lookz' does not exist; did you mean 'looks'?"),
    ],
)
def test_what_is_not_there_is_named(served: Serving, given: dict[str, Any], said: str) -> None:
    assert said in refused(served, completion(served), **given)


def test_a_fork_that_waits_is_answered_and_pays_once(served: Serving, windows: Windows) -> None:
    run = completion_of_waiting(served)
    fork = forked(served, run)
    assert fork["status"] == "requires_action"
    assert served.ask("GET", f"/v1/runs/{run}").body["status"] == "requires_action"
    (call,) = fork["required_action"]["submit_tool_outputs"]["tool_calls"]
    outputs = {"tool_outputs": [{"tool_call_id": call["id"], "output": "approve"}]}
    for _ in range(2):  # repeating it has no effect
        assert served.ask("POST", f"/v1/runs/{fork['id']}/submit_tool_outputs", outputs).status == 200
        assert rested(served, fork["id"])["status"] == "completed"
    assert windows.paid == [5]
    refork = forked(served, fork["id"], step=2)  # what was done stays done
    assert (refork["status"], refork["messages"][-1]["content"]) == ("completed", "Done.")
    assert windows.paid == [5]


def completion_of_waiting(served: Serving) -> str:
    thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Pay"}]}).body["id"]
    assistant = served.ask("POST", "/v1/assistants", {"model": "pays"}).body["id"]
    run = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant}).body["id"]
    assert rested(served, run)["status"] == "requires_action"
    return str(run)


def test_a_fork_of_a_run_on_a_thread_leaves_the_thread_alone(served: Serving) -> None:
    run = completion_of_waiting(served)
    thread = served.ask("GET", f"/v1/runs/{run}").body["thread_id"]
    fork = forked(served, run, observations={"call_2_0": "That is enough."})
    assert (fork["status"], fork["thread_id"], fork["messages"][-1]["content"]) == ("completed", None, "Done.")
    messages = served.ask("GET", f"/v1/threads/{thread}/messages").body["data"]
    assert all(one["run_id"] != fork["id"] for one in messages)
    assert served.ask("GET", f"/v1/threads/{thread}/runs/{fork['id']}").status == 404
    assert served.ask("GET", f"/v1/threads/{thread}/runs/{run}").body["status"] == "requires_action"


def test_a_fork_is_cancelled_and_leaves_the_other_run(served: Serving) -> None:
    run = completion_of_waiting(served)
    fork = forked(served, run)
    assert served.ask("POST", f"/v1/runs/{fork['id']}/cancel").body["status"] == "cancelled"
    assert served.ask("POST", f"/v1/runs/{fork['id']}/cancel").status == 400
    assert served.ask("GET", f"/v1/runs/{run}").body["status"] == "requires_action"


def test_a_members_run_is_forked_as_a_run_of_its_own(served: Serving) -> None:
    top = completion(served, "boss")
    (member,) = (one["id"] for one in served.ask("GET", f"/v1/runs?parent={top}").body["data"])
    fork = forked(served, member, observations={"call_1_0": "In Oslo it snows."})
    assert (fork["status"], fork["parent_run_id"], fork["root_run_id"]) == ("completed", None, None)
    assert fork["messages"][-1]["content"] == "It snows."


def test_what_is_not_shown_is_not_forked(served: Serving) -> None:
    asked = {"model": "looks", "input": "How is Rome?", "store": False}
    assert served.ask("POST", "/v1/responses", asked).status == 200
    run = served.ask("GET", "/v1/runs?kind=response&limit=1").body["data"][0]["id"]
    assert "its contents were deleted" in refused(served, run)
    for what, method in (("replay", "POST"), ("export", "GET")):
        assert served.ask(method, f"/v1/runs/{run}/{what}").status == 400


def test_a_fork_remembers_nothing_and_takes_a_place_of_its_key(served: Serving) -> None:
    key = seeing_key(served)
    run = completion(served, key=key)
    fork = served.ask("POST", f"/v1/runs/{run}/fork", {}, key=key).body
    row = served.in_loop(served.database.read(lambda connection: find_run(connection, fork["id"])))
    assert row.key_id is not None
    assert owner_of(row._replace(request={**row.request, "user": "u"})) is None


def test_another_tenants_run_is_not_there(served: Serving) -> None:
    run, other = completion(served), Customer(served, "other")
    for path in ("fork", "replay", "cancel"):
        answer = other.ask("POST", f"/v1/runs/{run}/{path}", {} if path == "fork" else None)
        unknown = other.ask("POST", f"/v1/runs/{'run_0'}/{path}", {} if path == "fork" else None)
        assert (answer.status, answer.text.replace(run, "run_0")) == (404, unknown.text)
    assert other.ask("GET", f"/v1/runs?forked_from={run}").body["data"] == []


def test_a_fork_survives_the_death_of_its_process(tmp_path: Path, windows: Windows) -> None:
    """Its row is there before it is driven, so whoever starts next drives it."""
    with Serving(tmp_path, {"looks": looking(windows)}) as serving:
        run = completion(serving)
        serving.runs.drives = False
        fork = serving.ask("POST", f"/v1/runs/{run}/fork", {"step": 0}).body
        assert fork["status"] == "queued"
    with Serving(tmp_path, {"looks": looking(windows)}) as serving:
        assert rested(serving, fork["id"])["status"] == "completed"


def test_a_fork_of_a_response_is_no_response(served: Serving) -> None:
    conversation = served.ask("POST", "/v1/conversations", {}).body["id"]
    asked = {"model": "looks", "input": "How is Rome?", "conversation": conversation}
    first = served.ask("POST", "/v1/responses", asked).body["id"]
    run = served.ask("GET", "/v1/runs?kind=response&limit=1").body["data"][0]["id"]
    items = served.ask("GET", f"/v1/conversations/{conversation}/items").body["data"]
    fork = forked(served, run, observations={"call_1_0": "In Oslo it snows."})
    assert (fork["kind"], fork["conversation_id"], fork["status"]) == ("fork", None, "completed")
    as_response = first.replace(run.removeprefix("run_"), fork["id"].removeprefix("run_"))
    assert as_response != first
    assert served.ask("GET", f"/v1/responses/{as_response}").status == 404
    onwards = {"model": "looks", "input": "And?", "previous_response_id": as_response}
    assert served.ask("POST", "/v1/responses", onwards).status == 400
    assert served.ask("GET", f"/v1/conversations/{conversation}/items").body["data"] == items
