"""Groups behind `retinue serve`: asked as models, with people at their gates, and through deaths of the process."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import openai
import pytest

from chaos.points import names
from fakes.served import Served, serving
from fakes.until import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the SDK calls its assistants so
LEDGER = """
from pathlib import Path

from retinue import idempotency_key


def write(role):
    with Path(__file__).with_name("ledger.txt").open("a") as file:
        file.write(f"{role} {idempotency_key()}\\n")
    return role


def plan(question: str) -> str:
    return write("plan")


def left(plan: str) -> str:
    return write("left")


def right(plan: str) -> str:
    return write("right")


def join(left: str, right: str, visits: dict) -> str:
    return write("join") + str(visits["join"])


def publish(join: str) -> str:
    return write("publish") + " " + join


def should_continue(state: dict) -> str:
    return "plan" if state["visits"]["join"] < 2 else "gate"
"""
FILE = """\
groups:
  - name: team
    answer: publish
    roles:
      - {name: plan, callable_api: "ledger.py:plan", effects: idempotent}
      - {name: left, callable_api: "ledger.py:left", effects: idempotent}
      - {name: right, callable_api: "ledger.py:right", effects: idempotent}
      - {name: join, callable_api: "ledger.py:join", effects: idempotent}
      - {name: gate, human: {shows: join, question: "Publish it?"}}
      - {name: publish, callable_api: "ledger.py:publish", effects: idempotent}
    edges:
      - {head: START, tail: plan}
      - {head: plan, tail: left}
      - {head: plan, tail: right}
      - {head: left, tail: join}
      - {head: right, tail: join}
      - {head: gate, tail: publish}
      - {head: publish, tail: END}
    conditional_edges:
      - {head: join, tails: [plan, gate], selector: {function: "ledger.py:should_continue"}}
chains:
  - name: shout
    steps:
      - {name: upper, callable_api: "upper.py:upper"}
"""
VISITS = {"plan": 2, "left": 2, "right": 2, "join": 2, "publish": 1}

QUICK = ["", "after intent:1", "after intent:3", "after intent:6", "before event:9"]
WITH_CLIENT = ("after run is made", "after decision", "before decision")  # the client's request dies, too
ALL = [f"{point}:{passage}" for point in names() if point not in WITH_CLIENT for passage in (1, 4, 10)]
DEATHS = [*QUICK, *(pytest.param(one, marks=pytest.mark.full) for one in ALL if one not in QUICK)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ledger.py").write_text(LEDGER)
    (tmp_path / "upper.py").write_text("def upper(text: str) -> str:\n    return text.upper()\n")
    return tmp_path


def done_in(folder: Path) -> Counter[str]:
    """How many different calls of each role had effects."""
    lines = (folder / "ledger.txt").read_text().splitlines()
    return Counter(line.split()[0] for line in dict.fromkeys(lines))


def begin(server: Served) -> tuple[str, str]:
    with server.client() as client:
        who = client.beta.assistants.create(model="team")
        thread = client.beta.threads.create(messages=[{"role": "user", "content": "q"}])
        return client.beta.threads.runs.create(thread.id, assistant_id=who.id).id, thread.id


def rested(server: Served, run: str, thread: str) -> Any:
    """The run once it waits or has ended. The server is started again whenever it dies."""

    def look() -> Any:
        if server.process.poll() is not None:
            server.kill()  # which it was; what it said is read to its end
            server.restart()
        try:
            with server.client() as client:
                found = client.beta.threads.runs.retrieve(run, thread_id=thread)
        except openai.APIConnectionError:
            return None
        return found if found.status not in ("queued", "in_progress") else None

    return until(look)


def approve(server: Served, run: Any) -> None:
    (call,) = run.required_action.submit_tool_outputs.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("gate", {"input": "join2"})
    with server.client() as client:
        outputs: Any = [{"tool_call_id": call.id, "output": "approve"}]
        client.beta.threads.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=outputs)


def test_a_group_and_a_chain_are_models(folder: Path) -> None:
    with serving(folder, FILE) as server, server.client() as client:
        assert {model.id for model in client.models.list()} >= {"team", "shout"}
        asked: Any = [{"role": "user", "content": "hello"}]
        answer = client.chat.completions.create(model="shout", messages=asked)
        assert answer.choices[0].message.content == "HELLO"
        pieces = client.chat.completions.create(model="shout", messages=asked, stream=True)
        assert "".join(one.choices[0].delta.content or "" for one in pieces if one.choices) == "HELLO"


@pytest.mark.full
@pytest.mark.parametrize("point", DEATHS)
def test_a_graph_goes_on_where_its_process_died_and_waits_at_its_gate(folder: Path, point: str) -> None:
    with serving(folder, FILE, env={}) as server:
        if point:
            server.stop()
            server.restart(RETINUE_CRASHPOINT=f"{point}:KILL")
        run, thread = begin(server)
        waits = rested(server, run, thread)
        assert waits.status == "requires_action", waits.last_error
        assert done_in(folder) == Counter({**VISITS, "publish": 0})
        server.kill()
        server.restart()
        approve(server, waits)
        ended = rested(server, run, thread)
        assert ended.status == "completed", ended.last_error
        assert done_in(folder) == Counter(VISITS)
        with server.client() as client:
            (answer, _) = client.beta.threads.messages.list(thread)
            assert answer.content[0].text.value == "publish join2"  # type: ignore[union-attr]


TALKING = """\
agents:
  - name: writer
    params:
      model: scripted
      script: [{when: "^draft", say: "a text"}, {when: "", call: {tool: note, input: "draft"}}]
      tools: {note: {callable_api: "notes.py:note", description: Take a note., approval: true}}
  - {name: critic, params: {model: scripted, script: [{say: "too short"}]}}
groups:
  - name: team
    roles:
      - {name: write, agent: writer}
      - {name: criticize, agent: critic, input: question}
      - {name: gate, human: {}}
      - {name: join, callable_api: "notes.py:join", effects: idempotent}
    edges:
      - {head: START, tail: write}
      - {head: START, tail: criticize}
      - {head: write, tail: join}
      - {head: criticize, tail: join}
      - {head: join, tail: gate}
      - {head: gate, tail: END}
"""
NOTES = """
def note(text: str) -> str:
    return text

def join(write: str, criticize: str) -> str:
    return f"{write}, {criticize}"
"""


def decide(server: Served, run: Any, decision: str = "approve") -> None:
    (call,) = run.required_action.submit_tool_outputs.tool_calls
    outputs: Any = [{"tool_call_id": call.id, "output": decision}]
    with server.client() as client:
        client.beta.threads.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=outputs)


def said(server: Served, thread: str) -> str:
    with server.client() as client:
        newest = next(iter(client.beta.threads.messages.list(thread)))
        return str(newest.content[0].text.value)  # type: ignore[union-attr]


def test_roles_that_are_agents_have_runs_of_their_own_and_ask_people(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(NOTES)
    with serving(tmp_path, TALKING) as server:
        run, thread = begin(server)
        waits = rested(server, run, thread)
        assert waits.required_action.submit_tool_outputs.tool_calls[0].function.name == "note"
        server.kill()
        server.restart()
        decide(server, waits)
        waits = rested(server, run, thread)
        assert waits.required_action.submit_tool_outputs.tool_calls[0].function.name == "gate"
        decide(server, waits)
        assert rested(server, run, thread).status == "completed"
        assert said(server, thread) == "a text, too short"


@pytest.mark.full
def test_a_run_goes_on_with_the_graph_that_it_began_with(folder: Path) -> None:
    with serving(folder, FILE) as server:
        run, thread = begin(server)
        waits = rested(server, run, thread)
        server.stop()
        changed = FILE.replace("head: gate, tail: publish", "head: gate, tail: left").replace(
            "[plan, gate]", "[plan, publish, gate]"
        )
        (folder / "agents.yml").write_text(changed)
        server.restart()
        approve(server, waits)
        assert rested(server, run, thread).status == "completed"
        assert (done_in(folder), said(server, thread)) == (Counter(VISITS), "publish join2")
