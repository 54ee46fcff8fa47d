"""Long conversations in each API: they go to their end with a small window, and what the user said first still holds.
The model looks only at its prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.test_context import ORDERS, Looker, Reader, check_answers, compacted, fact, look, script
from fakes.app_server import Answer, Serving
from retinue import Agent, Context, Hook
from retinue.core.events import Compacted
from retinue.store.api_keys import create_key
from retinue.store.event_log import read_events

Say = Callable[[str], str]


class Family:
    """A conversation in one API, by which a question is asked and answered."""

    def __init__(self, at: Serving, model: str = "reader", **asked: Any) -> None:
        self.at, self.asked = at, {"model": model, **asked}
        self.said: list[dict[str, str]] = []
        self.previous: str | None = None
        self.thread = ""

    def ask(self, path: str, body: dict[str, Any]) -> Answer:
        answer = self.at.ask("POST", f"/v1/{path}", body)
        assert answer.status == 200, answer.text
        return answer

    def chat(self, text: str) -> str:
        self.said.append({"role": "user", "content": text})
        body = self.ask("chat/completions", {"messages": self.said, **self.asked}).body
        self.said.append({"role": "assistant", "content": body["choices"][0]["message"]["content"]})
        return self.said[-1]["content"]

    def responses(self, text: str) -> str:
        more = {} if self.previous is None else {"previous_response_id": self.previous}
        body = self.ask("responses", {"input": text, **more, **self.asked}).body
        self.previous = body["id"]
        return str(body["output"][-1]["content"][0]["text"])

    def threads(self, text: str) -> str:
        if not self.thread:
            self.thread = self.ask("threads", {}).body["id"]
            self.asked = {"assistant_id": self.ask("assistants", self.asked).body["id"]}
        message = {"additional_messages": [{"role": "user", "content": text}], **self.asked}
        events = self.at.ask("POST", f"/v1/threads/{self.thread}/runs", {**message, "stream": True})
        assert "thread.run.completed" in events.text, events.text[-500:]
        shown = self.at.ask("GET", f"/v1/threads/{self.thread}/messages?limit=1").body["data"][0]
        return str(shown["content"][0]["text"]["value"])


@pytest.mark.parametrize("family", ["chat", "threads", "responses"])
def test_a_long_conversation_keeps_its_facts_and_orders(tmp_path: Path, family: str, full: bool) -> None:
    turns, window = (300, 20_000) if full else (70, 4_000)
    model = Reader(window)
    with Serving(tmp_path, {"reader": Agent(model, name="reader")}) as at:
        say: Say = getattr(Family(at), family)
        answers = [say(text) for text in script(turns, 4)]
    check_answers(answers)
    assert 2 <= model.summaries <= turns / 4, "a run begins from the last summary, and makes it not anew"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Serving, Reader]]:
    model = Reader(2_000)
    agents = {
        "reader": Agent(model, name="reader"),
        "judged": Agent(model, name="judged", hooks=[Hook("before_model", lambda event, context: None)]),
        "thrifty": Agent(Reader(2_000, fails=True), name="thrifty", context=Context(model=model)),
        "looker": Agent(Looker(8_000), [look], name="looker", max_steps=60, context=Context(summary=None)),
    }
    with Serving(tmp_path, agents) as at:
        yield at, model


def said(turns: int) -> list[dict[str, str]]:
    talk = [{"role": ("user", "assistant")[at % 2], "content": f"{at} {'word ' * 60}"} for at in range(2 * turns)]
    talk[0]["content"] += fact(3)
    talk[2]["content"] = f"{ORDERS[0]} {'word ' * 60}"
    return [*talk, {"role": "user", "content": "ROOM 3?"}]


def test_a_full_window_is_an_error_only_where_a_request_wants_that(served: tuple[Serving, Reader]) -> None:
    at, _ = served
    asked = {"model": "reader", "input": said(20)}
    refused = at.ask("POST", "/v1/responses", {**asked, "truncation": "disabled"})
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    for more in (
        {},
        {"truncation": "auto"},
        {"context_management": [{"type": "compaction"}], "truncation": "disabled"},
    ):
        body = at.ask("POST", "/v1/responses", {**asked, **more}).body
        assert body["output"][-1]["content"][0]["text"].startswith(f"{7919 * 4}"), more
    wrong = at.ask("POST", "/v1/responses", {**asked, "context_management": [{"type": "other"}]})
    assert wrong.status == 400


def events_of(at: Serving, answer: Answer) -> list[Compacted]:
    run_id = answer.body["id"].replace("resp_", "run_")
    with at.database.engine.connect() as connection:
        return compacted([entry.event for entry in read_events(connection, run_id)])


def test_a_request_says_from_where_on_it_is_compacted(served: tuple[Serving, Reader]) -> None:
    at, model = served
    model.window = 50_000
    asked = {"model": "reader", "input": said(40)}
    assert not events_of(at, at.ask("POST", "/v1/responses", asked))
    managed = {"context_management": [{"type": "compaction", "compact_threshold": 1_000}]}
    made = events_of(at, at.ask("POST", "/v1/responses", {**asked, **managed}))
    assert [one.tier for one in made] == ["summary"]


def test_a_compaction_item_is_a_summary(served: tuple[Serving, Reader]) -> None:
    at, model = served
    answer = at.ask("POST", "/v1/responses/compact", {"model": "reader", "input": said(20)})
    (item,) = answer.body["output"]
    assert answer.body["usage"]["total_tokens"] > 0
    model.asked.clear()
    body = at.ask("POST", "/v1/responses", {"model": "reader", "input": [item]}).body
    assert body["output"][-1]["content"][0]["text"] == f"{7919 * 4} [1 orders]"
    assert len(model.asked[-1].prompt.messages) < 20
    whole = at.ask("POST", "/v1/responses/compact", {"model": "judged", "input": said(20)}).body
    assert whole["usage"]["total_tokens"] == 0, "its hooks judge what its model is asked"
    made = at.ask("POST", "/v1/responses/compact", {"model": "thrifty", "input": said(20)}).body
    assert made["usage"]["total_tokens"] > 0, "the model of its context summarizes"


def test_a_long_result_is_read_in_full_by_its_owner_alone(served: tuple[Serving, Reader]) -> None:
    at, _ = served
    asked = at.ask("POST", "/v1/responses", {"model": "looker", "input": "Look!", "user": "kim"})
    run_id = asked.body["id"].replace("resp_", "run_")
    path = f"/v1/runs/{run_id}/results/call_1_0"
    found = at.ask("GET", path)
    assert (found.status, found.text) == (200, look(1))
    assert found.headers["Content-Type"].startswith("text/plain")
    assert at.ask("GET", f"/v1/runs/{run_id}/results/call_9_9").status == 404
    others: Sequence[dict[str, Any]] = ({"tenant": "other"}, {"tenant": "default", "user": "lee"})
    for more in others:
        key = at.in_loop(at.database.write(partial(create_key, **more)))
        assert at.ask("GET", path, key=key).status == 404
    assert at.ask("DELETE", f"/v1/responses/{asked.body['id']}").status == 200
    assert at.ask("GET", path).status == 404
