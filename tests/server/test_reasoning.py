"""A served agent on a model that wants its reasoning back: it gets it, and a client sees it only if it asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.engines import model
from fakes.looking import rested, seeing_key
from fakes.openai_server import Answer, OpenAIServer
from fakes.pictures import data_url, png
from fakes.reasoning_server import reasoning_server
from fakes.tenants import Customer
from fakes.vendors import VendorServer
from models.test_vendor_rules import HAVE, add as vendor_add, look as vendor_look, model as vendor_model, refusals_of
from retinue import Agent, PromptModel, Tool
from retinue.testing import SCRIPT

WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"location": {"type": "string"}}}}
CHAT_TOOL = {"type": "function", "function": WEATHER}
RESPONSE_TOOL = {"type": "function", **WEATHER}
QUESTION = "How is it?"


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture(scope="module")
def thinker() -> Iterator[OpenAIServer]:
    with reasoning_server() as server:
        yield server


@pytest.fixture(scope="module")
def other() -> Iterator[OpenAIServer]:
    """A model of another vendor."""
    with OpenAIServer() as server:
        server.always = lambda request: Answer(
            "It is three.", calls=[] if len(server.asked) > 1 else [("add", {"a": 1, "b": 2})]
        )
        yield server


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def served(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    thinker: OpenAIServer,
    other: OpenAIServer,
) -> Iterator[Serving]:
    url = request.getfixturevalue("a_postgres").database() if request.param == "postgresql" else ""
    adding = Tool("add", add, effects="read")
    foreign = PromptModel("maker/model", engine="openai", base_url=other.url, api_key="k", dialect="openai")
    agents = {
        "thinks": Agent(model(thinker), [adding], name="thinks", strategy="tool_calling"),
        "plain": Agent(model(thinker), name="plain", strategy="tool_calling"),
        "sees": Agent(model(thinker, sees=True), name="sees", strategy="tool_calling"),
        "other": Agent(foreign, [adding], name="other", strategy="tool_calling"),
    }
    with Serving(tmp_path_factory.mktemp("served"), agents, url=url) as serving:
        yield serving


def asked(served: Serving, path: str, **body: Any) -> Any:
    answer = served.ask("POST", f"/v1/{path}", {"model": "thinks", **body})
    assert answer.status == 200, answer.text
    if not body.get("stream"):
        return answer.body
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def chat(served: Serving, **more: Any) -> tuple[str, str, int]:
    """What a chat completion says, what it thought, and the tokens of that; whole or streamed."""
    given = {"messages": [user(QUESTION)], **more}
    if not more.get("stream"):
        whole = asked(served, "chat/completions", **given)
        message, used = whole["choices"][0]["message"], whole["usage"]
        return (
            message["content"],
            message.get("reasoning_content", ""),
            used["completion_tokens_details"]["reasoning_tokens"],
        )
    chunks = asked(served, "chat/completions", stream_options={"include_usage": True}, **given)
    deltas = [one["choices"][0]["delta"] for one in chunks if one["choices"]]
    said = ["".join(one.get(name) or "" for one in deltas) for name in ("content", "reasoning_content")]
    return said[0], said[1], chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"]


def thoughts(served: Serving, run_id: str) -> list[str]:
    return [one["data"]["reply"].get("reasoning", "") for one in events(served, run_id) if one["type"] == "replied"]


def events(served: Serving, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.ask("GET", f"/v1/runs/{run_id}/events?limit=1000").body["data"]
    return found


def last_run(served: Serving) -> str:
    return str(served.ask("GET", "/v1/runs?limit=1").body["data"][0]["id"])


def test_a_chat_client_sees_reasoning_only_if_it_asks(served: Serving) -> None:
    ways: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"include_reasoning": True}, True),
        ({"include_reasoning": False, "reasoning": {"effort": "low"}}, False),
        ({"reasoning": True}, True),
        ({"reasoning": False}, False),
        ({"reasoning": {}}, True),
        ({"reasoning": {"effort": "high"}}, True),
        ({"reasoning": {"enabled": False}}, False),
        ({"reasoning": {"effort": "high", "exclude": True}}, False),
        ({"reasoning_effort": "high"}, False),
    ]
    for way, asks in ways:
        for stream in (False, True):
            answer, seen, tokens = chat(served, stream=stream, **way)
            run = last_run(served)
            assert answer == "It is 3.", way
            assert seen == ("\n".join(thoughts(served, run)) if asks else ""), (way, stream)
            assert tokens == sum(len(one.split()) for one in thoughts(served, run))
            kept = [one["data"] for one in events(served, run) if one["type"] == "said"]
            assert any(one.get("reasoning") for one in kept) == (asks and stream), way
            streamed = "".join(one.get("reasoning", "") for one in kept)
            assert streamed in ("", "".join(thoughts(served, run)))


def test_effort_and_verbosity_reach_the_model_by_all_three_apis(served: Serving, thinker: OpenAIServer) -> None:
    thread = [user(QUESTION)]
    for path, body in (
        ("chat/completions", {"messages": thread, "reasoning_effort": "high", "verbosity": "low"}),
        ("chat/completions", {"messages": thread, "reasoning": {"effort": "high"}, "verbosity": "low"}),
        ("responses", {"input": QUESTION, "reasoning": {"effort": "high"}, "text": {"verbosity": "low"}}),
    ):
        asked(served, path, **body)
        sent = thinker.asked[-1].body
        assert (sent["reasoning_effort"], sent["verbosity"]) == ("high", "low"), path
    assistant = asked(served, "assistants", reasoning_effort="high")["id"]
    made = served.ask(
        "POST", "/v1/threads/runs", {"assistant_id": assistant, "stream": True, "thread": {"messages": thread}}
    )
    assert "thread.run.completed" in made.text
    assert "Thought" not in made.text
    assert thinker.asked[-1].body["reasoning_effort"] == "high"


def test_a_response_has_reasoning_items_if_its_request_asks_for_them(served: Serving) -> None:
    given: dict[str, Any] = {"input": QUESTION}
    plain = asked(served, "responses", **given)
    assert [one["type"] for one in plain["output"]] == ["message"]
    assert plain["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    sealed = asked(served, "responses", include=["reasoning.encrypted_content"], **given)
    assert [one["type"] for one in sealed["output"]] == ["reasoning", "reasoning", "message"]
    assert all(one["summary"] == [] and one["encrypted_content"] for one in sealed["output"][:2])
    for stream in (False, True):
        found = asked(served, "responses", stream=stream, reasoning={"summary": "auto"}, **given)
        response = found[-1]["response"] if stream else found
        items = [one for one in response["output"] if one["type"] == "reasoning"]
        said = thoughts(served, last_run(served))
        assert [one["summary"] for one in items] == [[{"type": "summary_text", "text": one}] for one in said]
        assert [one["encrypted_content"] for one in items] == [None, None]
        assert served.ask("GET", f"/v1/responses/{response['id']}").body["output"] == response["output"]
    first = [one["type"] for one in found if one.get("output_index") == 0]
    assert [name for at, name in enumerate(first) if name not in first[:at]] == [
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ]
    deltas = [one["delta"] for one in found if one["type"] == "response.reasoning_summary_text.delta"]
    assert "".join(deltas) == "".join(said)
    indices = [one["output_index"] for one in found if "output_index" in one]
    assert indices == sorted(indices)


# ── what the vendor wants back ───────────────────────────────────────────────────────────────────


def completion(served: Serving, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = asked(served, "chat/completions", messages=messages, tools=[CHAT_TOOL], **more)["choices"][
        0
    ]["message"]
    return found


@pytest.mark.parametrize("question", [QUESTION, "both, please"])
def test_a_chat_client_that_keeps_the_conversation_itself(
    served: Serving, thinker: OpenAIServer, question: str
) -> None:
    """It sends the calls without what their vendor wants back, to the run that waits and to later ones."""
    for agent in ("thinks", "plain"):
        messages: list[dict[str, Any]] = []
        for turn in range(3):
            messages.append(user(f"{question} ({turn})"))
            called = completion(served, messages, model=agent)
            messages.append(called)
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": "rain"} for one in called["tool_calls"]]
            messages.append(completion(served, messages, model=agent))
            assert messages[-1]["content"] == ("It is 3 and rain." if agent == "thinks" else "It is rain.")
        sent = thinker.asked[-1].body["messages"]
        assert sum(bool(one.get("tool_calls")) for one in sent) >= 3


def test_a_call_of_another_tenant_gives_nothing_away(served: Serving, thinker: OpenAIServer) -> None:
    called = completion(served, [user(QUESTION)], model="plain")
    messages = [
        user(QUESTION),
        called,
        {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "rain"},
    ]
    body = {"model": "plain", "messages": [*messages, user("Go on.")], "tools": [CHAT_TOOL]}
    refused = Customer(served, "stranger").ask("POST", "/v1/chat/completions", body)
    assert refused.status != 200
    assert "Thought" not in str(thinker.asked[-1].body)
    assert served.ask("POST", "/v1/chat/completions", body).status == 200
    assert "Thought" in str(thinker.asked[-1].body)


@pytest.mark.parametrize("question", [QUESTION, "both, please"])
@pytest.mark.parametrize("way", ["previous", "conversation", "stateless", "sealed"])
def test_responses_that_go_on(served: Serving, question: str, way: str) -> None:
    for agent in ("thinks", "plain"):
        common: dict[str, Any] = {
            "model": agent,
            "tools": [RESPONSE_TOOL],
            "store": way in ("previous", "conversation"),
        }
        if way == "sealed":
            common |= {"include": ["reasoning.encrypted_content", "mcp_call"], "reasoning": {"summary": "auto"}}
        if way == "conversation":
            common["conversation"] = served.ask("POST", "/v1/conversations", {}).body["id"]
        items: list[Any] = []
        last = None
        for turn in range(3):
            news: list[Any] = [user(f"{question} ({turn})")]
            for expected in ("function_call", "message"):
                items += news
                before: dict[str, Any] = {"previous_response_id": last} if way == "previous" and last else {}
                sent = news if way in ("previous", "conversation") else items
                response = asked(served, "responses", input=sent, **common, **before)
                last = response["id"]
                items += response["output"]
                assert response["output"][-1]["type"] == expected, response
                calls = [one["call_id"] for one in response["output"] if one["type"] == "function_call"]
                news = [{"type": "function_call_output", "call_id": one, "output": "rain"} for one in calls]
            text = response["output"][-1]["content"][0]["text"]
            assert text == ("It is 3 and rain." if agent == "thinks" else "It is rain.")


def test_a_picture_that_a_function_returned_stays_with_its_turn(served: Serving, thinker: OpenAIServer) -> None:
    items: list[Any] = []
    pictures = png(), png(color=b"\0\xff\0")
    for turn, picture in enumerate(pictures):
        items.append(user(f"{QUESTION} ({turn})"))
        for _ in range(2):
            response = asked(served, "responses", model="sees", input=items, tools=[RESPONSE_TOOL])
            items += response["output"]
            shown = [{"type": "input_image", "image_url": data_url(picture)}]
            calls = [one["call_id"] for one in response["output"] if one["type"] == "function_call"]
            items += [{"type": "function_call_output", "call_id": one, "output": shown} for one in calls]
        assert response["output"][-1]["type"] == "message"
    assert [data_url(one).encode() in thinker.asked[-1].raw for one in pictures] == [True, True]


@pytest.mark.parametrize("way", ["previous", "conversation", "stateless"])
def test_calls_of_the_servers_own_tools(served: Serving, thinker: OpenAIServer, way: str) -> None:
    """Their items are all that says of them; a client that keeps the conversation asks for these."""
    common: dict[str, Any] = {"include": ["mcp_call"]}
    if way == "conversation":
        common["conversation"] = served.ask("POST", "/v1/conversations", {}).body["id"]
    items: list[Any] = []
    for turn in range(3):
        items.append(user(f"{QUESTION} ({turn})"))
        response = asked(served, "responses", input=items if way == "stateless" else items[-1:], **common)
        items += response["output"]
        if way == "previous":
            common["previous_response_id"] = response["id"]
    sent = [one for one in thinker.asked[-1].body["messages"] if one.get("tool_calls")]
    assert len(sent) == 3
    assert len({one["reasoning_content"] for one in sent}) == 3


def test_a_thread_gives_earlier_calls_back_with_their_reasoning(served: Serving, thinker: OpenAIServer) -> None:
    assistant = asked(served, "assistants")["id"]
    thread = served.ask("POST", "/v1/threads", {}).body["id"]
    for turn in range(3):
        served.ask("POST", f"/v1/threads/{thread}/messages", user(f"{QUESTION} ({turn})"))
        ran = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant, "stream": True})
        assert "thread.run.completed" in ran.text, ran.text
    sent = [one for one in thinker.asked[-1].body["messages"] if one.get("tool_calls")]
    assert len(sent) == 3
    assert all(one["reasoning_content"] for one in sent)


def test_the_log_shows_how_much_is_kept_and_not_what(served: Serving) -> None:
    chat(served)
    run = last_run(served)
    states = [one["data"]["reply"].get("state") for one in events(served, run) if one["type"] == "replied"]
    assert states[-1] is None
    assert set(states[0]) == {"origin", "characters"}
    assert states[0]["characters"] > 0
    key = seeing_key(served)
    exported = served.ask("GET", f"/v1/runs/{run}/export", key=key)
    assert "reasoning_content" not in exported.text + served.ask("GET", f"/v1/runs/{run}/events", key=key).text
    imported = served.ask("POST", "/v1/runs/import", exported.body, key=key).body["id"]
    assert served.ask("POST", f"/v1/runs/{imported}/replay").body["agrees"]
    assert served.ask("POST", f"/v1/runs/{run}/replay").body["agrees"]


def test_a_later_run_says_no_more_of_it_than_the_first(served: Serving) -> None:
    """Its history has the turns of earlier runs."""
    called = completion(served, [user(QUESTION)], model="plain")
    answer = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "rain"}
    completion(served, [user(QUESTION), called, answer, {"role": "assistant", "content": "Rain."}, user("And now?")])
    shown = served.ask("GET", f"/v1/runs/{last_run(served)}/events", key=seeing_key(served))
    states = [one["state"] for one in shown.body["data"][0]["data"]["history"] if one.get("state")]
    assert [sorted(one) for one in states] == [["characters", "origin"]]
    assert "reasoning_content" not in shown.text


def test_other_agents_are_told_answers_alone(served: Serving) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": QUESTION}]}
    for way in ("send", "stream"):
        said = served.ask("POST", f"/a2a/thinks/message:{way}", {"message": message}, headers={"A2A-Version": "1.0"})
        assert said.status == 200, said.text
        assert "TASK_STATE_COMPLETED" in said.text, said.text
        assert "Thought" not in said.text, way


def test_a_fork_keeps_it_and_under_another_vendor_it_says_that_it_does_not(
    served: Serving, other: OpenAIServer
) -> None:
    chat(served)
    run = last_run(served)
    assert forked(served, run, step=1)["unsent"] == []
    found = forked(served, run, step=1, model="other")
    assert len(found["unsent"]) == 1
    assert not any(one.get("reasoning_content") for one in other.asked[-1].body["messages"])
    assert any(one["data"]["reply"].get("unsent") for one in events(served, found["id"]) if one["type"] == "replied")


def forked(served: Serving, run: str, **given: Any) -> dict[str, Any]:
    answer = served.ask("POST", f"/v1/runs/{run}/fork", given)
    assert answer.status == 200, answer.text
    found: dict[str, Any] = rested(served, answer.body["id"])
    assert found["status"] == "completed", found
    return found


# ── every vendor ─────────────────────────────────────────────────────────────────────────────────


LOOK = {"name": "look", "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}}


@pytest.mark.full
def test_every_vendor_gets_its_turns_back_in_later_requests(tmp_path: Path) -> None:
    """With two calls in a row and two at once, of which one is the client's, kept by the client and by the server."""
    wrong: dict[str, Any] = {}
    with ExitStack() as stack:
        vendors = {name: stack.enter_context(VendorServer(name)) for name in HAVE}
        agents = {
            f"{name} {owner}": Agent(
                vendor_model(vendor), [vendor_add] if owner == "shared" else [vendor_add, vendor_look],
                strategy="tool_calling", name=f"{name} {owner}",
            )
            for name, vendor in vendors.items()
            for owner in ("shared", "own")
        }  # fmt: skip
        served = stack.enter_context(Serving(tmp_path, agents))
        for name, vendor in vendors.items():
            for way in (chat_turns, partial(response_turns, way="previous"), partial(response_turns, way="stateless")):
                said = way(served, f"{name} shared")
                if not said.endswith(SCRIPT[-1].text) or refusals_of(vendor):
                    wrong[f"{name} {way}"] = said, refusals_of(vendor)
                if way is not chat_turns and (times := json.dumps(vendor.asked[-1].body).count(SCRIPT[1].text)) != 2:
                    wrong[f"{name} {way} says it"] = times
                vendor.refusals.clear()
            said = thread_turns(served, f"{name} own")
            if "thread.run.completed" not in said or refusals_of(vendor):
                wrong[f"{name} thread"] = refusals_of(vendor)
    assert wrong == {}


def chat_turns(served: Serving, agent: str) -> str:
    messages: list[dict[str, Any]] = []
    for turn in range(2):
        messages.append(user(f"{QUESTION} ({turn})"))
        for _ in range(3):
            body = {"model": agent, "messages": messages, "tools": [{"type": "function", "function": LOOK}]}
            answer = served.ask("POST", "/v1/chat/completions", body)
            if answer.status != 200:
                return answer.text
            messages.append(answer.body["choices"][0]["message"])
            calls = messages[-1].get("tool_calls", ())
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": "a town"} for one in calls]
            if not calls:
                break
    return str(messages[-1]["content"])


def response_turns(served: Serving, agent: str, way: str) -> str:
    items: list[Any] = []
    last = None
    for turn in range(2):
        news: list[Any] = [user(f"{QUESTION} ({turn})")]
        while news:
            items += news
            body: dict[str, Any] = {"model": agent, "tools": [{"type": "function", **LOOK}]}
            body |= {"input": news, "previous_response_id": last} if way == "previous" else {"input": items}
            answer = served.ask("POST", "/v1/responses", body)
            if answer.status != 200:
                return answer.text
            last = answer.body["id"]
            items += answer.body["output"]
            calls = [one["call_id"] for one in answer.body["output"] if one["type"] == "function_call"]
            news = [{"type": "function_call_output", "call_id": one, "output": "a town"} for one in calls]
    return str(answer.body["output"][-1]["content"][0]["text"])


def thread_turns(served: Serving, agent: str) -> str:
    assistant = asked(served, "assistants", model=agent)["id"]
    thread = served.ask("POST", "/v1/threads", {}).body["id"]
    for turn in range(2):
        served.ask("POST", f"/v1/threads/{thread}/messages", user(f"{QUESTION} ({turn})"))
        ran = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant, "stream": True})
    return ran.text
