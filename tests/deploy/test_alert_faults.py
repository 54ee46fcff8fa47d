"""The faults that deploy/alerts.yml tells of, caused in real servers and workers: the metrics that each rule reads
cross its threshold, and did not before. How long a rule waits is a matter of alerts_test.yml."""

from __future__ import annotations

import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from fakes.openai_server import OpenAIServer, failure
from fakes.postgres import Postgres, postgres
from fakes.scrapes import Watched, watched
from fakes.served import KEY, Served, serving
from fakes.until import until
from fakes.worker import working
from retinue.cli import main

pytestmark = pytest.mark.full
RULES = Path(__file__).parents[2] / "deploy/alerts.yml"
AGENTS = """
retinue: 1
tools:
  hold: {description: Holds., callable_api: "tools.py:hold", effects: read}
  pay: {description: Pays., callable_api: "tools.py:pay", approval: true}
  block: {description: Blocks., callable_api: "tools.py:block"}
components:
  - name: model
    type: PromptModel
    params:
      engine: scripted
      script:
        - {when: "^hold$", call: {tool: hold, input: {}}}
        - {when: "^pay$", call: {tool: pay, input: {}}}
        - {when: "^block$", call: {tool: block, input: {}}}
        - {when: "^break$", error: 500}
        - {when: "", say: "Done."}
agents:
  - name: agent
    params: {model: model, strategy: tool_calling, instructions: You are one., tools: [hold, block, pay]}
"""
TOOLS = """
import asyncio, time
from pathlib import Path

HERE = Path(__file__).parent

def pay() -> str:
    "Pays."
    return "paid"

async def hold() -> str:
    "Holds its place until the file `go` is there."
    (HERE / "began").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    return "held"

async def block() -> str:
    "Keeps the event loop busy until the file `go` is there."
    until = time.monotonic() + 30
    while not (HERE / "go").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return "blocked"
"""
METRICS = ["--metrics-port", "0"]


def threshold(alert: str) -> str:
    """The expression of a rule, in one line."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    (found,) = [rule["expr"] for rule in group["rules"] if rule["alert"] == alert]
    return " ".join(str(found).split())


def ask(server: Served, text: str) -> Any:
    with server.client() as client:
        return client.responses.create(model="agent", input=text, background=True)


def prepared(folder: Path) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with serving(prepared(tmp_path), AGENTS, args=METRICS) as served:
        yield served


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL that a test may stop."""
    with postgres() as found:
        yield found


# ── processes ────────────────────────────────────────────────────────────────────────────────────


def test_process_down_and_restarts(server: Served) -> None:
    assert "up{" in threshold("RetinueProcessDown")
    assert "changes(process_start_time_seconds" in threshold("RetinueProcessRestarts")
    starts = set()
    for _ in range(3):
        seen = watched(server)
        starts.add(seen.sum("process_start_time_seconds"))
        server.kill()
        assert seen.sum("process_start_time_seconds") is None  # `up` is 0
        server.log = ""
        server.restart()
    assert len(starts) == 3


def test_runs_taken_over(tmp_path: Path, a_postgres: Postgres) -> None:
    assert threshold("RetinueRunsTakenOver") == "increase(retinue_run_takeovers_total[10m]) > 0"
    url = a_postgres.database()
    words = ["--db", url, *METRICS]
    with serving(prepared(tmp_path), AGENTS, args=words[:2]) as server:
        ask(server, "hold")
        until(lambda: (tmp_path / "began").exists())
        with working(tmp_path, words) as worker:
            seen = Watched(worker.metrics)
            assert seen.sum("retinue_run_takeovers_total") == 0
            server.kill()
            (tmp_path / "go").touch()
            until(lambda: seen.sum("retinue_run_takeovers_total") == 1)


def test_loop_busy(server: Served, tmp_path: Path) -> None:
    assert threshold("RetinueLoopBusy") == "retinue_event_loop_lag_seconds > 2"
    seen = watched(server)
    ask(server, "block")
    until(lambda: (seen.sum("retinue_event_loop_lag_seconds") or 0) > 2)
    (tmp_path / "go").touch()
    until(lambda: seen.sum("retinue_runs_ended_total") == 1)


# ── the database ─────────────────────────────────────────────────────────────────────────────────


def test_database_lost(server: Served) -> None:
    assert threshold("RetinueDatabaseLost") == "retinue_database_lost == 1"
    seen = watched(server)
    assert (seen.sum("retinue_database_lost"), seen.sum("retinue_database_up")) == (0, 1)
    server.db.unlink()
    until(lambda: seen.sum("retinue_database_lost") == 1)
    assert seen.sum("retinue_database_up") == 0


def test_database_down_parks_runs(tmp_path: Path, own_postgres: Postgres) -> None:
    assert threshold("RetinueDatabaseDown") == "retinue_database_up == 0 and retinue_database_lost == 0"
    assert threshold("RetinueRunsParked") == "retinue_runs_parked > 0"
    words = ["--db", own_postgres.database(), *METRICS]
    with serving(prepared(tmp_path), AGENTS, args=words) as server:
        seen = watched(server)
        assert (seen.sum("retinue_database_up"), seen.sum("retinue_runs_parked")) == (1, 0)
        ask(server, "hold")
        until(lambda: (tmp_path / "began").exists())
        own_postgres.stop()
        until(lambda: seen.sum("retinue_database_up") == 0)
        assert seen.sum("retinue_database_lost") == 0
        (tmp_path / "go").touch()
        until(lambda: (seen.sum("retinue_runs_parked") or 0) > 0)
        own_postgres.start()
        until(lambda: seen.sum("retinue_database_up") == 1)
        until(lambda: seen.sum("retinue_runs_ended_total", status="completed") == 1)


def test_writes_wait_and_then_fail(server: Served, tmp_path: Path) -> None:
    failed = 'retinue_database_transaction_duration_seconds_count{outcome="failed"}'
    assert threshold("RetinueWritesFail") == f"increase({failed}[2m]) > 0"
    assert threshold("RetinueWritesWait") == "min_over_time(retinue_database_writes_waiting[1m]) > 0"
    seen = watched(server)
    ask(server, "hold")
    until(lambda: (tmp_path / "began").exists())
    count = "retinue_database_transaction_duration_seconds_count"
    assert (seen.sum("retinue_database_writes_waiting"), seen.sum(count, outcome="failed")) == (0, 0)
    with closing(sqlite3.connect(server.db, isolation_level=None)) as beside:
        beside.execute("BEGIN IMMEDIATE")
        (tmp_path / "go").touch()
        until(lambda: (seen.sum("retinue_database_writes_waiting") or 0) > 0)
        until(lambda: (seen.sum(count, outcome="failed") or 0) > 0, seconds=60)
    until(lambda: seen.sum("retinue_runs_ended_total", status="completed") == 1)
    until(lambda: seen.sum("retinue_database_writes_waiting") == 0)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


def test_runs_wait_long(tmp_path: Path, a_postgres: Postgres) -> None:
    """One place, which a run has: another waits, and is made a minute older."""
    assert "retinue_runs_queued_oldest_seconds) > 60" in threshold("RetinueRunsWaitLong")
    url = a_postgres.database()
    with serving(prepared(tmp_path), AGENTS, args=["--db", url, "--runs-at-once", "1", *METRICS]) as server:
        seen = watched(server)
        ask(server, "hold")
        until(lambda: (tmp_path / "began").exists())
        ask(server, "Hello")
        until(lambda: seen.sum("retinue_runs_queued") == 1)
        assert (seen.sum("retinue_runs_queued_oldest_seconds") or 0) < 60
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE runs SET created_at = created_at - 61 WHERE status = 'queued'")
        until(lambda: (seen.sum("retinue_runs_queued_oldest_seconds") or 0) > 60)
        (tmp_path / "go").touch()
        until(lambda: seen.sum("retinue_runs_queued") == 0)


def test_runs_suspended(server: Served, tmp_path: Path) -> None:
    """A run waits for a person, and its agent has lost the tool that it asks for."""
    assert "retinue_runs_suspended) > 0" in threshold("RetinueRunsSuspended")
    ask(server, "pay")
    until(lambda: watched(server).sum("retinue_runs_waiting_for_people") == 1)
    assert watched(server).sum("retinue_runs_suspended") == 0
    server.kill()
    (tmp_path / "agents.yml").write_text(AGENTS.replace("tools: [hold, block, pay]", "tools: [hold, block]"))
    server.log = ""
    server.restart()
    with closing(sqlite3.connect(server.db)) as beside:
        ((run,),) = beside.execute("SELECT id FROM runs").fetchall()
    assert main(["runs", "resume", run, "--approve", "all", "--db", str(server.db)]) == 0
    until(lambda: watched(server).sum("retinue_runs_suspended") == 1)


def test_runs_fail(server: Served) -> None:
    assert threshold("RetinueRunsFail").endswith("> 0.1")
    seen = watched(server)
    for text in ("Hello", "break"):
        ask(server, text)
    until(lambda: seen.sum("retinue_runs_ended_total") == 2, seconds=60)
    assert (seen.sum("retinue_runs_ended_total", status="failed") or 0) / 2 > 0.1


def test_model_fails(tmp_path: Path) -> None:
    assert "retinue_model_retries_total[5m])) > 0.2 * (sum" in threshold("RetinueModelFails")
    with OpenAIServer() as vendor:
        vendor.replies += [failure(429, retry_after="0"), "Hello"]
        model = f"{{model_name_or_path: m, engine: openai, base_url: '{vendor.url}/v1', api_key: k, api: chat}}"
        component = f"components: [{{name: vendor, type: PromptModel, params: {model}}}]\n"
        file = f"retinue: 1\n{component}agents: [{{name: agent, params: {{model: vendor, strategy: tool_calling}}}}]\n"
        with serving(tmp_path, file, args=METRICS) as server:
            seen = watched(server)
            ask(server, "Hello")
            until(lambda: seen.sum("retinue_runs_ended_total") == 1)
            retries, requests = (seen.sum(f"retinue_model_{name}_total") or 0 for name in ("retries", "requests"))
            assert retries > 0.2 * requests > 0


def test_keys_tried(server: Served) -> None:
    assert 'retinue_http_refusals_total{status="401"}' in threshold("RetinueKeysTried")
    seen = watched(server)
    assert seen.sum("retinue_http_refusals_total", status="401") is None
    for number in range(3):
        wrong = urllib.request.Request(f"{server.url}/models", headers={"Authorization": f"Bearer {KEY}{number}"})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(wrong, timeout=10)
    assert seen.sum("retinue_http_refusals_total", status="401") == 3


def test_each_alert_has_a_fault() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    text = Path(__file__).read_text() + 'threshold("RetinueTemporalDown")'  # whose fault tests/cluster has
    assert [rule["alert"] for rule in group["rules"] if f'threshold("{rule["alert"]}")' not in text] == []
