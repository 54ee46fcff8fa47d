"""`POST /v1/runs/{id}/replay`: whether the agent of today decides as the log says, without a model or a tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.looking import PROMPT, Windows, boss, completion, events_of, looking, paying, rested, seeing_key
from retinue import Agent, Budget, PromptModel, Tool
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import simple
from retinue.strategies.parsing.react_text import parse


def shouting(text: str) -> AgentAction | AgentFinish:
    """A parser that was changed: it reads another input."""
    decision = parse(text, [Tool("look", lambda place: place)]).decision
    return replace(decision, tool_input="ROME!") if isinstance(decision, AgentAction) else decision


def plain(text: str) -> AgentAction | AgentFinish:
    return parse(text, [Tool("look", lambda place: place)]).decision


def simply(windows: Windows, read: Any) -> Any:
    return looking(windows, strategy=simple("own", prompt=lambda inputs: str(inputs), parse=read))


@pytest.fixture(scope="module")
def windows() -> Windows:
    return Windows()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, windows: Windows) -> Iterator[Serving]:
    agents = {"looks": looking(windows), "pays": paying(windows), "boss": boss(windows)}
    with Serving(tmp_path_factory.mktemp("served"), agents) as serving:
        yield serving


def replayed(served: Serving, run_id: str, query: str = "", **more: Any) -> dict[str, Any]:
    answer = served.ask("POST", f"/v1/runs/{run_id}/replay{query}", **more)
    assert answer.status == 200, answer.text
    body: dict[str, Any] = answer.body
    return body


def test_a_run_agrees_and_nothing_is_asked_or_called(served: Serving, windows: Windows) -> None:
    run, key, seen = completion(served), seeing_key(served), len(windows.seen)
    before = events_of(served, run)
    found = replayed(served, run, key=key)
    assert (found["object"], found["run_id"], found["agrees"], found["differs"]) == ("run.replay", run, True, None)
    assert [(one["event"], one["step"]) for one in found["requests"]] == [(2, 1), (6, 2)]
    constraint = found["requests"][0]["constraint"]
    assert constraint["pattern"].startswith("root ::= ")
    assert constraint["schema"]["type"] == "object"
    assert found["requests"][0]["stop"] == ["Observation:"]
    assert len(windows.seen) == seen
    assert events_of(served, run) == before


def test_a_key_without_the_scope_sees_no_prompts_in_it(served: Serving) -> None:
    found = replayed(served, completion(served))
    assert found["withheld"] == ["constraint", "tools"]
    assert {str(one["constraint"]) for one in found["requests"]} == {"None"}


def test_a_changed_prompt_is_shown_to_whoever_may_see_it(tmp_path: Path, windows: Windows) -> None:
    with Serving(tmp_path, {"looks": looking(windows)}) as serving:
        run, key = completion(serving), seeing_key(serving)
    with Serving(tmp_path, {"looks": looking(windows, instructions="Be short.")}) as serving:
        found = replayed(serving, run, key=key)
        assert (found["agrees"], found["differs"]["event"], found["differs"]["step"]) == (False, 2, 1)
        assert PROMPT in found["differs"]["recorded"]
        assert "Be short." in found["differs"]["now"]
        hidden = replayed(serving, run)["differs"]
        assert (hidden["event"], hidden["recorded"], hidden["now"]) == (2, None, None)
        assert replayed(serving, run, "?stored=true")["agrees"]


def test_a_changed_parser_is_told_with_its_step(tmp_path: Path, windows: Windows) -> None:
    with Serving(tmp_path, {"looks": simply(windows, plain)}) as serving:
        run = completion(serving)
        assert replayed(serving, run)["agrees"]
    with Serving(tmp_path, {"looks": simply(windows, shouting)}) as serving:
        differs = replayed(serving, run)["differs"]
    assert differs == {"event": 4, "step": 1, "recorded": "calls look(Rome)", "now": "calls look(ROME!)"}


def test_a_team_is_replayed_member_by_member(served: Serving) -> None:
    found = replayed(served, completion(served, "boss"), "?members=true")
    assert (found["agrees"], [one["call_id"] for one in found["members"]]) == (True, ["call_1_0"])


def crowd(last: str) -> Agent:
    """An agent that calls its member 101 times at once; the member says `last` to the last of the questions."""
    member = Agent(PromptModel(script=[{"when": "q100", "say": last}, {"when": "", "say": "fine"}]), name="one")
    asked = [{"tool": "one", "input": {"query": f"q{at}"}} for at in range(101)]
    script = [{"when": "^Go", "call": asked}, {"when": "", "finish": "done"}]
    budget = Budget(children=200, total_steps=500)
    return Agent(PromptModel(script=script), [member], name="crowd", strategy="tool_calling", budget=budget)


@pytest.mark.full
def test_of_many_members_the_last_is_replayed_too(tmp_path: Path) -> None:
    with Serving(tmp_path, {"crowd": crowd("fine")}) as serving:
        asked = {"model": "crowd", "messages": [{"role": "user", "content": "Go"}], "store": True}
        assert serving.ask("POST", "/v1/chat/completions", asked).status == 200
        run = str(serving.ask("GET", "/v1/runs?kind=chat&limit=1").body["data"][0]["id"])
        found = replayed(serving, run, "?members=true")
        assert (found["agrees"], len(found["members"])) == (True, 101)


def test_a_waiting_run_agrees_as_far_as_it_went(served: Serving) -> None:
    thread = served.ask("POST", "/v1/threads", {"messages": [{"role": "user", "content": "Pay"}]}).body["id"]
    assistant = served.ask("POST", "/v1/assistants", {"model": "pays"}).body["id"]
    run = served.ask("POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant}).body["id"]
    waiting = rested(served, run)
    (call,) = waiting["required_action"]["submit_tool_outputs"]["tool_calls"]
    assert (waiting["status"], call["waits_for"]) == ("requires_action", "person")
    assert replayed(served, run)["agrees"]


def test_a_fork_in_other_words_agrees(served: Serving) -> None:
    fork = served.ask("POST", f"/v1/runs/{completion(served)}/fork", {"instructions": "Be merry."}).body["id"]
    assert rested(served, fork)["status"] == "completed"
    assert replayed(served, fork)["agrees"]


def test_a_run_whose_agent_is_gone_says_so(tmp_path: Path, windows: Windows) -> None:
    with Serving(tmp_path, {"looks": looking(windows)}) as serving:
        run = completion(serving)
    with Serving(tmp_path, {"other": looking(windows, "other")}) as serving:
        answer = serving.ask("POST", f"/v1/runs/{run}/replay")
        assert (answer.status, "The model 'looks' does not exist" in answer.text) == (409, True)
        assert answer.headers["x-should-retry"] == "false"
