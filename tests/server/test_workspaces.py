"""Workspaces of served runs: whose they are, what is in them, and how they are downloaded."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from fakes.app_server import Serving, upload
from fakes.looking import rested
from fakes.tenants import Customer
from fakes.until import until
from retinue import Agent, PromptModel
from retinue.errors import UsageError
from retinue.harness import Harness
from retinue.server.agents.deployment import Deployment
from retinue.store.tables import workspace_blobs, workspace_files, workspaces

WORDS = {"one": "1", "two": "22", "three": "333"}
SCRIPT: list[dict[str, Any]] = [
    {"when": r"is written|is changed|failed|no files|\(\d+\)", "finish": "Done."},
    *(
        {"when": f"write {word}", "call": {"tool": "write_file", "input": {"path": f"{word}.txt", "content": text}}}
        for word, text in WORDS.items()
    ),
    {"when": "write all", "call": {"tool": "write_file", "input": {"path": "all.txt", "content": "a" * 3_000}}},
    {"when": "ask the member", "call": {"tool": "member", "input": "write two"}},
    {"when": "", "call": {"tool": "list_files", "input": {}}},
]
STEPS: list[dict[str, Any]] = [
    {"when": rf"{at - 1}\.txt is written" if at else "Begin", "call": {"tool": "write_file", "input": given}}
    for at, given in enumerate({"path": f"{at}.txt", "content": str(at)} for at in range(4))
]


def agents() -> dict[str, Agent]:
    member = Agent(PromptModel(script=SCRIPT), name="member", strategy="tool_calling", harness=True)
    model = PromptModel(script=SCRIPT, sees=True)
    steps = PromptModel(script=[*STEPS[::-1], {"when": "", "finish": "Done."}])
    return {
        "agent-1": Agent(model, [member], name="agent-1", strategy="tool_calling", harness=True),
        "steps": Agent(steps, name="steps", strategy="tool_calling", harness=True),
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served"), agents()) as serving:
        yield serving


@pytest.fixture
def ann(served: Serving) -> Customer:
    return Customer(served, "acme", user="ann")


def thread_run(who: Customer, said: str, thread: str = "", **message: Any) -> tuple[str, str]:
    """A run on a thread; their ids."""
    if not thread:
        thread = who.made("/v1/threads", {})["id"]
    assistant = who.made("/v1/assistants", {"model": "agent-1"})["id"]
    who.made(f"/v1/threads/{thread}/messages", {"role": "user", "content": said, **message})
    run = who.made(f"/v1/threads/{thread}/runs", {"assistant_id": assistant})["id"]
    until(lambda: who.ask("GET", f"/v1/runs/{run}").body["status"] == "completed")
    return thread, run


def respond(who: Customer, said: Any, **more: Any) -> str:
    """A response; the id of its run."""
    answer = who.made("/v1/responses", {"model": "agent-1", "input": said, **more})
    assert answer["status"] == "completed"
    return f"run_{answer['id'].partition('_')[2]}"


def files(who: Customer, run: str, query: str = "") -> dict[str, int]:
    """What is in a run's workspace: sizes by path."""
    answer = who.ask("GET", f"/v1/runs/{run}/workspace{query}")
    assert answer.status == 200, answer.text
    return {one["path"]: one["size"] for one in answer.body["files"]}


def outputs(who: Customer, run: str) -> list[str]:
    return [call["output"] for step in who.ask("GET", f"/v1/runs/{run}").body["steps"] for call in step["calls"]]


def test_runs_on_a_thread_share_its_files_and_others_have_their_own(ann: Customer) -> None:
    thread, first = thread_run(ann, "write one")
    _, second = thread_run(ann, "ask the member", thread)
    _, other = thread_run(ann, "list")
    assert files(ann, first) == files(ann, second) == {"one.txt": 1, "two.txt": 2}
    assert files(ann, first, "?version=1") == {"one.txt": 1}
    assert files(ann, first, "?version=0") == {}
    assert outputs(ann, other) == ["There are no files yet."]
    (member,) = ann.ask("GET", f"/v1/runs?parent={second}").body["data"]
    assert files(ann, member["id"]) == files(ann, first)
    missing = ann.ask("GET", f"/v1/runs/{first}/workspace?version=3")
    assert (missing.status, missing.error["message"]) == (404, "the workspace has no version 3.")


def test_responses_have_the_files_of_what_they_go_on_from(ann: Customer) -> None:
    one = respond(ann, "write one")
    two, three = (respond(ann, f"write {word}", previous_response_id=f"resp_{one[4:]}") for word in ("two", "three"))
    assert files(ann, one) == {"one.txt": 1}
    assert files(ann, two) == {"one.txt": 1, "two.txt": 2}
    assert files(ann, three) == {"one.txt": 1, "three.txt": 3}
    conversation = ann.made("/v1/conversations", {})["id"]
    for word in WORDS:
        last = respond(ann, f"write {word}", conversation=conversation)
    assert files(ann, last) == {"one.txt": 1, "three.txt": 3, "two.txt": 2}


def test_files_are_downloaded_and_kept(ann: Customer, served: Serving) -> None:
    _, run = thread_run(ann, "write three")
    answer = ann.ask("GET", f"/v1/runs/{run}/workspace/content?path=three.txt")
    assert (answer.status, answer.text) == (200, "333")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''three.txt"
    kept = ann.made(f"/v1/runs/{run}/workspace/files", {"path": "./three.txt", "version": 1})
    assert (kept["filename"], kept["bytes"], kept["purpose"]) == ("three.txt", 3, "assistants_output")
    assert ann.ask("GET", f"/v1/files/{kept['id']}/content").text == "333"
    for path in ("two.txt", "../three.txt", "/etc/passwd", ""):
        asked = [
            ann.ask("GET", f"/v1/runs/{run}/workspace/content", params={"path": path}),
            ann.ask("POST", f"/v1/runs/{run}/workspace/files", {"path": path}),
            ann.ask("GET", f"/v1/runs/{run}/workspace/content", params={"path": "three.txt", "version": "7"}),
        ]
        assert [one.status for one in asked] == [404] * 3, path


def test_a_fork_has_the_files_of_its_step(ann: Customer, served: Serving) -> None:
    run = respond(ann, "Begin", model="steps")
    whole = {f"{at}.txt": 1 for at in range(4)}
    assert files(ann, run) == whole
    for step in range(4):
        fork = ann.made(f"/v1/runs/{run}/fork", {"step": step})["id"]
        rested(served, fork, key=ann.key)
        assert files(ann, fork, f"?version={step}") == {f"{at}.txt": 1 for at in range(step)}
        assert files(ann, fork) == whole  # it went on
        again = ann.made(f"/v1/runs/{fork}/fork", {"step": 1})["id"]
        assert files(ann, again, "?version=1") == {"0.txt": 1}
    assert files(ann, run) == whole
    assert ann.ask("GET", f"/v1/runs/{run}/workspace").body["version"] == 4
    edited = ann.made(f"/v1/runs/{run}/fork", {"observations": {"call_2_0": "Stop."}})["id"]
    until(lambda: ann.ask("GET", f"/v1/runs/{edited}").body["status"] == "completed")
    assert files(ann, edited) == {"0.txt": 1, "1.txt": 1}


def test_a_fork_has_what_members_wrote_until_its_step(ann: Customer) -> None:
    thread, first = thread_run(ann, "write one")
    _, second = thread_run(ann, "ask the member", thread)
    thread_run(ann, "write three", thread)
    for run, step, there in ((first, 0, set()), (second, 0, {"one"}), (second, 1, {"one", "two"})):
        answer = ann.ask("POST", f"/v1/runs/{run}/fork", {"step": step, "model": "agent-1"})
        assert answer.status == 200, answer.text
        fork = answer.body["id"]
        ann.ask("POST", f"/v1/runs/{fork}/cancel", {})
        version = len(there)
        assert set(files(ann, fork, f"?version={version}")) == {f"{one}.txt" for one in there}, (run, step)


def test_what_is_uploaded_is_there_once_under_a_name_of_its_own(ann: Customer, served: Serving) -> None:
    def kept(name: str, content: bytes) -> str:
        return str(upload(served, name, content, key=ann.key).body["id"])

    same = kept("data.csv", b"a,b\n"), kept("data.csv", b"c,d\n")
    archive = kept("all.zip", b"PK\3\4\0")
    tools = [{"type": "code_interpreter"}]
    attached = [{"file_id": one, "tools": tools} for one in (same[0], same[1], archive)]
    thread, run = thread_run(ann, "list", attachments=attached)
    there = {"uploads/all.zip": 5, "uploads/data-1.csv": 4, "uploads/data.csv": 4}
    assert files(ann, run) == there
    assert outputs(ann, run) == ["uploads/all.zip (5)\nuploads/data-1.csv (4)\nuploads/data.csv (4)"]
    _, second = thread_run(ann, "write one", thread)
    assert files(ann, second) == there | {"one.txt": 1}
    given = base64.b64encode(b"x,y\n").decode()
    parts = [
        {"type": "input_text", "text": "list"},
        {"type": "input_file", "file_id": same[0]},
        {"type": "input_file", "filename": "..\\..\\évil/../n.csv", "file_data": f"data:text/csv;base64,{given}"},
    ]
    response = respond(ann, [{"role": "user", "content": parts}])
    assert files(ann, response) == {"uploads/data.csv": 4, "uploads/__.._évil_.._n.csv": 4}


def test_nobody_else_sees_a_workspace(ann: Customer, served: Serving) -> None:
    _, run = thread_run(ann, "write one")
    bob, eve = Customer(served, "acme", user="bob"), Customer(served, "evil")
    for who in (bob, eve):
        asked = [
            who.ask("GET", f"/v1/runs/{run}/workspace"),
            who.ask("GET", f"/v1/runs/{run}/workspace/content?path=one.txt"),
            who.ask("POST", f"/v1/runs/{run}/workspace/files", {"path": "one.txt"}),
            who.ask("POST", f"/v1/runs/{run}/fork", {"step": 0}),
        ]
        assert [one.status for one in asked] == [404] * 4
        own = respond(who, "list")
        assert files(who, own) == {}
        same = respond(who, "write one")  # the content is the same, and another
        assert files(who, same) == {"one.txt": 1}
    with served.database.engine.connect() as connection:
        query = select(func.count()).where(workspace_blobs.c.tenant == "evil")
        assert connection.execute(query).scalar() == 1


def test_files_go_with_their_thread_or_run(ann: Customer, served: Serving) -> None:
    thread, _ = thread_run(ann, "write one")
    ann.ask("DELETE", f"/v1/threads/{thread}")
    with served.database.engine.connect() as connection:
        for table, column in ((workspaces, workspaces.c.id), (workspace_files, workspace_files.c.workspace_id)):
            assert connection.execute(select(column).where(column == thread)).all() == [], table


def test_a_folder_cannot_be_served(tmp_path: Path) -> None:
    model = PromptModel(script=["Hi."])
    member = Agent(model, name="member", harness=Harness(workspace=tmp_path))
    with pytest.raises(UsageError, match=r"boss cannot be served: harness.workspace: all who are served would share"):
        Deployment.of_parts({"boss": Agent(model, [member], name="boss")})
