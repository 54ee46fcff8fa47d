"""What `/v1/runs` says for the studio: questions and costs, searches, logs as they are written, and decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.studio_scenes import INSTRUCTIONS, add_long_run, agents, ask, new_key, rests
from fakes.until import until

QUESTION = "How old did Sarah Bernhardt get?"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served"), agents()) as server:
        yield server


def chat(served: Serving, key: str, text: str, model: str = "echo", **more: Any) -> str:
    said = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    made = served.ask("POST", "/v1/chat/completions", said, key=key)
    assert made.status == 200, made.text
    return "run_" + str(made.body["id"]).partition("-")[2]


def listed(served: Serving, key: str, **query: Any) -> list[dict[str, Any]]:
    answer = served.ask("GET", "/v1/runs", key=key, params={name: str(value) for name, value in query.items()})
    assert answer.status == 200, answer.text
    found: list[dict[str, Any]] = answer.body["data"]
    return found


def streamed(served: Serving, run: str, key: str, query: str = "", **more: Any) -> list[tuple[str, str, Any]]:
    """The events of a stream that ends, each with its id and name."""
    answer = served.ask("GET", f"/v1/runs/{run}/events?stream=true{query}", key=key, **more)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    *found, end = [dict(line.split(": ", 1) for line in one.split("\n")) for one in answer.text.strip().split("\n\n")]
    assert end == {"data": "[DONE]"}
    return [(one.get("id", ""), one["event"], json.loads(one["data"])) for one in found]


def test_a_list_has_questions_and_costs_if_wanted(served: Serving) -> None:
    key = new_key(served, tenant="figures")
    chat(served, key, QUESTION, "researcher", store=True)
    chat(served, key, 'Hi "there" \\ \u2028 ü')
    (second, first) = listed(served, key, figures="true")
    assert (first["question"], first["replies"], round(first["cost"], 6)) == (QUESTION, 4, 0.000954)
    assert (second["question"], second["replies"], second["cost"]) == ('Hi "there" \\ \u2028 ü', 1, None)
    assert "question" not in listed(served, key)[0]


@pytest.mark.parametrize("ending", ["", "\\", '"', "\u00fc", "\n", "\x01", "\U0001f600"])
def test_a_long_question_is_cut_where_no_character_breaks(served: Serving, ending: str) -> None:
    key = new_key(served, tenant=f"long{ord(ending or ' ')}")
    for length in range(1_980, 1_992):
        chat(served, key, "x" * length + ending * 20)
    for run in listed(served, key, figures="true"):
        assert run["question"].startswith("x" * 1_900)
        assert set(run["question"].replace("x", "")) <= {ending}


def test_questions_are_searched_whatever_their_case(served: Serving) -> None:
    key, other = new_key(served, tenant="seeker"), new_key(served, tenant="hider")
    runs = [chat(served, key, text, store=True) for text in ("Über Rom", "Über Oslo", "Rom 100%", "_")]
    chat(served, other, "Rom of another")
    assert [one["id"] for one in listed(served, key, q="ROM")] == [runs[2], runs[0]]
    assert [one["id"] for one in listed(served, key, q="über", limit=1, after=runs[1])] == [runs[0]]
    assert [one["id"] for one in listed(served, key, q="%")] == [runs[2]]
    assert [one["id"] for one in listed(served, key, q="_", model="echo")] == [runs[3]]
    assert listed(served, key, q="rom", model="researcher") == []
    page = served.ask("GET", "/v1/runs?q=rom&limit=1", key=key).body
    assert (page["has_more"], page["last_id"]) == (True, runs[2])
    refused = served.ask("GET", f"/v1/runs?q=rom&before={runs[0]}", key=key)
    assert (refused.status, refused.error["param"]) == (400, "before")


def test_a_search_finds_neither_prompts_nor_what_is_not_stored(served: Serving) -> None:
    key = new_key(served, "all", "prompts", tenant="prober")
    stored = chat(served, key, QUESTION, "researcher", store=True)
    said = {"model": "echo", "input": "Nobody may know.", "store": False}
    assert served.ask("POST", "/v1/responses", said, key=key).status == 200
    said = {"model": "echo", "input": "It is deleted.", "store": True}
    made = served.ask("POST", "/v1/responses", said, key=key).body["id"]
    assert served.ask("DELETE", f"/v1/responses/{made}", key=key).status == 200
    for words in (INSTRUCTIONS[:12], "nobody", "deleted", "tool_calling", "question"):
        assert listed(served, key, q=words) == []
    questions = [one["question"] for one in listed(served, key, figures="true")]
    assert questions == [None, QUESTION]
    assert [one["id"] for one in listed(served, key, q="bernhardt")] == [stored]


def test_members_are_left_out_if_wanted_and_runs_of_a_thread_are_listed(served: Serving) -> None:
    key = new_key(served, tenant="teams")
    top = ask(served, "newsroom", "Write a sentence.", key)
    assert rests(served, top, key) == "completed"
    assert [one["id"] for one in listed(served, key, members="false")] == [top]
    assert len(listed(served, key)) == 3
    thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Hi"}]}, key=key).body["id"]
    assistant = served.ask("POST", "/v1/assistants", {"model": "echo"}, key=key).body["id"]
    run = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant}, key=key).body["id"]
    assert [one["id"] for one in listed(served, key, thread=thread)] == [run]
    assert listed(served, new_key(served, tenant="other"), thread=thread) == []


def test_a_thousand_events_come_at_once(served: Serving) -> None:
    key = new_key(served, tenant="many")
    run = add_long_run(served, "many", 300)
    page = served.ask("GET", f"/v1/runs/{run}/events?limit=1000", key=key).body
    assert (len(page["data"]), page["has_more"]) == (1_000, True)
    rest = served.ask("GET", f"/v1/runs/{run}/events?limit=1000&after={page['last_id']}", key=key).body
    assert [one["type"] for one in rest["data"]][-1] == "finished"
    assert served.ask("GET", f"/v1/runs/{run}/events?limit=1001", key=key).status == 400
    row = served.ask("GET", f"/v1/runs/{run}?log=false", key=key).body
    assert ("steps" not in row, row["status"]) == (True, "completed")


def test_a_log_is_streamed_to_its_end_and_resumed(served: Serving) -> None:
    key = new_key(served, tenant="streams")
    run = chat(served, key, QUESTION, "researcher", store=True)
    whole = streamed(served, run, key)
    assert [name for _, name, _ in whole] == ["run", *["event"] * (len(whole) - 2), "run"]
    assert [one for _, name, one in whole if name == "event"] == served.ask(
        "GET", f"/v1/runs/{run}/events?limit=100", key=key
    ).body["data"]
    assert whole[-1][2]["status"] == "completed"
    assert streamed(served, run, key, "&after=3")[1:] == whole[4:]
    assert streamed(served, run, key, headers={"last-event-id": "3"})[1:] == whole[4:]
    assert streamed(served, run, key, headers={"last-event-id": "x"})[1:] == whole[1:]
    assert served.ask("GET", f"/v1/runs/{run}/events?stream=true", key=new_key(served, tenant="no")).status == 404


def test_a_stream_tells_what_is_said_while_it_is_said(served: Serving) -> None:
    key = new_key(served, tenant="live")
    run = ask(served, "slow", "Speak.", key)
    until(lambda: served.ask("GET", f"/v1/runs/{run}", key=key).body["status"] == "in_progress")

    def cancelled() -> None:
        assert served.ask("POST", f"/v1/runs/{run}/cancel", key=key).body["status"] in ("cancelling", "cancelled")

    said = served.in_loop(_read_until(served, run, key, '"type":"said"'))
    assert '"type":"started"' in said
    cancelled()
    assert rests(served, run, key) == "cancelled"
    assert served.ask("POST", f"/v1/runs/{run}/cancel", key=key).status == 400
    assert streamed(served, run, key)[-1][2]["status"] == "cancelled"


async def _read_until(served: Serving, run: str, key: str, word: str) -> str:
    import aiohttp

    read = ""
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session,
        session.get(f"{served.url}/v1/runs/{run}/events?stream=true") as answer,
    ):
        async for line in answer.content:
            read += line.decode()
            if word in read:
                break
    return read


def test_only_the_scope_prompts_shows_prompts(served: Serving) -> None:
    plain, operator = new_key(served, tenant="scoped"), new_key(served, "read", "prompts", tenant="scoped")
    run = chat(served, plain, QUESTION, "researcher", store=True)
    for key, sees in ((plain, False), (operator, True), (new_key(served, "all", tenant="scoped"), False)):
        text = served.ask("GET", f"/v1/runs/{run}/events?limit=100", key=key).text
        stream = served.ask("GET", f"/v1/runs/{run}/events?stream=true", key=key).text
        assert [INSTRUCTIONS in one for one in (text, stream)] == [sees, sees]
        assert served.ask("GET", "/v1/key", key=key).body["prompts"] is sees
        (asked, *_) = [one for _, _, one in streamed(served, run, key) if one.get("type") == "asked"]
        assert asked["withheld"] == ([] if sees else ["messages"])
    told = served.ask("GET", "/v1/key", key=operator).body
    assert (told["tenant"], told["scopes"]) == ("scoped", ["read", "prompts"])


def test_what_is_not_stored_is_not_streamed_to_anybody(served: Serving) -> None:
    key = new_key(served, "all", "prompts", tenant="unstored")
    said = {"model": "echo", "input": "Nobody may know.", "store": False}
    made = served.ask("POST", "/v1/responses", said, key=key).body["id"]
    events = streamed(served, f"run_{made.partition('_')[2]}", key)
    assert all(one["data"] == {} for _, name, one in events if name == "event")
    assert "Nobody" not in str(events)


@pytest.mark.parametrize("kind", ["chat", "response", "thread", "a2a"])
def test_a_run_of_any_api_is_decided_on(served: Serving, kind: str) -> None:
    key = new_key(served, tenant=f"decides-{kind}")
    run = waiting(served, kind, key)
    (call,) = served.ask("GET", f"/v1/runs/{run}", key=key).body["required_action"]["submit_tool_outputs"]["tool_calls"]
    answer = {"tool_outputs": [{"tool_call_id": call["id"], "output": "approve"}]}
    path = f"/v1/runs/{run}/submit_tool_outputs"
    assert served.ask("POST", path, answer, key=new_key(served, tenant="stranger")).status == 404
    assert (
        served.ask("POST", path, {"tool_outputs": [{"tool_call_id": "x", "output": "approve"}]}, key=key).status == 400
    )
    assert served.ask("POST", path, answer, key=key).status == 200
    assert served.ask("POST", path, answer, key=key).status == 200  # once more
    assert rests(served, run, key) == "completed"
    (step,) = served.ask("GET", f"/v1/runs/{run}", key=key).body["steps"]
    assert step["calls"][0]["output"] == "Sent to ada@example.org."
    if kind == "response":
        further = served.ask("GET", f"/v1/responses/resp_{run.partition('_')[2]}x1", key=key).body
        assert (further["status"], further["output"][-1]["content"][0]["text"]) == ("completed", "Ada was told.")
    if kind == "a2a":
        task = served.ask("GET", f"/a2a/clerk/tasks/{run}", key=key, headers={"A2A-Version": "1.0"}).body
        assert (task["status"]["state"], len(task["history"])) == ("TASK_STATE_COMPLETED", 2)


def waiting(served: Serving, kind: str, key: str) -> str:
    """A run that waits for approval, begun by this API."""
    text = "Tell Ada."
    if kind == "chat":
        run = chat(served, key, text, "clerk", store=True)
    elif kind == "response":
        run = ask(served, "clerk", text, key)
    elif kind == "a2a":
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
        headers = {"A2A-Version": "1.0"}
        sent = served.ask("POST", "/a2a/clerk/message:send", {"message": message}, key=key, headers=headers)
        assert sent.status == 200, sent.text
        run = sent.body["task"]["id"]
    else:
        said = {"messages": [{"role": "user", "content": text}]}
        thread = served.ask("POST", "/v1/threads", said, key=key).body["id"]
        assistant = served.ask("POST", "/v1/assistants", {"model": "clerk"}, key=key).body["id"]
        run = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant}, key=key).body["id"]
    assert rests(served, run, key) == "requires_action"
    return run


def test_a_members_call_is_decided_on_and_cancelled_at_the_top(served: Serving) -> None:
    key = new_key(served, tenant="members")
    top = ask(served, "office", "Tell Ada.", key)
    assert rests(served, top, key) == "requires_action"
    (member,) = listed(served, key, parent=top)
    refused = served.ask("POST", f"/v1/runs/{member['id']}/submit_tool_outputs", {"tool_outputs": []}, key=key)
    assert refused.status == 400
    refused = served.ask("POST", f"/v1/runs/{member['id']}/cancel", key=key)
    assert (refused.status, top in refused.text) == (400, True)
    assert served.ask("GET", f"/v1/runs/{member['id']}", key=key).body["status"] == "requires_action"
    (call,) = served.ask("GET", f"/v1/runs/{top}", key=key).body["required_action"]["submit_tool_outputs"]["tool_calls"]
    answer = {"tool_outputs": [{"tool_call_id": call["id"], "output": "approve"}]}
    assert served.ask("POST", f"/v1/runs/{top}/submit_tool_outputs", answer, key=key).status == 200
    until(lambda: served.ask("GET", f"/v1/runs/{top}", key=key).body["status"] == "completed")
