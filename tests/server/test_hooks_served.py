"""Hooks of a served agent: each API tells its clients of a blocked run in its own words, and none shows what a hook may
still block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.app_server import KEY, Serving
from retinue import Agent, AskPerson, Block, Change, Hook, PromptModel, tool

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the SDK, for assistants
SECRET = "4111-1111"
PAID: list[str] = []


@tool(effects="once")
def pay(name: str) -> str:
    """Pay somebody."""
    PAID.append(name)
    return f"paid {name} from {SECRET}"


def agent(name: str, *hooks: Hook) -> Agent:
    script: list[dict[str, Any]] = [
        {"when": "is refused", "finish": f"Still {SECRET}"},
        {"when": "paid|withheld", "finish": "Done."},
        {"when": "Pay", "call": {"tool": "pay", "input": {"name": "Ada"}}},
        {"when": "", "finish": f"The card is {SECRET}"},
    ]
    return Agent(PromptModel(script=script), [pay], name=name, strategy="tool_calling", hooks=hooks)


def without(event: Any, context: Any) -> Any:
    answer = event.answer.replace(SECRET, "[card]").replace("Still", "The card is")
    return Change(replace(event, answer=answer)) if SECRET in event.answer else None


AGENTS = [
    agent("answers", Hook("before_answer", lambda e, c: Block("no cards") if SECRET in e.answer else None, "last")),
    agent("replies", Hook("after_model", lambda e, c: Block("no cards") if SECRET in e.reply.text else None, "out")),
    agent("questions", Hook("before_run", lambda e, c: Block("not today"), "gate")),
    agent("hides", Hook("before_answer", without, "hide")),
    agent("asks", Hook("after_tool", lambda e, c: AskPerson("a card"), "doubt")),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("hooks"), {one.name: one for one in AGENTS}) as server:
        yield server


@pytest.fixture
def client(served: Serving) -> Iterator[openai.OpenAI]:
    options: dict[str, Any] = {"base_url": f"{served.url}/v1", "api_key": KEY, "max_retries": 0}
    with openai.OpenAI(**options, _strict_response_validation=True) as client:
        yield client


BLOCKING = ["answers", "replies", "questions"]


@pytest.mark.parametrize("name", BLOCKING)
def test_chat_ends_as_content_filter_and_shows_nothing_of_it(client: openai.OpenAI, name: str) -> None:
    asked: Any = {"model": name, "messages": [{"role": "user", "content": "Which card?"}]}
    (choice,) = client.chat.completions.create(**asked).choices
    assert (choice.finish_reason, choice.message.content or "") == ("content_filter", "")
    chunks = list(client.chat.completions.create(**asked, stream=True, extra_body={"include_reasoning": True}))
    assert SECRET not in "".join(chunk.model_dump_json() for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "content_filter"
    reasoned = client.chat.completions.create(**asked, extra_body={"include_reasoning": True})
    assert SECRET not in reasoned.model_dump_json()


@pytest.mark.parametrize("name", BLOCKING)
def test_a_response_is_incomplete_for_content_filter(client: openai.OpenAI, name: str) -> None:
    response = client.responses.create(model=name, input="Which card?", reasoning={"summary": "auto"})
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "content_filter"
    assert SECRET not in response.model_dump_json()
    events = list(client.responses.create(model=name, input="Which card?", stream=True))
    assert SECRET not in "".join(event.model_dump_json() for event in events)
    assert events[-1].type == "response.incomplete"


def test_an_assistants_run_is_incomplete_and_its_thread_has_no_message(client: openai.OpenAI) -> None:
    made = client.beta.assistants.create(model="answers")
    thread = client.beta.threads.create(messages=[{"role": "user", "content": "Which card?"}])
    run = client.beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=made.id)
    assert run.status == "incomplete"
    assert [one.role for one in client.beta.threads.messages.list(thread.id)] == ["user"]


def test_a_changed_answer_is_all_that_any_client_sees(client: openai.OpenAI) -> None:
    asked: Any = {"model": "hides", "messages": [{"role": "user", "content": "Which card?"}]}
    extra = {"include_reasoning": True}
    whole = client.chat.completions.create(**asked, extra_body=extra)
    assert whole.choices[0].message.content == "The card is [card]"
    assert SECRET not in whole.model_dump_json()
    chunks = list(client.chat.completions.create(**asked, stream=True, extra_body=extra))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "The card is [card]"
    assert SECRET not in "".join(chunk.model_dump_json() for chunk in chunks)
    response = client.responses.create(model="hides", input="Which card?")
    assert response.output_text == "The card is [card]"


def test_what_a_hook_asks_waits_as_an_approval_and_may_be_edited(served: Serving, client: openai.OpenAI) -> None:
    PAID.clear()
    response = client.responses.create(model="asks", input="Pay Ada")
    asked = response.output[-1]
    assert asked.type == "mcp_approval_request"
    assert (asked.name, json.loads(asked.arguments)) == ("after_tool", {"text": f"paid Ada from {SECRET}"})
    approved: Any = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
    done = client.responses.create(model="asks", input=[approved], previous_response_id=response.id)
    assert (done.output_text, PAID) == ("Done.", ["Ada"])
    run = served.ask("GET", f"/v1/runs/run_{response.id.partition('_')[2]}")
    assert run.status == 200
    events = served.ask("GET", f"/v1/runs/run_{response.id.partition('_')[2]}/events").body["data"]
    kinds = [one["kind"] if "kind" in one else one["type"] for one in events]
    at = kinds.index("judged")
    assert kinds[at - 1 : at + 2] == ["called", "judged", "paused"]


def test_rejected_in_chat_the_model_is_told_that_it_is_withheld(client: openai.OpenAI) -> None:
    PAID.clear()
    messages: list[Any] = [{"role": "user", "content": "Pay Ada"}]
    first = client.chat.completions.create(model="asks", messages=messages).choices[0]
    assert first.message.tool_calls
    call = first.message.tool_calls[0]
    refusal = json.dumps({"decision": "reject", "message": "no"})
    messages += [first.message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": refusal}]
    last = client.chat.completions.create(model="asks", messages=messages).choices[0]
    assert (last.finish_reason, last.message.content, PAID) == ("stop", "Done.", ["Ada"])


def test_hooks_know_the_run_they_judge(tmp_path: Path) -> None:
    seen: list[Any] = []
    noting = agent("notes", Hook("before_run", lambda e, c: seen.append((c.run[:4], c.tenant, c.agent))))
    with Serving(tmp_path, {"notes": noting}) as server:
        server.ask("POST", "/v1/responses", {"model": "notes", "input": "Which card?"})
    assert seen == [("run_", "default", "notes")]
