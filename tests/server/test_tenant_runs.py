"""`/v1/runs`: any run of a tenant, by whatever API it came, is found, and its log is read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving, answering, with_run
from fakes.openai_server import OpenAIServer, failure
from fakes.tenants import WEATHER, Customer, agents
from fakes.until import until
from retinue import Agent, Budget, PromptModel, tool
from retinue.limits.rate import Bounds, KeyLimits
from retinue.store.event_log import read_events

PROMPT = "The secret of the house is nine."


@tool(effects="read")
def look(place: str) -> str:
    """Look at a place."""
    return f"In {place} it rains."


def boss() -> Agent:
    """The top of a team whose words cost 1 or 2 each."""
    price = {"input": 1_000_000, "output": 2_000_000}

    def priced(*script: Any) -> PromptModel:
        return PromptModel(script=list(script), price=price)

    looks = {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}}
    model = priced({"when": "In Rome", "say": "It rains."}, looks)
    looker = Agent(model, [look], name="looker", strategy="tool_calling")
    asks = {"when": "How is it", "call": {"tool": "looker", "input": {"query": "What of Rome?"}}}
    budget = Budget(cost=1_000)
    return Agent(
        priced(asks, {"when": "", "say": "Wet."}), [looker], name="boss", strategy="tool_calling", budget=budget
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    script = [
        {"when": "In Rome", "finish": "It rains."},
        {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}},
    ]
    deployed = {
        **agents(),
        "looks": Agent(PromptModel(script=script), [look], name="looks", strategy="tool_calling", instructions=PROMPT),
        "greets": answering("greets", *["Hello."] * 20),
        "boss": boss(),
    }
    with OpenAIServer() as refusing:
        refusing.replies += [failure(401)] * 20
        away = Agent(PromptModel("openai:m", base_url=refusing.url, api_key="k"), name="away")
        with Serving(tmp_path_factory.mktemp("served"), {**deployed, "away": away}) as server:
            yield server


def listed(who: Customer, **query: Any) -> list[str]:
    answer = who.ask("GET", "/v1/runs", params=query)
    assert answer.status == 200, answer.text
    return [run["id"] for run in answer.body["data"]]


def run_of(who: Customer, id_: str) -> str:
    """The run behind a completion or a response."""
    return f"run_{id_.partition('-')[2] or id_.partition('_')[2]}"


def completion(who: Customer, model: str = "greets", **more: Any) -> str:
    said = {"model": model, "messages": [{"role": "user", "content": "How is it?"}], **more}
    return run_of(who, who.made("/v1/chat/completions", said)["id"])


def log_of(who: Customer, run: str, limit: int = 100) -> list[dict[str, Any]]:
    """All events, page by page."""
    found: list[dict[str, Any]] = []
    more = True
    while more:
        query = {"after": found[-1]["id"] if found else "0", "limit": str(limit)}
        page = who.ask("GET", f"/v1/runs/{run}/events", params=query).body
        found += page["data"]
        more = page["has_more"]
    return found


def test_runs_of_all_apis_are_listed_newest_first_and_page_by_page(served: Serving) -> None:
    who = Customer(served, "lister")
    chat = completion(who)
    response = run_of(who, who.made("/v1/responses", {"model": "greets", "input": "Hi"})["id"])
    thread = who.made("/v1/threads", {"messages": [{"role": "user", "content": "What of the weather?"}]})["id"]
    assistant = who.made("/v1/assistants", {"model": "agent-1", "tools": [WEATHER]})["id"]
    on_thread = who.made(f"/v1/threads/{thread}/runs", {"assistant_id": assistant})["id"]
    assert listed(who) == [on_thread, response, chat]
    assert listed(who, order="asc", limit=2) == [chat, response]
    assert listed(who, after=response) == [chat]
    kinds = [(run["kind"], run["thread_id"]) for run in who.ask("GET", "/v1/runs").body["data"]]
    assert kinds == [("assistant", thread), ("response", None), ("chat", None)]
    until(lambda: who.ask("GET", f"/v1/runs/{on_thread}").body["status"] == "requires_action")
    assert listed(who, status="requires_action") == [on_thread]
    waiting = who.ask("GET", f"/v1/runs/{on_thread}").body
    calls = waiting["required_action"]["submit_tool_outputs"]["tool_calls"]
    assert [(call["function"]["name"], call["waits_for"]) for call in calls] == [("get_weather", "client")]


def test_a_list_has_the_runs_that_its_filters_name(served: Serving) -> None:
    who = Customer(served, "filterer")
    plain, marked = completion(who), completion(who, metadata={"team": "blue", "of": "x"}, store=True)
    failed = run_of(who, who.made("/v1/responses", {"model": "away", "input": "Hi", "background": True})["id"])
    until(lambda: who.ask("GET", f"/v1/runs/{failed}").body["status"] == "failed")
    at = who.ask("GET", f"/v1/runs/{plain}").body["created_at"]
    assert listed(who, status="failed") == listed(who, model="away") == listed(who, kind="response") == [failed]
    both = who.ask("GET", "/v1/runs?status=failed&status=completed").body["data"]
    assert [run["id"] for run in both] == [failed, marked, plain]
    assert listed(who, **{"metadata[team]": "blue"}) == [marked]
    assert listed(who, **{"metadata[team]": "blue", "metadata[of]": "y"}) == []
    assert listed(who, created_before=at) == listed(who, created_after=at + 3_600) == []
    assert listed(who, created_after=at - 1, created_before=at + 3_600) == [failed, marked, plain]


@pytest.mark.parametrize("query", ["status=sleeping", "kind=batch", "created_after=-1", "limit=101"])
def test_a_filter_that_says_nothing_is_refused(served: Serving, query: str) -> None:
    assert served.ask("GET", f"/v1/runs?{query}").status == 400


def test_a_run_is_read_with_its_steps_and_messages(served: Serving) -> None:
    who = Customer(served, "reader")
    read = who.ask("GET", f"/v1/runs/{completion(who, 'looks')}").body
    calls = [call for step in read["steps"] for call in step["calls"]]
    assert [(one["tool"], one["input"], one["output"], one["outcome"]) for one in calls] == [
        ("look", {"place": "Rome"}, "In Rome it rains.", "result")
    ]
    assert [(one["content"], one["status"]) for one in read["messages"]] == [("It rains.", "completed")]
    assert (read["status"], read["model"], read["last_error"]) == ("completed", "looks", None)
    assert read["usage"]["total_tokens"] > 0


def test_a_run_says_what_its_team_cost_where_its_models_have_prices(served: Serving) -> None:
    who = Customer(served, "payer")
    whole = who.ask("GET", f"/v1/runs/{completion(who, 'boss')}").body
    (inner,) = (run["id"] for run in who.ask("GET", "/v1/runs", params={"parent": whole["id"]}).body["data"])
    member = who.ask("GET", f"/v1/runs/{inner}").body
    assert (whole["status"], member["status"]) == ("completed", "completed")
    for run in (whole, member):
        assert run["usage"]["cost"] == run["usage"]["prompt_tokens"] + 2 * run["usage"]["completion_tokens"]
    assert 0 < member["usage"]["cost"] < whole["usage"]["cost"]
    assert "cost" not in who.ask("GET", f"/v1/runs/{completion(who, 'looks')}").body["usage"]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_the_log_is_read_from_any_event_on(served: Serving, limit: int) -> None:
    who = Customer(served, f"log-{limit}")
    log = log_of(who, completion(who, "looks"), limit)
    assert [event["id"] for event in log] == [str(number + 1) for number in range(len(log))]
    kinds = [event["type"] for event in log]
    assert kinds == ["started", "asked", "replied", "called", "observed", "asked", "replied", "finished"]
    assert log[-1]["data"]["answer"] == "It rains."


def test_prompts_and_addresses_stay_with_the_operator(served: Serving) -> None:
    who = Customer(served, "curious")
    texts = [str(log_of(who, completion(who, "looks")))]
    failed = run_of(who, who.made("/v1/responses", {"model": "away", "input": "Hi", "background": True})["id"])
    until(lambda: who.ask("GET", f"/v1/runs/{failed}").body["status"] == "failed")
    texts += [str(log_of(who, failed)), who.ask("GET", f"/v1/runs/{failed}").text]
    kept = served.in_loop(served.database.read(partial(read_events, run_id=failed)))
    assert "127.0.0.1" in kept[-1].event.detail
    for text in texts:
        assert PROMPT not in text
        assert "127.0.0.1" not in text
    last = log_of(who, failed)[-1]
    assert (last["type"], last["withheld"], last["data"]["code"]) == ("stopped", ["detail"], "model_refused")


@pytest.mark.parametrize("kind", ["chat", "response"])
def test_contents_that_are_not_to_be_stored_are_not_shown(served: Serving, kind: str) -> None:
    who = Customer(served, f"forgets-{kind}")
    if kind == "chat":
        run = completion(who, store=False)
    else:
        run = run_of(who, who.made("/v1/responses", {"model": "greets", "input": "Hi", "store": False})["id"])
    assert listed(who) == [run]
    read = who.ask("GET", f"/v1/runs/{run}").body
    assert (read["status"], read["steps"], read["messages"]) == ("completed", [], [])
    log = log_of(who, run)
    assert [event["data"] for event in log] == [{}] * len(log)
    assert "answer" in log[-1]["withheld"]


def test_a_response_that_was_deleted_is_not_shown_while_its_run_has_others(served: Serving) -> None:
    who = Customer(served, "deletes")
    asked = {
        "model": "agent-1",
        "input": "What of the weather?",
        "tools": [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}],
    }
    first = who.made("/v1/responses", asked)
    call = next(one for one in first["output"] if one["type"] == "function_call")
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "It rains."}
    who.made("/v1/responses", {"model": "agent-1", "previous_response_id": first["id"], "input": [output]})
    run = run_of(who, first["id"])
    before = {event["id"]: event for event in log_of(who, run)}
    assert who.ask("DELETE", f"/v1/responses/{first['id']}").status == 200
    after = {event["id"]: event for event in log_of(who, run)}
    gone = [id_ for id_, event in after.items() if not event["data"]]
    paused = next(id_ for id_, event in before.items() if event["type"] == "paused")
    assert gone == [str(number) for number in range(1, int(paused) + 2)]  # until it stopped to wait
    assert {id_: event for id_, event in after.items() if id_ not in gone} == {
        id_: event for id_, event in before.items() if id_ not in gone
    }


def test_a_run_that_is_not_there_is_not_found(served: Serving) -> None:
    for path in ("/v1/runs/run_0", "/v1/runs/run_0/events"):
        answer = served.ask("GET", path)
        assert (answer.status, answer.error["message"]) == (404, "No run found with id 'run_0'.")


def test_a_log_that_cannot_be_read_is_a_plain_error(tmp_path: Path) -> None:
    with Serving(tmp_path, limits=KeyLimits(Bounds(requests=100))) as served:
        _, run = with_run(served)
        failed, fine = served.ask("GET", f"/v1/runs/{run}/events"), served.ask("GET", "/v1/runs")
    assert (failed.status, failed.error["type"]) == (500, "server_error")
    assert "request id: req_" in failed.error["message"]
    assert [one.headers.get("x-ratelimit-limit-requests") for one in (failed, fine)] == [None, "100"]
