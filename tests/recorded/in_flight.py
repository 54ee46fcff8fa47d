"""Runs in every state that a run can be in, as a former version's server left them when it was killed.

`python -m recorded.in_flight SRC FOLDER`, with `tests` on the path, has the Retinue in the folder SRC serve agents with
the `tools.py` in FOLDER, which do not end, begins runs of each kind, kills the server, and leaves in FOLDER what
`recorded.databases` does, but for the tables, which are the same. `said.json` has the `key`; `runs`, each with how it
is to end; and `imported`, such runs with their events.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fakes.pictures import png
from fakes.served import Served, serving
from fakes.until import until
from recorded.databases import YEARS, Api, copy_of, make_key

EACH = range(1, 5)  # runs of a kind
WORDS = {1: "one", 2: "two", 3: "three", 4: "four"}
LOST = ("five", "six", "seven", "eight")  # payments of which nobody knows the outcome
_WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"location": {"type": "string"}}}}
_NOW = {"configuration": {"returnImmediately": True}}
_A2A = {"A2A-Version": "1.0"}


def file_of(*, gone: bool = False) -> str:
    """The file of the agents; without one of them if that is `gone`."""
    script: list[dict[str, Any]] = [
        {"when": "^seen", "say": "I have seen it."},
        {"when": "^I have seen it", "say": "They have seen it."},
        {"when": "^paid|It arrived", "say": "It is paid."},
        {"when": "is booked$", "say": "It is booked."},
        {"when": "^It is booked", "say": "They have booked it."},
        {"when": "21 degrees", "say": "It is 21 degrees in Paris."},
        {"when": "weather", "call": {"tool": "get_weather", "input": {"location": "Paris"}}},
        {"when": "[Aa]sk the worker", "call": {"tool": "looker", "input": "Look at the harbour."}},
    ]
    for word in WORDS.values():
        for verb in ("pay", "book"):
            script += [{"when": f"^{verb.title()} for {word}", "call": {"tool": verb, "input": {"what": word}}}]
            whom = f"Book for the team of {word}"
        script += [
            {"when": f"^Ask the waiter for {word}", "call": {"tool": "booker", "input": whom}},
            {"when": f"^{whom}", "call": {"tool": "book", "input": {"what": f"team {word}"}}},
        ]
    script += [{"when": f"^Pay for {word}", "call": {"tool": "pay", "input": {"what": word}}} for word in LOST]
    script += [
        {"when": "[Ww]atch", "call": {"tool": "watch", "input": {"what": "the harbour"}}},
        {"when": "[Ll]ook", "call": {"tool": "look", "input": {"what": "the harbour"}}},
        {"when": "[Hh]ello", "say": "Hello, I am an agent."},
    ]
    what = {"args_schema": {"what": {"type": "str"}}}
    tools = {
        name: {"callable_api": f"tools.py:{name}", "description": f"{name}s something.", **what}
        for name in ("look", "watch", "pay", "book")
    }
    for name in ("look", "watch"):
        tools[name]["effects"] = "read"
    chat: dict[str, Any] = {"model": "scripted", "strategy": "tool_calling"}
    agents = {
        "worker": {**chat, "tools": ["look", "watch", "pay"]},
        "waiter": {**chat, "tools": ["book"], "require_human_feedback": ["book"]},
        "team": {**chat, "workers": ["looker", "booker"]},
        "looker": {**chat, "tools": ["look"], "role_description": "Looks at things."},
        "booker": {**chat, "tools": ["book"], "require_human_feedback": ["book"], "role_description": "Books."},
        "friend": {**chat, "tools": ["look"], "memory": ["talk"]},
        "goner": {**chat, "tools": ["look"]},
    }
    if gone:
        del agents["goner"]
    model = {"engine": "scripted", "sees": True, "script": script}
    components = [
        {"name": "scripted", "type": "PromptModel", "params": model},
        {"name": "talk", "type": "ConversationMemory", "params": {}},
    ]
    named = [{"name": name, "params": params} for name, params in agents.items()]
    return json.dumps({"retinue": 1, "components": components, "tools": tools, "agents": named}, indent=1) + "\n"


class Beginner:
    """Begins runs through the API of a server."""

    def __init__(self, server: Served, key: str) -> None:
        self._api = Api(server.url, key)
        self._root = Api(server.url.removesuffix("/v1"), key)

    def run(self, question: str, agent: str = "worker", **more: Any) -> None:
        """On a thread of its own."""
        who = self._api.post("/assistants", {"model": agent})["id"]
        thread = self._api.post("/threads", {"messages": [{"role": "user", "content": question}]})["id"]
        self._api.post(f"/threads/{thread}/runs", {"assistant_id": who, **more})

    def response(self, given: Any, agent: str = "worker", **more: Any) -> None:
        """In the background."""
        self._api.post("/responses", {"model": agent, "input": given, "background": True, **more})

    def task(self, question: str, agent: str) -> None:
        """By A2A."""
        message = {"messageId": question, "role": "ROLE_USER", "parts": [{"text": question}]}
        headers = {name.replace("-", "_"): value for name, value in _A2A.items()}
        self._root.post(f"/a2a/{agent}/message:send", {"message": message, **_NOW}, **headers)

    def chat(self, question: str) -> None:
        """Of a client that never hears the end."""
        given = {"model": "worker", "store": True, "messages": [{"role": "user", "content": question}]}

        def ask() -> None:
            with suppress(OSError):
                self._api.post("/chat/completions", given)

        threading.Thread(target=ask, daemon=True).start()

    def listed(self, status: str = "", kind: str = "", asked: str = "") -> list[dict[str, Any]]:
        """The runs, but members'."""
        wanted = {"status": status, "kind": kind, "q": asked, "members": "false", "limit": "100"}
        return list(self._api.get(f"/runs?{urlencode({name: one for name, one in wanted.items() if one})}")["data"])

    def has_called(self, run: dict[str, Any]) -> bool:
        """Whether a call is in a run's log."""
        return '"called"' in json.dumps(self._api.get(f"/runs/{run['id']}/events?limit=20"))

    def fork(self, of: str) -> None:
        """Of a run that is under way."""
        self._api.post(f"/runs/{of}/fork", {})

    def take_in(self, of: str, sees: Api) -> tuple[str, Any]:
        """A run that has ended, as an imported one; its events. `sees`: by a key that may see prompts."""
        run = self._api.post("/runs/import", sees.get(f"/runs/{of}/export"))["id"]
        return run, self._api.get(f"/runs/{run}/events?limit=20")

    def cancel(self, run: str) -> None:
        """A run whose tool does not stop."""
        self._api.post(f"/runs/{run}/cancel", {})


def begin(one: Beginner, limited: Beginner) -> None:
    """Begin runs of each kind. `limited` may have one under way at a time."""
    image = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    picture = [{"type": "input_text", "text": "Look at this."}, {"type": "input_image", "image_url": image}]
    client = {"type": "function", "function": _WEATHER}
    for number in EACH:
        word = WORDS[number]
        one.run("Look at the harbour.")
        one.run(f"Pay for {word}.")
        one.run("How is the weather?", tools=[client])
        one.run(f"Book for {word}.", "waiter")
        one.run("Ask the worker.", "team")
        one.run(f"Ask the waiter for {word}.", "team")
        one.response("Look at the harbour.")
        one.response("How is the weather?", tools=[{"type": "function", **_WEATHER}])
        one.response([{"role": "user", "content": picture}])
        one.response("Look at the harbour.", "friend", safety_identifier=word)
        one.task("Look at the harbour.", "worker")
        one.chat("Look at the harbour.")
        limited.run("Look at the harbour.")
        one.run("Watch the harbour.")


def record(src: Path, folder: Path) -> None:
    """Make the files that the module's docstring names."""
    env = {"PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        shutil.copy(folder / "tools.py", there)
        ledger = there / "ledger.txt"
        ledger.touch()
        with serving(there, file_of(), env=env, args=["--human-ttl", str(YEARS), "--run-ttl", str(YEARS)]) as server:
            sees = make_key(server.db, env, "default", "prompts", "read")
            runs, imported = _leave(server, make_key(server.db, env, "default/limited"), sees, ledger)
            key = server.key
        (folder / "runs.db.gz").write_bytes(copy_of(server.db))
        (folder / "ledger.txt").write_bytes(ledger.read_bytes())
    (folder / "agents.yml").write_text(file_of())
    (folder / "said.json").write_text(json.dumps({"key": key, "runs": runs, "imported": imported}, indent=1) + "\n")


def _leave(server: Served, limited: str, sees: str, ledger: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Begin the runs, and kill the server; how each is to end, and what is imported."""

    def begun(what: str) -> int:
        return sum(line.startswith(what) for line in ledger.read_text().splitlines())

    one = Beginner(server, server.key)
    for _ in EACH:
        one.run("Look at the harbour.", "goner")
    for word in LOST:
        one.run(f"Pay for {word}.")
    until(lambda: (begun("look"), begun("pay")) == (len(EACH), len(LOST)))
    until(lambda: all(map(one.has_called, one.listed())))
    server.kill()
    (server.db.parent / "agents.yml").write_text(file_of(gone=True))
    server.restart()
    one = Beginner(server, server.key)
    until(lambda: len(one.listed("queued")) == len(EACH))  # suspended: their agent is gone
    until(lambda: len(one.listed("requires_action")) == len(LOST))
    for word in WORDS.values():
        one.response("Hello!", "friend", safety_identifier=word)
    until(lambda: len(one.listed("completed")) == len(EACH))
    imported = dict(one.take_in(run["id"], Api(server.url, sees)) for run in one.listed("completed"))
    begin(one, Beginner(server, limited))
    # besides: those of threads, members, responses, images, friends, tasks, completions, and one of the limited key
    until(lambda: (begun("look"), begun("watch"), begun("pay")) == (8 * len(EACH) + 1, len(EACH), 2 * len(EACH)))
    until(lambda: len(one.listed("requires_action")) == 5 * len(EACH))
    for run in one.listed("in_progress", "response")[: len(EACH)]:
        one.fork(run["id"])
    until(lambda: begun("look") == 9 * len(EACH) + 1)
    runs = {run["id"]: "completed" for run in one.listed() if run["status"] != "completed"}
    for run in one.listed(asked="Watch"):
        one.cancel(run["id"])
        runs[run["id"]] = "cancelled"
    server.kill()
    return runs, imported


if __name__ == "__main__":
    record(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
