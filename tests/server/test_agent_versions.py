"""An agent is changed while its runs wait: they go on with what they began with, or wait on and say what changed."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from cli.test_ask import retinue
from fakes.openai_server import OpenAIServer
from fakes.served import Served, serving
from fakes.until import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenAI's of its assistants
KEY = "sk-of-the-vendor-0123456789"
PAYS = 'I must pay.\nAction: pay\nAction Input: {"euros": 5}'
DONE = "I now know the final answer\nFinal Answer: It is paid."
TOOLS = '''
def pay(euros: int) -> str:
    """Pays."""
    with open(__file__ + ".ledger", "a") as file:
        file.write(f"{euros}\\n")
    return f"paid {euros}"

def pay_to(euros: int, to: str) -> str:
    """Pays somebody."""
    return pay(euros)

def look(town: str) -> str:
    """Looks."""
    return "nothing"
'''
LOOKS = {"look": {"callable_api": "tools.py:look", "description": "Looks.", "args_schema": {"town": {"type": "str"}}}}


def file_of(url: str, **changed: Any) -> str:
    """A file with one agent that pays when a person lets it."""
    pay = {"callable_api": "tools.py:pay", "description": "Pays.", "approval": True}
    pay |= {"args_schema": {"euros": {"type": "int"}}}
    given: dict[str, Any] = {"prompt": "You are a clerk.", "temperature": 0.25, "tools": {"pay": pay}}
    given |= {"model": {"engine": "openai", "model_name_or_path": "m", "api": "chat", "api_key": KEY}, **changed}
    params = {**given["model"], "base_url": f"{url}/v1", "temperature": given["temperature"]}
    template = f"{given['prompt']}\n$tools\n$history\nQuestion: $query\nThought:"
    agent = {"model": "vendor", "strategy": given.get("strategy", "react"), "tools": list(given["tools"])}
    agent |= {"custom_prompt": template, "budget": {"steps": given.get("steps", 5)}}
    components = [{"name": "vendor", "type": "PromptModel", "params": params}]
    agents = [{"name": "clerk", "params": agent}]
    return json.dumps({"retinue": 1, "components": components, "tools": given["tools"], "agents": agents}, indent=1)


class Office:
    """A server whose only agent waits for a person; its file may be rewritten while it is down."""

    def __init__(self, server: Served, model: OpenAIServer, folder: Path) -> None:
        self.server, self.model, self.folder = server, model, folder
        self._opened = ExitStack()
        self.client = self._opened.enter_context(server.client())

    def close(self) -> None:
        self._opened.close()

    @property
    def runs(self) -> Any:
        return self.client.beta.threads.runs

    def ask(self) -> Any:
        """A run that waits for a person, who is to let it pay."""
        self.model.replies += [PAYS]
        who = self.client.beta.assistants.create(model="clerk")
        thread: Any = {"messages": [{"role": "user", "content": "Pay 5 euros"}]}
        run = self.client.beta.threads.create_and_run_poll(assistant_id=who.id, thread=thread, poll_interval_ms=20)
        assert run.status == "requires_action", run
        return run

    def submit(self, run: Any) -> Any:
        """The run just after it was approved."""
        (call,) = run.required_action.submit_tool_outputs.tool_calls
        given: Any = [{"tool_call_id": call.id, "output": "approve"}]
        return self.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given)

    def now(self, run: Any, status: str, *, told: bool = False) -> Any:
        """The run once it is in this status, and says why if it is `told`."""

        def found() -> Any:
            row = self.runs.retrieve(run.id, thread_id=run.thread_id)
            return row if row.status == status and bool(row.last_error) == told else None

        return until(found)

    def change(self, **changed: Any) -> None:
        """Serve a changed file from now on."""
        self.server.stop()
        (self.folder / "agents.yml").write_text(file_of(self.model.url, **changed), "utf-8")
        self.server.restart()
        self.client = self._opened.enter_context(self.server.client())

    def prompt(self) -> str:
        """What the model was last asked."""
        return "".join(str(message["content"]) for message in self.model.requests[-1].body["messages"])

    def paid(self) -> list[str]:
        ledger = self.folder / "tools.py.ledger"
        return ledger.read_text().split() if ledger.exists() else []

    def stored(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.server.db)) as database:
            return [row[0] for row in database.execute(query)]

    def retinue(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = retinue("runs", *words, "--db", str(self.server.db))
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    (tmp_path / "tools.py").write_text(TOOLS)
    with OpenAIServer() as model, serving(tmp_path, file_of(model.url)) as server:
        office = Office(server, model, tmp_path)
        yield office
        office.close()


@pytest.mark.full
def test_a_waiting_run_goes_on_with_the_words_and_settings_that_it_began_with(office: Office) -> None:
    old = office.ask()
    pay = {"callable_api": "tools.py:pay", "description": "Pays in other words.", "approval": True}
    pay |= {"args_schema": {"euros": {"type": "int", "description": "How many."}}}
    office.change(prompt="You are a pirate.", temperature=0.75, steps=9, tools={"pay": pay, **LOOKS})
    office.model.replies += [DONE]
    office.submit(old)
    office.now(old, "completed")
    assert "You are a clerk." in office.prompt()
    assert "other words" not in office.prompt()
    assert "look" not in office.prompt()
    assert office.model.requests[-1].body["temperature"] == 0.25
    assert office.model.requests[-1].headers["Authorization"] == f"Bearer {KEY}"  # which is in no snapshot
    assert office.paid() == ["5"]
    office.ask()
    assert "You are a pirate." in office.prompt()
    assert office.model.requests[-1].body["temperature"] == 0.75
    assert len(set(office.stored("SELECT snapshot FROM runs"))) == 2


@pytest.mark.full
def test_a_waiting_run_whose_tool_is_gone_says_so_and_goes_on_when_it_is_back(office: Office) -> None:
    run = office.ask()
    office.change(tools=LOOKS)
    assert office.now(run, "requires_action")
    office.submit(run)
    told = office.now(run, "queued", told=True)
    assert "the tool `pay` is gone" in told.last_error.message
    assert until(lambda: "the tool `pay` is gone" in office.server.log)
    assert told.expires_at > told.created_at + 80_000  # of a person's day, not of a run's ten minutes
    assert f"{run.id} of default waits until" in office.retinue("suspended").stdout
    (shown,) = json.loads(office.retinue("suspended", "--json").stdout)
    assert (shown["id"], shown["agent"]) == (run.id, "clerk")
    assert "the tool `pay` is gone" in shown["problem"]
    office.model.replies += [DONE]
    office.change()
    office.now(run, "completed")
    assert office.paid() == ["5"]
    assert office.retinue("suspended").stdout == ""


def test_a_run_that_is_asked_the_same_survives_an_upgrade(office: Office) -> None:
    """Another version of Retinue describes the strategy otherwise, in what the run was not asked."""
    run = office.ask()
    office.server.stop()
    with closing(sqlite3.connect(office.server.db)) as database:
        (body,) = database.execute("SELECT body FROM snapshots").fetchone()
        kept = json.loads(body)
        kept["strategy"] |= {"template": "A template of before.", "of_before": 1}
        database.execute("UPDATE snapshots SET hash = 'before', body = ?", [json.dumps(kept)])
        database.execute("UPDATE runs SET snapshot = 'before'")
        database.commit()
    office.server.restart()
    office.model.replies += [DONE]
    office.submit(run)
    office.now(run, "completed")
    assert office.paid() == ["5"]


def test_what_changed_of_an_input_is_named_and_a_run_can_be_continued_regardless(office: Office) -> None:
    run = office.ask()
    pay = {"callable_api": "tools.py:pay_to", "description": "Pays.", "approval": True}
    pay |= {"args_schema": {"euros": {"type": "int"}, "to": {"type": "str"}}}
    office.change(prompt="You are a pirate.", tools={"pay": pay})
    office.submit(run)
    told = office.now(run, "queued", told=True)
    assert "the input of `pay` changed: `to` is new" in told.last_error.message
    assert f"{run.id} goes on now\n" in office.retinue("resume", run.id).stdout
    assert "`to` is new" in office.now(run, "queued", told=True).last_error.message
    office.model.replies += [DONE]
    assert "with the agent as it is" in office.retinue("resume", "--suspended", "--regardless").stdout
    office.now(run, "completed")
    assert "You are a pirate." in office.prompt()
    assert office.paid() == []  # today's tool takes no such input, and the model was told so


def test_a_run_that_waits_for_a_person_can_be_told_to_go_on_regardless(office: Office) -> None:
    run = office.ask()
    office.change(prompt="You are a pirate.")
    assert "once a person has decided" in office.retinue("resume", run.id, "--regardless").stdout
    office.model.replies += [DONE]
    office.submit(run)
    office.now(run, "completed")
    assert "You are a pirate." in office.prompt()
    assert office.paid() == ["5"]


def test_a_run_that_was_set_aside_can_be_cancelled_and_frees_its_thread(office: Office) -> None:
    run = office.ask()
    office.change(tools=LOOKS)
    office.submit(run)
    told = office.now(run, "queued", told=True)
    assert "the tool `pay` is gone" in told.last_error.message
    cancelled = office.runs.cancel(run.id, thread_id=run.thread_id)
    assert cancelled.status == "cancelled"
    assert office.paid() == []


def test_a_run_that_was_set_aside_can_be_forked(office: Office) -> None:
    run = office.ask()
    office.change(tools=LOOKS)
    office.submit(run)
    office.now(run, "queued", told=True)
    office.model.replies += [DONE]
    said = office.retinue("fork", run.id).stdout
    assert said.endswith(f" goes on in place of {run.id}, which is cancelled\n")
    office.now(run, "cancelled", told=True)
    (fork,) = [one for one in office.runs.list(run.thread_id) if one.id == said.split()[0]]
    office.now(fork, "completed")
    assert office.paid() == []  # today's agent has no such tool, and the model was told so


def test_there_must_be_something_to_continue(office: Office) -> None:
    run = office.ask()
    for words, problem in (
        (["run_0"], "there is no run 'run_0'"),
        ([run.id], "waits for an answer to call_1_0"),
        ([], "name a run to resume"),
        ([run.id, "--suspended"], "name a run to resume"),
    ):
        done = retinue("runs", "resume", *words, "--db", str(office.server.db))
        assert (done.returncode, done.stdout) == (2, "")
        assert problem in done.stderr


def test_equal_snapshots_are_stored_once_and_hold_no_secret(office: Office) -> None:
    office.ask()
    office.ask()
    (body,) = office.stored("SELECT body FROM snapshots")
    assert KEY not in body
    kept = json.loads(body)
    assert kept["file"]["components"][0]["params"]["api_key"] == "${VENDOR_PARAMS_API_KEY}"
    assert kept["tools"][0]["name"] == "pay"
    (digest,) = set(office.stored("SELECT snapshot FROM runs"))
    assert [digest] == office.stored("SELECT hash FROM snapshots")


def test_a_run_that_wrote_nothing_begins_with_the_agent_of_today(office: Office) -> None:
    office.server.stop()
    office.server.restart(RETINUE_CRASHPOINT="after claim:1")
    beta = office.client.beta
    who = beta.assistants.create(model="clerk")
    thread = beta.threads.create(messages=[{"role": "user", "content": "Pay"}])
    with suppress(openai.APIConnectionError):  # it dies after its claim
        beta.threads.runs.create(thread.id, assistant_id=who.id)
    until(lambda: office.server.process.poll() is not None)
    (before,) = office.stored("SELECT hash FROM snapshots")
    assert office.stored("SELECT snapshot FROM runs") == [before]
    assert office.stored("SELECT count(*) FROM events") == [0]
    office.model.replies += [DONE]
    office.change(prompt="You are a pirate.")
    until(lambda: office.stored("SELECT status FROM runs") == ["completed"])
    assert "You are a pirate." in office.prompt()
    assert office.stored("SELECT snapshot FROM runs") != [before]


@pytest.mark.full
def test_a_run_that_was_cut_off_waits_where_it_is_until_its_tool_is_back(office: Office) -> None:
    office.server.stop()
    office.server.restart(RETINUE_CRASHPOINT="before reply is written:2")
    run = office.ask()
    office.model.replies += [DONE]
    with suppress(openai.APIConnectionError):
        office.submit(run)
    until(lambda: office.server.process.poll() is not None)
    events = office.stored("SELECT count(*) FROM events")
    office.change(tools=LOOKS)
    assert "the tool `pay` is gone" in office.now(run, "queued", told=True).last_error.message
    assert office.stored("SELECT count(*) FROM events") == events
    for _ in range(12):  # however often: it is not a run that kills processes
        office.server.stop()
        office.server.restart()
    office.model.replies += [DONE]
    office.change()
    office.now(run, "completed")
    assert office.paid() == ["5"]


def test_a_stream_of_a_run_that_is_set_aside_ends_and_says_why(office: Office) -> None:
    run = office.ask()
    office.change(tools=LOOKS)
    (call,) = run.required_action.submit_tool_outputs.tool_calls
    given: Any = [{"tool_call_id": call.id, "output": "approve"}]
    stream = office.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=given, stream=True)
    with pytest.raises(openai.APIError, match="the tool `pay` is gone"):
        list(stream)


def completed(client: Any, messages: Any, stream: bool) -> None:
    list(client.chat.completions.create(model="clerk", messages=messages, stream=stream))


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_completion_that_cannot_go_on_is_a_conflict(office: Office, stream: bool) -> None:
    office.model.replies += [PAYS]
    messages: Any = [{"role": "user", "content": "Pay 5 euros"}]
    said = office.client.chat.completions.create(model="clerk", messages=messages).choices[0].message
    assert said.tool_calls
    messages.append(said.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "approve"})
    office.change(tools=LOOKS)
    with pytest.raises(openai.APIError, match="the tool `pay` is gone") as refused:
        completed(office.client, messages, stream)
    assert refused.value.code == "agent_changed"


def answered(client: Any, first: str, items: Any, stream: bool) -> None:
    list(client.responses.create(model="clerk", input=items, previous_response_id=first, stream=stream))


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_cannot_go_on_is_a_conflict(office: Office, stream: bool) -> None:
    office.model.replies += [PAYS]
    first = office.client.responses.create(model="clerk", input="Pay 5 euros")
    (asked,) = [item for item in first.output if item.type == "mcp_approval_request"]
    given: Any = [{"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}]
    office.change(tools=LOOKS)
    with pytest.raises(openai.APIError, match="the tool `pay` is gone") as refused:
        answered(office.client, first.id, given, stream)
    assert refused.value.code == "agent_changed"
    error = until(lambda: office.client.responses.retrieve(f"{first.id}x1").error)  # it may be tried once more
    assert error is not None
    assert "the tool `pay` is gone" in error.message
    assert office.client.responses.retrieve(first.id).status == "completed"
