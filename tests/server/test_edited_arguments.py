"""A person edits a call so that its arguments do not fit: whatever the API, the edit is refused where it is made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fakes.app_server import Answer, Serving
from retinue import Agent, Budget, Decision, PromptModel, StopReason, UsageError, tool
from retinue.core.events import Paused

PAID: list[float] = []
WRONG: Sequence[Any] = ({"amount": "lots"}, {}, {"amount": 1, "to": "me"}, {"amount": [1]}, {"sum": 1}, "lots")


@tool(approval=True)
def pay(amount: float) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return f"paid {amount}"


def agent(*tools: Any, call: Any = None) -> Agent:
    call = call or {"tool": "pay", "input": {"amount": 5}}
    script = [{"when": "paid|did not", "finish": "It is paid."}, {"when": "", "call": call}]
    name = "leader" if tools else "payer"
    return Agent(PromptModel(script=script), tools or [pay], name=name, strategy="tool_calling")


def leader() -> Agent:
    return agent(agent(), call={"tool": "payer", "input": {"query": "Pay"}})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("edits"), {"payer": agent(), "leader": leader()}) as server:
        yield server


Waiting = tuple[Callable[[Any], Answer], Callable[[Answer], str]]


def by_assistants(served: Serving, name: str) -> Waiting:
    who = served.ask("POST", "/v1/assistants", {"model": name}).body["id"]
    thread = {"messages": [{"role": "user", "content": "Pay"}]}
    run = served.ask("POST", "/v1/threads/runs", {"assistant_id": who, "thread": thread}).body
    path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
    while run["status"] in ("queued", "in_progress"):
        run = served.ask("GET", path).body
    (call,) = run["required_action"]["submit_tool_outputs"]["tool_calls"]

    def decide(said: Any) -> Answer:
        outputs = [{"tool_call_id": call["id"], "output": json.dumps(said)}]
        return served.ask("POST", f"{path}/submit_tool_outputs", {"tool_outputs": outputs, "stream": True})

    return decide, lambda answer: answer.text


def by_chat(served: Serving, name: str) -> Waiting:
    asked: list[Any] = [{"role": "user", "content": f"Pay, {len(PAID)}"}]
    said = served.ask("POST", "/v1/chat/completions", {"model": name, "messages": asked}).body
    message = said["choices"][0]["message"]

    def decide(said: Any) -> Answer:
        output = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": json.dumps(said)}
        return served.ask("POST", "/v1/chat/completions", {"model": name, "messages": [*asked, message, output]})

    return decide, lambda answer: str(answer.body["choices"][0]["message"]["content"])


def by_a2a(served: Serving, name: str) -> Waiting:
    def send(part: Any, **more: Any) -> Answer:
        message = {"messageId": "m" + str(id(part)), "role": "ROLE_USER", "parts": [part], **more}
        headers = {"A2A-Version": "1.0"}
        return served.ask("POST", f"/a2a/{name}/message:send", {"message": message}, headers=headers)

    task = send({"text": "Pay"}).body["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    return lambda said: send({"data": said}, taskId=task["id"]), lambda answer: answer.text


@pytest.mark.parametrize("begin", [by_assistants, by_chat, by_a2a])
@pytest.mark.parametrize("name", ["payer", "leader"])
def test_an_edit_that_does_not_fit_is_refused(served: Serving, begin: Callable[..., Waiting], name: str) -> None:
    PAID.clear()
    decide, text = begin(served, name)
    for wrong in WRONG:
        refused = decide({"decision": "edit", "arguments": wrong})
        assert refused.status == 400, (wrong, refused.text)
        assert "The edited arguments of pay are not valid" in refused.text
    assert PAID == []
    done = decide({"decision": "edit", "arguments": {"amount": 7}})
    assert done.status == 200, done.text
    assert "It is paid." in text(done)
    assert PAID == [7]


def test_in_the_library_a_person_is_asked_again_and_told_why() -> None:
    PAID.clear()
    asked: list[str] = []
    answers = [Decision("edit", one) for one in ({"amount": "lots"}, {}, {"amount": 7})]

    def human(action: Any, problem: str) -> Decision:
        asked.append(problem)
        return answers[len(asked) - 1]

    for one in (agent(), leader()):
        PAID.clear()
        asked.clear()
        one.human = human
        assert (one.run("Pay").answer, PAID) == ("It is paid.", [7])
        assert [len(problem) > 60 and "amount" in problem for problem in asked] == [False, True, True]


def test_a_program_that_never_fits_parks_the_run() -> None:
    PAID.clear()
    one = agent()
    one.human = lambda action, problem: Decision("edit", {"amount": "lots"})
    parked = one.run("Pay")
    assert (parked.stop_reason, PAID) == (StopReason.AWAITING_HUMAN, [])
    one.human = None
    with pytest.raises(UsageError, match=r"decisions: call_1_0: the edited input of pay is not valid: amount"):
        one.resume(parked.events, {"call_1_0": Decision("edit", {"amount": "lots"})})
    assert one.resume(parked.events, {"call_1_0": Decision("edit", {"amount": 7})}).answer == "It is paid."
    assert sum(isinstance(event, Paused) for event in parked.events) == 1
    assert PAID == [7]


def test_a_member_s_call_waits_on() -> None:
    PAID.clear()
    top = leader()
    parked = top.run("Pay")
    (call,) = parked.waiting
    edits = [Decision("edit", {"amount": "lots"}), Decision("edit", {"amount": 7})]
    again = top.resume(parked.events, {call.id: edits[0]}, children=parked.children, budget=Budget())
    assert (again.stop_reason, PAID) == (StopReason.AWAITING_HUMAN, [])
    assert top.resume(again.events, {call.id: edits[1]}, children=again.children).answer == "It is paid."
    assert PAID == [7]
