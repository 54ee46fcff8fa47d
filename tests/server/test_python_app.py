"""Agents of Python code, served as they are: by `retinue serve`, from Python, and in another application."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from fakes.a2a_client import BINDINGS, a2a_client, asks, state_of, task_of, text_of
from fakes.served import Served
from fakes.until import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenAI's of its assistants
APP = '''
import os, time
from retinue import Agent, PromptModel, tool

@tool(effects=os.environ.get("EFFECTS", "read"))
def save(note: str) -> str:
    """Saves a note."""
    with open("ledger", "a") as file:
        file.write(note + " ")
    while os.path.exists("hold"):
        time.sleep(0.01)
    return "saved"

script = [{"when": "^saved", "say": "It is saved."}, {"call": {"tool": "save", "input": {"note": "tea"}}}]
agent = Agent(PromptModel(script=script), [save], name="notes")
'''
MAIN = """
import json
from pathlib import Path
from fastapi import FastAPI, HTTPException, Request
import retinue
from app import agent

def user_of(request: Request):
    name = request.cookies.get("session")
    if name == "gone":
        raise HTTPException(403, "You are locked out.")
    assert request.url.path.startswith("/ai/") or "/ai/" in request.url.path
    return retinue.Login(name, tenant="acme") if name and not Path("ended").exists() else None

agents = retinue.asgi(agent, db="runs.db", user_of=user_of, grace=1.0)
app = FastAPI(lifespan=agents.lifespan)
app.mount("/ai", agents)

@app.get("/v1/models")
def own():
    return "the application's own"
"""
ASKED: Any = {"model": "notes", "messages": [{"role": "user", "content": "Note tea"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "main.py").write_text(MAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def served(folder: Path, **env: str) -> Iterator[Served]:
    server = Served(folder / "app.py", env, ())
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


@contextmanager
def running(words: Sequence[str], says: str, env: Mapping[str, str] = {}) -> Iterator[tuple[Any, str]]:
    """A Python process that listens, and its address."""
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "RETINUE_API_KEYS": "sk-mine", **env},
    )
    assert process.stdout is not None
    said, pattern = list[str](), re.compile(rf"{says} (http://127\.0\.0\.1:\d+)")
    reading = threading.Thread(target=lambda: said.extend(process.stdout or ()), daemon=True)
    reading.start()
    try:
        (address,) = until(lambda: pattern.findall("".join(said)), 60)
        yield process, address
    finally:
        process.terminate()
        process.wait(60)
        reading.join(30)
        process.stdout.close()
        assert "Traceback" not in "".join(said), "".join(said)


def mounted(env: Mapping[str, str] = {}) -> Any:
    words = ["-m", "uvicorn", "main:app", "--port", "0", "--timeout-graceful-shutdown", "3"]
    return running(words, "Uvicorn running on", env)


def ledger(folder: Path) -> list[str]:
    return (folder / "ledger").read_text().split() if (folder / "ledger").exists() else []


# ── a file, one command ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("binding", BINDINGS)
def test_openais_client_the_studio_and_a2a_use_it(folder: Path, binding: str) -> None:
    with served(folder) as server, server.client() as client:
        assert client.chat.completions.create(**ASKED).choices[0].message.content == "It is saved."
        assert client.responses.create(model="notes", input="Note tea").output_text == "It is saved."
        assistant = client.beta.assistants.create(model="notes")
        thread: Any = {"messages": ASKED["messages"]}
        run = client.beta.threads.create_and_run_poll(assistant_id=assistant.id, thread=thread, poll_interval_ms=20)
        assert run.status == "completed"
        listed: Any = client.get("/studio/agents", cast_to=object)
        assert [one["name"] for one in listed["data"]] == ["notes"]
        assert "Retinue studio" in httpx.get(f"{server.root}/studio").text

        async def ask() -> Any:
            async with a2a_client(server.root, server.key, binding) as other:
                return await task_of(other, asks("Note tea"))

        task = asyncio.run(ask())
        assert (state_of(task), text_of(task)) == ("COMPLETED", "It is saved.")


@pytest.mark.parametrize("effects", ["read", "idempotent", "once"])
def test_a_run_that_was_killed_in_a_tool_goes_on_as_the_tools_effects_say(folder: Path, effects: str) -> None:
    (folder / "hold").touch()
    with served(folder, EFFECTS=effects) as server, server.client() as client:
        begun = client.responses.create(model="notes", input="Note tea", background=True)
        until(lambda: ledger(folder) == ["tea"])
        server.kill()
        (folder / "hold").unlink()
        server.restart()
        with server.client() as again:
            if effects == "once":  # nobody knows whether it happened, but a person
                run: Any = again.get(f"/runs/{begun.id.replace('resp_', 'run_')}", cast_to=object)
                until(lambda: again.get(f"/runs/{run['id']}", cast_to=object)["status"] == "requires_action")  # type: ignore[index]
                assert ledger(folder) == ["tea"]
                return
            until(lambda: again.responses.retrieve(begun.id).status == "completed")
            assert again.responses.retrieve(begun.id).output_text == "It is saved."
            assert ledger(folder) == ["tea", "tea"]


def test_a_run_waits_if_the_code_was_changed_under_it_and_says_why(folder: Path) -> None:
    (folder / "hold").touch()
    with served(folder, EFFECTS="idempotent") as server, server.client() as client:
        begun = client.responses.create(model="notes", input="Note tea", background=True)
        until(lambda: ledger(folder) == ["tea"])
        server.kill()
        (folder / "hold").unlink()
        (folder / "app.py").write_text(APP.replace("note: str)", "note: str, loud: bool)"))
        server.restart()
        with server.client() as again:
            path = f"/runs/{begun.id.replace('resp_', 'run_')}"
            said = until(
                lambda: json.dumps(one) if "loud" in json.dumps(one := again.get(path, cast_to=object)) else ""
            )
            assert "the input of `save` changed: `loud` is new" in said
            server.stop()
            (folder / "app.py").write_text(APP)
            server.restart()
        with server.client() as at_last:
            until(lambda: at_last.responses.retrieve(begun.id).status == "completed")


# ── from Python ──────────────────────────────────────────────────────────────────────────────────


def test_python_code_serves_itself(folder: Path) -> None:
    (folder / "app.py").write_text(
        f'{APP}\nif __name__ == "__main__":\n    import retinue\n    retinue.serve(agent, port=0)\n'
    )
    with running(["app.py"], "Retinue is ready on") as (process, address):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="sk-mine", max_retries=0)
        with client:
            assert client.chat.completions.create(**ASKED).choices[0].message.content == "It is saved."
    assert process.returncode == 0


# ── in another application ───────────────────────────────────────────────────────────────────────


def user(address: str, name: str) -> openai.OpenAI:
    """OpenAI's client of somebody who is logged in to the application."""
    headers = {"cookie": f"session={name}"}
    return openai.OpenAI(base_url=f"{address}/ai/v1", api_key="none", max_retries=0, default_headers=headers)


def test_an_application_has_it_at_a_prefix_for_its_own_users(folder: Path) -> None:
    with mounted() as (process, address):
        assert httpx.get(f"{address}/v1/models").json() == "the application's own"
        for cookie, status, code in (("", 401, "no_login"), ("session=gone", 403, "refused_by_application")):
            refused = httpx.get(
                f"{address}/ai/v1/models", headers={"cookie": cookie, "authorization": "Bearer sk-mine"}
            )
            assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
        foreign = {"cookie": "session=ann", "origin": "http://evil.test"}
        assert httpx.post(f"{address}/ai/v1/chat/completions", json=ASKED, headers=foreign).status_code == 403
        own = foreign | {"origin": address}
        assert httpx.post(f"{address}/ai/v1/chat/completions", json=ASKED, headers=own).status_code == 200
        with user(address, "ann") as ann:
            assert ann.responses.create(model="notes", input="Note tea").output_text == "It is saved."
            stream = ann.responses.create(model="notes", input="Note tea", stream=True)
            assert [event.type for event in stream][-1] == "response.completed"
            with ann.responses.connect() as connection:
                connection.response.create(model="notes", input="Note tea")
                assert "response.completed" in (event.type for event in connection)
        card = httpx.get(f"{address}/ai/.well-known/agent-card.json").json()
        assert card["supportedInterfaces"][0]["url"] == f"{address}/ai/a2a/notes"
        assert "securitySchemes" not in card  # how one logs in is the application's affair
        assert httpx.get(f"{address}/ai/openapi.json").json()["servers"] == [{"url": "/ai"}]
        for page in ("/ai/", "/ai/docs", "/ai/studio"):
            links = re.findall(r'(?:href|src)="(/[^"]*)"', httpx.get(address + page).text)
            assert links, page
            assert [link for link in links if httpx.get(address + link).status_code != 200] == []
    assert process.returncode in (0, -15)


def test_two_users_see_only_their_own(folder: Path) -> None:
    with mounted() as (_, address), user(address, "ann") as ann, user(address, "bob") as bob:
        run = ann.responses.create(model="notes", input="Note tea")
        thread = ann.beta.threads.create()
        seen: Any = ann.get("/runs", cast_to=object)
        assert [one["id"] for one in seen["data"]] == [run.id.replace("resp_", "run_")]
        others: Any = bob.get("/runs", cast_to=object)
        assert others["data"] == []
        for path in (f"/responses/{run.id}", f"/runs/{seen['data'][0]['id']}", f"/threads/{thread.id}"):
            ann.get(path, cast_to=object)
            with pytest.raises(openai.NotFoundError):
                bob.get(path, cast_to=object)


def test_a_stream_ends_with_its_login(folder: Path) -> None:
    (folder / "hold").touch()
    with mounted() as (_, address), user(address, "ann") as ann:
        stream = ann.chat.completions.create(**ASKED, stream=True)
        until(lambda: ledger(folder) == ["tea"])
        (folder / "ended").touch()
        with pytest.raises(openai.APIError, match="You are not logged in"):
            list(stream)
        (folder / "hold").unlink()


def test_a_mounted_run_goes_on_after_a_kill(folder: Path) -> None:
    (folder / "hold").touch()
    with mounted() as (process, address), user(address, "ann") as ann:
        begun = ann.responses.create(model="notes", input="Note tea", background=True)
        until(lambda: ledger(folder) == ["tea"])
        process.kill()
        process.wait()
    (folder / "hold").unlink()
    with mounted() as (process, address), user(address, "ann") as ann:
        until(lambda: ledger(folder) == ["tea", "tea"])  # before anybody asked
        until(lambda: ann.responses.retrieve(begun.id).status == "completed")


def test_it_opens_at_the_first_request_where_nobody_runs_its_lifespan(folder: Path) -> None:
    (folder / "main.py").write_text(MAIN.replace("lifespan=agents.lifespan", ""))
    with mounted() as (process, address), user(address, "ann") as ann:
        assert not (folder / "runs.db").exists()
        assert ann.responses.create(model="notes", input="Note tea").output_text == "It is saved."
    assert process.returncode in (0, -15)


def test_it_may_be_the_whole_application_and_then_has_keys(folder: Path) -> None:
    (folder / "main.py").write_text(
        "import retinue\nfrom app import agent\napp = retinue.asgi([agent], keys=['sk-mine'])\n"
    )
    words = ["-m", "uvicorn", "main:app", "--port", "0"]
    with running(words, "Uvicorn running on") as (process, address):
        with openai.OpenAI(base_url=f"{address}/v1", api_key="sk-mine", max_retries=0) as client:
            assert client.chat.completions.create(**ASKED).choices[0].message.content == "It is saved."
        assert httpx.get(f"{address}/v1/models").status_code == 401
    assert process.returncode in (0, -15)


def test_an_application_that_cannot_open_it_does_not_start(folder: Path) -> None:
    with mounted():
        words = [sys.executable, "-m", "uvicorn", "main:app", "--port", "0"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert "another server has" in done.stderr
        assert done.returncode


def test_the_example_of_an_application_serves_those_who_log_in(folder: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "python_app"
    text = (example / "app.py").read_text()
    assert len(text.splitlines()) <= 15
    offline = text.replace('"local"', "PromptModel(script=[{'finish': 'No umbrella.'}])").replace(
        "Agent, tool", "Agent, PromptModel, tool"
    )
    (folder / "app.py").write_text(offline)
    (folder / "main.py").write_text((example / "main.py").read_text())
    asked = {**ASKED, "model": "guide"}
    with mounted() as (_, address), httpx.Client(base_url=address) as browser:
        assert browser.post("/ai/v1/chat/completions", json=asked).status_code == 401
        assert browser.post("/login", params={"name": "ann", "password": "wrong"}).status_code == 401
        assert browser.post("/login", params={"name": "ann", "password": "ann's"}).status_code == 200
        answer = browser.post("/ai/v1/chat/completions", json=asked).raise_for_status().json()
        assert answer["choices"][0]["message"]["content"] == "No umbrella."
    with served(folder) as server, server.client() as client:
        assert client.chat.completions.create(**asked).choices[0].message.content == "No umbrella."
