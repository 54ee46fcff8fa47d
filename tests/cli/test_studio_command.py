"""`retinue studio`: what a server stored is shown, on this machine only, with a key that ends with the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.test_ask import refused, retinue
from retinue.store.database import Database

FILE = """
retinue: 1
components:
  - name: Model
    type: PromptModel
    params: {script: [{when: "", finish: Hello.}]}
agents:
  - name: greeter
    params: {model: Model, strategy: tool_calling}
"""


class Studio(NamedTuple):
    url: str
    key: str

    def ask(self, path: str, given: Any = None) -> tuple[int, Any]:
        body = None if given is None else json.dumps(given).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, body, headers), timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@contextmanager
def studio(*words: str) -> Iterator[Studio]:
    """The running command."""
    program = [sys.executable, "-m", "retinue", "studio", "--no-browser", *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = re.fullmatch(
                r"The studio is at (http://127\.0\.0\.1:\d+)/studio/#key=(sk-[\w-]{43})\n", process.stdout.readline()
            )
            assert said is not None
            yield Studio(said[1], said[2])
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.full
def test_a_database_is_shown_with_agents_and_without(tmp_path: Path) -> None:
    (tmp_path / "agents.yml").write_text(FILE)
    db = ["--db", str(tmp_path / "runs.db")]
    with studio(str(tmp_path / "agents.yml"), *db, "--tenant", "acme") as shown:
        status, told = shown.ask("/v1/key")
        assert (status, told["tenant"], told["scopes"]) == (200, "acme", ["all", "prompts"])
        assert shown.ask("/v1/responses", {"model": "greeter", "input": "Hi"})[0] == 200
        with studio(*db, "--tenant", "acme") as beside:  # they share the file
            assert len(beside.ask("/v1/runs")[1]["data"]) == 1
        first = shown
    server = Database(f"sqlite:///{tmp_path}/runs.db")
    busy = refused(retinue("studio", *db))
    assert busy.endswith("runs.db open; its studio is at /studio of its address")
    server.close()
    with studio(*db, "--tenant", "acme") as shown:
        assert shown.ask("/v1/key")[1]["scopes"] == ["memories", "prompts", "read"]
        (run,) = shown.ask("/v1/runs?figures=true")[1]["data"]
        assert (run["question"], run["status"]) == ("Hi", "completed")
        status, told = shown.ask("/v1/responses", {"model": "greeter", "input": "Hi"})
        assert (status, told["error"]["code"]) == (403, "missing_scope")
        assert Studio(shown.url, first.key).ask("/v1/key")[0] == 401
    with studio(*db) as shown:
        assert shown.ask("/v1/runs")[1]["data"] == []


def test_a_database_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    said = refused(retinue("studio", "--db", str(tmp_path / "none.db")))
    assert "there is no database" in said
    assert "--db" in said
    assert not (tmp_path / "none.db").exists()
