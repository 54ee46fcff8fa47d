"""A server that is killed at every event of runs that write files: each file is as it was to be, each version there
once."""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.postgres import Postgres
from fakes.served import Served, serving
from fakes.until import until

POINTS = ("before event", "after intent", "after claim", "before reply is written", "before intent", "before asking")
ENDED = ("completed", "failed", "cancelled", "incomplete", "expired")
NEWEST = "/runs?limit=1"
WROTE = 4


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for at in range(WROTE // 2):
        written = {"path": f"{at}.txt", "content": f"{at} old"}
        edited = {"path": f"{at}.txt", "old": "old", "new": "new old"}
        begins = rf"{at - 1}\.txt is changed" if at else "Begin"
        found += [{"when": begins, "call": {"tool": "write_file", "input": written}}]
        found += [{"when": rf"{at}\.txt is written", "call": {"tool": "edit_file", "input": edited}}]
    return [*found, {"when": r"1\.txt is changed", "finish": "Done."}, {"finish": "Lost."}]


FILE = f"""
retinue: 1
components:
  - {{name: model, type: PromptModel, params: {{model_name_or_path: scripted, script: {json.dumps(rules())}}}}}
agents:
  - {{name: writer, params: {{model: model, strategy: tool_calling, tools: [write_file, edit_file]}}}}
"""


def get(server: Served, path: str) -> Any:
    asked = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {server.key}"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        body = answer.read()
    return body if "/content" in path else json.loads(body)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
@pytest.mark.parametrize("point", [POINTS[0], *(pytest.param(one, marks=pytest.mark.full) for one in POINTS[1:])])
def test_files_survive_a_server_that_is_killed(
    a_postgres: Postgres, tmp_path: Path, kind: str, point: str, full: bool
) -> None:
    args = ("--db", a_postgres.database()) if kind == "postgresql" else ()
    kills, died = 0, True
    with serving(tmp_path, FILE, args=args) as server:
        while died and (full or not kills):
            server.stop()
            server.restart(RETINUE_CRASHPOINT=f"{point}:{kills + 1 if full else 3}")
            with server.client() as client, suppress(openai.APIError):
                client.responses.create(model="writer", input="Begin", background=True)
            until(lambda: server.process.poll() is not None or has_ended(server))
            if died := server.process.poll() is not None:
                kills += 1
                server.kill()
                server.restart()
            check(server)
    assert kills >= (WROTE if full and point != "after claim" else 1)


def has_ended(server: Served) -> bool:
    with suppress(OSError):  # it is being killed
        return any(one["status"] in ENDED for one in get(server, NEWEST)["data"])
    return False


def check(server: Served) -> None:
    """The newest run ends, and its files are what they were to be, in as many versions."""
    run = until(lambda: [one for one in get(server, NEWEST)["data"] if one["status"] in ENDED])[0]
    assert run["status"] == "completed"
    there = get(server, f"/runs/{run['id']}/workspace")
    assert there["version"] == WROTE
    for at in range(WROTE // 2):
        assert get(server, f"/runs/{run['id']}/workspace/content?path={at}.txt") == f"{at} new old".encode()
    for version in range(1, WROTE + 1):  # each of them changed something
        assert version in [
            one["version"] for one in get(server, f"/runs/{run['id']}/workspace?version={version}")["files"]
        ]
