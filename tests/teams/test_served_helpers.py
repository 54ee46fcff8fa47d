"""Helpers of served agents: runs of their own, with nothing that a request took from their caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fakes.app_server import Serving
from fakes.until import until
from retinue import Agent, PromptModel, Tool
from retinue.harness import Harness
from retinue.server.context import Options

NOTED: list[str] = []
HELPERS = Harness(workspace=False, shell=False)


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    NOTED.clear()


def note(word: str) -> str:
    """Notes a word."""
    NOTED.append(word)
    return "noted"


def agent(script: Sequence[Any], tools: Sequence[Any] = (), **more: Any) -> Agent:
    tools = tools or [Tool("note", note, effects="once"), Tool("other", note, effects="once")]
    options: dict[str, Any] = {"strategy": "tool_calling", "harness": HELPERS, "name": "top", **more}
    return Agent(PromptModel(script=script, retries=0), tools, **options)


def task(description: str, **more: Any) -> dict[str, Any]:
    return {"tool": "task", "input": {"description": description, **more}}


CALLS = [f"call_1_{at}" for at in range(4)]
READ = [{"tool": "task_result", "input": {"helper": call}} for call in CALLS]
WORK = [
    {"when": r"^part (?=\d)", "call": {"tool": "note", "input": {"word": "w"}}},
    {"when": "^noted", "say": "found it"},
    {"when": "refused", "say": "found nothing"},
    {"when": "not a valid tool", "say": "found no tool"},
    {"when": "found", "say": "over"},
]
FOUR = [
    {"when": "^Go", "call": [task(f"part {at}", background=True) for at in range(4)]},
    {"when": "is at work", "call": READ},
    *WORK,
]

Served = Callable[[Agent], Serving]


@pytest.fixture
def served(tmp_path: Path, any_url: str) -> Iterator[Served]:
    open_now: list[Serving] = []

    def serve(top: Agent, **others: Agent) -> Serving:
        one = Serving(tmp_path, {"top": top, **others}, Options(), any_url)
        open_now.append(one)
        return one.__enter__()

    yield serve
    for one in open_now:
        one.__exit__(None, None, None)


def ask(server: Serving, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = server.ask("POST", "/v1/responses", {"model": "top", "input": "Go", **more}).body
    return found


def runs(server: Serving) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ask("GET", "/v1/runs?order=asc&limit=100").body["data"]
    return found


def helpers(server: Serving) -> list[dict[str, Any]]:
    return [one for one in runs(server) if one["kind"] == "member"]


def events(server: Serving, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ask("GET", f"/v1/runs/{run['id']}/events?limit=100").body["data"]
    return found


def seen(server: Serving, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one["data"]["observation"] for one in events(server, run) if one["type"] == "observed"]


def test_helpers_in_the_background_have_runs_below_their_caller(served: Served) -> None:
    server = served(agent(FOUR))
    done = ask(server)
    assert (done["status"], NOTED) == ("completed", ["w"] * 4), done
    top = next(one for one in runs(server) if one["kind"] != "member")
    assert {(one["model"], one["status"], one["parent_run_id"]) for one in helpers(server)} == {
        ("top/task", "completed", top["id"])
    }
    assert sorted(one["call_id"] for one in helpers(server)) == CALLS


GONE = {"type": "mcp", "server_label": "top", "server_url": "", "allowed_tools": ["other", "task", "task_result"]}
CLIENTS = {"type": "function", "name": "client_side", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("asked", "tools", "said"),
    [
        (task("part 0"), [GONE], "found no tool"),
        (task("part 0", tools=["note"]), [GONE], "'note' is none of your tools that a helper can have"),
        (task("part 0", tools=["client_side"]), [CLIENTS], "'client_side' is none of your tools"),
        (task("part 0", agent="stranger"), [], "'stranger' is no agent among your tools"),
    ],
)
def test_a_helper_has_nothing_that_the_request_took(
    served: Served, asked: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], said: str
) -> None:
    script = [{"when": "^Go", "call": asked}, *WORK, {"when": "not valid", "say": "over"}]
    server = served(agent(script), stranger=agent([{"when": "", "say": "x"}], name="stranger"))  # type: ignore[call-arg]
    done = ask(server, tools=tools)
    assert (done["status"], NOTED) == ("completed", []), done
    top = next(one for one in runs(server) if one["kind"] != "member")
    assert said in seen(server, top)[0]["text"]


@pytest.mark.parametrize("background", [False, True])
def test_an_approval_that_the_request_asks_for_is_its_helpers_too(served: Served, background: bool) -> None:
    script = [
        {"when": "^Go", "call": task("part 0", background=background)},
        {"when": "is at work", "call": READ[:1] if not background else {**READ[0], "input": {"helper": "call_1_0"}}},
        *WORK,
    ]
    server = served(agent(script))
    rules = {"always": {"tool_names": ["note"]}}
    done = ask(server, tools=[{"type": "mcp", "server_label": "top", "server_url": "", "require_approval": rules}])
    assert NOTED == [], done
    (request,) = [one for one in done["output"] if one["type"] == "mcp_approval_request"]
    assert request["name"] == "note"
    given = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
    done = ask(server, input=[given], previous_response_id=done["id"])
    assert (done["status"], NOTED) == ("completed", ["w"]), done


def test_a_cancel_ends_them_and_an_answer_does(served: Served) -> None:
    gate = threading.Event()
    begun: list[str] = []

    def wait(word: str) -> str:
        """Waits."""
        begun.append(word)
        gate.wait(20)
        return "noted"

    tools = [Tool("note", wait, effects="read")]
    early = [FOUR[0], {"when": "is at work", "call": {"tool": "meet", "input": {"word": "a"}}}, *WORK]

    def meet(word: str) -> str:
        """Waits until all helpers are at work."""
        until(lambda: len(begun) == 4)
        return "found enough"

    server = served(agent(early, [*tools, Tool("meet", meet, effects="read")]))
    assert ask(server)["status"] == "completed"
    until(lambda: {one["status"] for one in helpers(server)} == {"cancelled"}, 5)
    top = next(one for one in runs(server) if one["kind"] != "member")
    said = [one["data"]["text"] for one in events(server, top) if one["type"] == "reported"]
    assert len(said) == 1
    assert said[0].startswith("cancelled helpers that were at work in the background: call_1_0")
    gate.set()


def test_the_list_is_in_the_events_of_the_run(served: Served) -> None:
    items = [{"text": "look", "status": "completed"}, {"text": "tell", "status": "in_progress"}]
    script = [{"when": "^Go", "call": {"tool": "write_todos", "input": {"items": items}}}, {"when": "", "say": "over"}]
    server = served(agent(script))
    ask(server)
    (top,) = runs(server)
    (listed,) = seen(server, top)
    assert listed["data"] == {"todos": items}
    assert listed["text"] == "The list has 2 items, 1 of them completed:\n[x] look\n[>] tell"
