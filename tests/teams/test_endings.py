"""How a run ended, as each of its readers is told: one table of endings, and each reader held against the others.

What a run came to is its answer only if it ended with an answer. A draft that a person rejected, or that was not
finished, is nobody's answer, whoever asks: the library, the command line, a supervisor, each family of the API, A2A, or
a client of `retinue mcp`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client

from fakes.app_server import Answer, Serving
from fakes.said import Said
from fakes.until import until
from retinue import Agent, Budget, Decision, Executor, MessageGroup, PromptModel, StopReason, Tool, ToolError, tool
from retinue.cli.run_output import run_and_show
from retinue.core.events import Observed
from retinue.core.values import Reply
from retinue.mcp.mcp_server import build_server
from retinue.teams import END, START, HumanGate, When

DRAFT, BETTER = "An unfinished draft.", "A better text."
Made = Callable[[Any], Agent]


def fails(draft: str) -> str:
    raise ValueError("no luck")


def drafting(human: Any, **options: Any) -> MessageGroup:
    """A graph of which the first role writes the draft, which is to become the answer."""
    made = MessageGroup("graph", state={"draft": str}, answer="draft", human=human, **options)
    return made.add_role("write", lambda question: DRAFT, output="draft").add_edge(START, "write")


def gated(human: Any) -> Agent:
    made = drafting(human).add_role(HumanGate("check", shows="draft")).add_role("publish", lambda draft: draft.upper())
    return made.add_edge("write", "check").add_edge("check", "publish").add_edge("publish", END).compile()


def gated_last(human: Any) -> Agent:
    made = drafting(human).add_role(HumanGate("check", shows="draft"))
    return made.add_edge("write", "check").add_edge("check", END).compile()


def gated_branch(human: Any) -> Agent:
    """The gate's decision leads on: a rejection to the end."""
    made = drafting(human).add_role(HumanGate("check", shows="draft")).add_role("publish", lambda draft: draft.upper())
    ways = When([("check.decision == 'approve'", "publish")], END)
    made.add_conditional_edges("check", ["publish", END], ways)
    return made.add_edge("write", "check").add_edge("publish", END).compile()


def gated_again(human: Any) -> Agent:
    """The gate's rejection leads back, until the third."""
    made = drafting(human).add_role(HumanGate("check", shows="draft"))
    made.add_conditional_edges("check", ["write", END], When([("visits.write < 3", "write")], END))
    return made.add_edge("write", "check").compile()


def gated_error(human: Any) -> Agent:
    """The gate's failure leads to the end."""
    made = drafting(human).add_role(HumanGate("check", shows="draft"))
    return made.add_edge("write", "check").add_edge("check", END).add_edge("check", END, on_error=True).compile()


def failing(human: Any) -> Agent:
    made = drafting(human).add_role("polish", fails, effects="read")
    return made.add_edge("write", "polish").add_edge("polish", END).compile()


def failing_to_the_end(human: Any) -> Agent:
    made = MessageGroup("graph").add_role("polish", lambda question: fails(question), effects="read")
    return made.add_edge(START, "polish").add_edge("polish", END).add_edge("polish", END, on_error=True).compile()


def circling(human: Any, **limits: int) -> Agent:
    made = drafting(human, **limits).add_role("review", lambda draft: "no")
    made.add_edge("write", "review").add_conditional_edges(
        "review", ["write", END], When([("review == 'yes'", END)], "write")
    )
    return made.compile()


def misled(human: Any) -> Agent:
    made = drafting(human).add_conditional_edges("write", [END], lambda state: "elsewhere")
    return made.compile()


def said(*replies: Reply, **more: Any) -> Agent:
    return Agent(Said([*replies] * 99), name="graph", strategy="tool_calling", **more)


def cut_member(human: Any) -> Agent:
    """A graph of which a member's reply is cut at its token limit."""
    made = MessageGroup("graph", answer="draft").add_role("write", said(Reply(DRAFT, finish="length")), output="draft")
    return made.add_edge(START, "write").add_edge("write", END).compile()


def cut(human: Any) -> Agent:
    return said(Reply(DRAFT, finish="length"))


def invalid(human: Any) -> Agent:
    return said(Reply(DRAFT), answer={"type": "object", "required": ["x"]})


def refused_plan(human: Any) -> Agent:
    script = [{"raw": f"1. {DRAFT}\n"}]
    return Agent(PromptModel(script=script), name="graph", strategy="humanInLoopPlanExec", human=human)


@tool(effects="read")
def look(at: str) -> str:
    """Looks."""
    return "the same"


def stagnated(human: Any) -> Agent:
    script = [{"when": "", "call": {"tool": "look", "input": {"at": "x"}}, "times": 3}, {"when": "", "finish": BETTER}]
    return Agent(PromptModel(script=script), [look], name="graph", strategy="react_json", budget=Budget(stale_steps=2))


@dataclass(frozen=True)
class Case:
    """How a run ends. `answer` is what it answers; otherwise `why` is said. `status` is that of its row, and `partly`
    says that what there is of its answer is shown, as incomplete."""

    made: Made
    decision: Decision | None
    reason: StopReason
    status: str
    answer: str = ""
    why: str = ""
    partly: bool = False


def edit(new: Any) -> Decision:
    return Decision("edit", new)


REJECT = Decision("reject", message="too dull")
ANSWER, ERROR, STEPS = StopReason.ANSWER, StopReason.ERROR, StopReason.MAX_ITERATION_EXCEEDED
REFUSED = "a person rejected it: too dull"
WRONG = "the edit has draught; want 'input' with the new text"
CASES = {
    "approved": Case(gated_last, Decision("approve"), ANSWER, "completed", DRAFT),
    "edited": Case(gated_last, edit({"input": BETTER}), ANSWER, "completed", BETTER),
    "edited by its field": Case(gated_last, edit({"draft": BETTER}), ANSWER, "completed", BETTER),
    "edited as a text": Case(gated_last, edit(BETTER), ANSWER, "completed", BETTER),
    "answered instead": Case(gated_last, Decision("respond", message=BETTER), ANSWER, "completed", BETTER),
    "rejected": Case(gated, REJECT, ERROR, "failed", why=REFUSED),
    "rejected last": Case(gated_last, REJECT, ERROR, "failed", why=REFUSED),
    "rejected by a branch": Case(gated_branch, REJECT, ERROR, "failed", why=REFUSED),
    "rejected again and again": Case(gated_again, REJECT, ERROR, "failed", why=REFUSED),
    "rejected by an edge for errors": Case(gated_error, REJECT, ERROR, "failed", why=REFUSED),
    "wrong edit": Case(gated, edit({"draught": BETTER}), ERROR, "failed", why=WRONG),
    "wrong edit, last": Case(gated_last, edit({"draught": BETTER}), ERROR, "failed", why=WRONG),
    "wrong edit, branch": Case(gated_branch, edit({"draught": BETTER}), ERROR, "failed", why=WRONG),
    "a role fails": Case(
        failing, None, ERROR, "failed", why="the role 'polish' failed: polish failed: ValueError: no luck"
    ),
    "a failure leads to the end": Case(failing_to_the_end, None, ERROR, "failed", why="ValueError: no luck"),
    "a role's limit": Case(lambda human: circling(human, max_visits=2), None, STEPS, "failed", why="(max_visits)"),
    "the graph's limit": Case(lambda human: circling(human, max_runs=3), None, STEPS, "failed", why="(max_runs)"),
    "a wrong way": Case(misled, None, ERROR, "failed", why="'elsewhere' was selected"),
    "a member's reply is cut": Case(cut_member, None, ERROR, "failed", why="cut at its token limit"),
    "a reply is cut": Case(cut, None, StopReason.REPLY_TRUNCATED, "incomplete", DRAFT, "cut at its token limit", True),
    "no valid answer": Case(invalid, None, StopReason.INVALID_ANSWER, "failed", why="this is not JSON"),
    "a refused plan": Case(refused_plan, REJECT, ERROR, "failed", why="no plan that a person agrees to"),
    "no actions": Case(lambda human: Executor([look], name="graph"), None, ERROR, "failed", why="this is not JSON"),
    "in circles": Case(stagnated, None, StopReason.STAGNATED, "completed", BETTER),
}
NAMES = {f"case_{at}": name for at, name in enumerate(CASES)}


class Told:
    """What a reader is told: the answer, what is there of one that is incomplete, and why there is none."""

    def __init__(self, answered: bool, text: str = "", why: str = "") -> None:
        self.answered, self.text, self.why = answered, text or "", why


def check(case: Case, told: Told) -> None:
    """Hold what a reader is told against the table."""
    assert told.answered == bool(case.answer and not case.partly)
    if told.answered:
        assert told.text == case.answer
        return
    assert case.why in told.why
    assert told.text.strip() == (case.answer if case.partly else "")
    if case.decision is not None:
        assert DRAFT not in told.why, "what a person rejected is not even the best so far"


def supervisor(member: Agent, name: str) -> Agent:
    """Asks its member, and then says that it is done."""
    call = {"tool": member.name, "input": {"query": "q"}}
    script = [{"when": "Go", "call": call}, {"when": "", "finish": "done"}]
    return Agent(PromptModel(script=script, retries=0), [member], name=name, strategy="tool_calling")


def human_of(case: Case) -> Any:
    return None if case.decision is None else lambda *_: case.decision


# ── in the library and on the command line ───────────────────────────────────────────────────────


@pytest.mark.parametrize("name", CASES)
def test_the_library_and_the_command_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES[name]
    agent = case.made(human_of(case))
    result = agent.run("q")
    assert (result.stop_reason, result.text) == (case.reason, case.answer)
    assert result.answered == bool(case.answer and not case.partly)
    assert case.why in str(result)
    assert result.answered or str(result).startswith(("no answer (", f"{DRAFT}\n(incomplete) ("))
    check(case, Told(result.answered, result.text, result.error))

    status = run_and_show(case.made(human_of(case)).start("q"))
    shown = capsys.readouterr().out
    assert status == (0 if result.answered else 1)
    assert (f"Answer: {case.answer}" in shown) == result.answered
    assert result.answered or f"Stopped: {case.reason}: " in shown

    called = Tool("ask", case.made(human_of(case)), "Asks.")
    if result.answered:
        assert called.run("q") == case.answer
    else:
        with pytest.raises(ToolError, match=re.escape(case.why)):
            called.run("q")

    done = supervisor(case.made(human_of(case)), "top").run("Go")
    (seen,) = [event.observation for event in done.events if isinstance(event, Observed)]
    assert (seen.outcome == "result") == result.answered  # otherwise failed, or unknown if it may have had effects
    assert seen.text == case.answer if result.answered else case.why in seen.text
    assert result.answered or case.partly or DRAFT not in seen.text or name == "a member's reply is cut"


@pytest.mark.anyio
async def test_a_client_of_retinue_mcp() -> None:
    for name, case in CASES.items():
        async with Client(build_server([case.made(human_of(case))])) as client:
            told = await client.call_tool("ask_graph", {"question": "q"})
        text = getattr(told.content[0], "text", "")
        assert told.is_error == (not case.answer or case.partly), name
        assert (case.why or case.answer) in text


# ── on a server ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    agents: dict[str, Agent] = {}
    for short, name in NAMES.items():
        agents[short] = CASES[name].made(None)
        agents[f"top_{short}"] = supervisor(CASES[name].made(None), f"top_{short}")
    with Serving(tmp_path_factory.mktemp("served"), agents) as server:
        yield server


def output_of(decision: Decision) -> str:
    """A decision, as a client submits it."""
    if decision.kind == "respond":
        return decision.message
    given = {"decision": decision.kind, "arguments": decision.tool_input, "message": decision.message}
    return json.dumps({name: value for name, value in given.items() if value})


def read_stream(answer: Answer) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def chat(served: Serving, model: str, decision: Decision | None) -> Told:
    messages: list[Any] = [{"role": "user", "content": "Go"}]
    for _ in range(9):
        said = served.ask("POST", "/v1/chat/completions", {"model": model, "messages": messages})
        if said.status != 200:
            return Told(False, "", said.error["message"])
        (choice,) = said.body["choices"]
        calls = choice["message"].get("tool_calls")
        if not calls:
            refused = choice["message"]["refusal"]
            why = "this is not JSON" if refused else "cut at its token limit" * (choice["finish_reason"] == "length")
            return Told(choice["finish_reason"] == "stop" and not refused, choice["message"]["content"] or "", why)
        assert decision is not None
        answers = [{"role": "tool", "tool_call_id": one["id"], "content": output_of(decision)} for one in calls]
        messages += [choice["message"], *answers]
    raise AssertionError("it asks for ever")


def chat_streamed(served: Serving, model: str, decision: Decision | None) -> Told:
    messages: list[Any] = [{"role": "user", "content": "Go"}]
    for _ in range(9):
        pieces = read_stream(
            served.ask("POST", "/v1/chat/completions", {"model": model, "messages": messages, "stream": True})
        )
        if "error" in pieces[-1]:
            assert not any(one["choices"][0]["finish_reason"] for one in pieces[:-1])
            return Told(False, "", pieces[-1]["error"]["message"])
        deltas = [one["choices"][0]["delta"] for one in pieces]
        calls = [call for one in deltas for call in one.get("tool_calls", ()) if call.get("id")]
        text = "".join(one.get("content") or "" for one in deltas)
        if not calls:
            finish, refused = pieces[-1]["choices"][0]["finish_reason"], any(one.get("refusal") for one in deltas)
            why = "this is not JSON" if refused else "cut at its token limit" * (finish == "length")
            return Told(finish == "stop" and not refused, text, why)
        assert decision is not None
        answers = [{"role": "tool", "tool_call_id": one["id"], "content": output_of(decision)} for one in calls]
        messages += [{"role": "assistant", "content": text, "tool_calls": calls}, *answers]
    raise AssertionError("it asks for ever")


def responses(served: Serving, model: str, decision: Decision | None, *, stream: bool = False) -> Told:
    given: Any = {"input": "Go"}
    for _ in range(9):
        answer = served.ask("POST", "/v1/responses", {"model": model, "stream": stream, **given})
        body = read_stream(answer)[-1]["response"] if stream else answer.body
        if "error" in body and set(body) == {"error"}:
            return Told(False, "", body["error"]["message"])
        waiting = [item for item in body["output"] if item["type"] == "mcp_approval_request"]
        if body["status"] != "completed" or not waiting:
            parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
            refused = [part for part in parts if part["type"] == "refusal"]
            why = (body["error"] or {}).get("message", "") + "this is not JSON" * bool(refused)
            why += "cut at its token limit" * bool(body["incomplete_details"])
            text = "".join(part["text"] for part in parts if part["type"] == "output_text")
            return Told(body["status"] == "completed" and not refused, text, why)
        assert decision is not None
        outputs = [
            {
                "type": "function_call_output",
                "call_id": f"call_{one['id'].partition('_')[2]}",
                "output": output_of(decision),
            }
            for one in waiting
        ]
        given = {"input": outputs, "previous_response_id": body["id"]}
    raise AssertionError("it asks for ever")


def responses_streamed(served: Serving, model: str, decision: Decision | None) -> Told:
    return responses(served, model, decision, stream=True)


def assisted(served: Serving, model: str, decision: Decision | None) -> tuple[Any, Told]:
    who = served.ask("POST", "/v1/assistants", {"model": model}).body["id"]
    thread = {"messages": [{"role": "user", "content": "Go"}]}
    run = served.ask("POST", "/v1/threads/runs", {"assistant_id": who, "thread": thread}).body
    path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
    while True:
        run = until(lambda: _rested(served.ask("GET", path).body))
        if run["status"] != "requires_action":
            break
        assert decision is not None
        calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        outputs = [{"tool_call_id": one["id"], "output": output_of(decision)} for one in calls]
        assert served.ask("POST", f"{path}/submit_tool_outputs", {"tool_outputs": outputs}).status == 200
    listed = served.ask("GET", f"/v1/threads/{run['thread_id']}/messages?run_id={run['id']}").body["data"]
    text = "".join(part["text"]["value"] for one in listed for part in one["content"])
    why = (run["last_error"] or {}).get("message", "") + "cut at its token limit" * bool(run["incomplete_details"])
    assert {one["status"] for one in listed} <= {"completed" if run["status"] == "completed" else "incomplete"}
    return run, Told(run["status"] == "completed", text, why)


def _rested(run: Any) -> Any:
    return run if run["status"] not in ("queued", "in_progress", "cancelling") else None


def assistants(served: Serving, model: str, decision: Decision | None) -> Told:
    run, told = assisted(served, model, decision)
    assert run["status"] == CASES[NAMES[model]].status
    return told


def a2a(served: Serving, model: str, decision: Decision | None) -> Told:
    message: Any = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Go"}]}
    for turn in range(9):
        said = served.ask(
            "POST", f"/a2a/{model}/message:send", {"message": message}, headers={"A2A-Version": "1.0"}
        ).body["task"]
        state, told = said["status"]["state"], said["status"].get("message", {"parts": [{"text": ""}]})
        if state != "TASK_STATE_INPUT_REQUIRED":
            text = "".join(part["text"] for one in said.get("artifacts", ()) for part in one["parts"])
            why = told["parts"][0]["text"].replace("incomplete (max_completion_tokens)", "cut at its token limit")
            return Told(state == "TASK_STATE_COMPLETED", text, why)
        assert decision is not None
        message = {
            **message,
            "messageId": f"m-{turn + 2}",
            "parts": [{"text": output_of(decision)}],
            "taskId": said["id"],
        }
    raise AssertionError("it asks for ever")


def supervised(served: Serving, model: str, decision: Decision | None) -> Told:
    """What the supervisor observes of its member."""
    run, _ = assisted(served, f"top_{model}", decision)
    assert run["status"] == "completed"
    log = served.ask("GET", f"/v1/runs/{run['id']}/events?limit=100").body["data"]
    (seen,) = [one["data"]["observation"] for one in log if one["type"] == "observed"]
    good, text = seen["outcome"] == "result", seen["text"]
    assert "so far" not in text  # as in the library
    begins = text.partition(" It begins: ")[2]
    return Told(good, text if good else begins if CASES[NAMES[model]].partly else "", text)


FAMILIES: Mapping[str, Callable[[Serving, str, Decision | None], Told]] = {
    one.__name__: one for one in (chat, chat_streamed, responses, responses_streamed, assistants, a2a, supervised)
}


_QUICK = ("chat_streamed", "responses", "assistants")


@pytest.mark.parametrize(
    "family", [one if one in _QUICK else pytest.param(one, marks=pytest.mark.full) for one in FAMILIES]
)
def test_a_server(served: Serving, family: str) -> None:
    def problem(short: str) -> str:
        try:
            check(CASES[NAMES[short]], FAMILIES[family](served, short, CASES[NAMES[short]].decision))
        except Exception as error:  # all cases are tried
            return f"{NAMES[short]}: {error!r:.600}"
        return ""

    with ThreadPoolExecutor(8) as pool:
        wrong = [one for one in pool.map(problem, NAMES) if one]
    assert not wrong, "\n".join(wrong)
