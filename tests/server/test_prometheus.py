"""`--metrics-port`: the page lists what a real server and a real worker tell, and what they count is right."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from fakes.served import Served, serving
from fakes.until import until
from fakes.worker import working
from retinue.cli import main

ROOT = Path(__file__).parents[2]
PAGE = re.compile(r"\| `([a-z_]+)` \| (\w+) \| (\w*) ?\| ([\w, ]*?) ?\|")
AGENTS = """
retinue: 1
components:
  - name: model
    type: PromptModel
    params:
      engine: scripted
      price: {input: 1, output: 1}
      script:
        - {when: "^2", finish: "It is 2."}
        - {when: "invented_by", finish: "No such tool."}
        - {when: "invent", call: {tool: invented_by_a_model, input: {}}}
        - {when: "paid", finish: "Paid."}
        - {when: "pay", call: {tool: pay, input: {}}}
        - {when: "block", call: {tool: block, input: {}}}
        - {when: "18 degrees", finish: "It is 18."}
        - {when: "weather", call: {tool: weather_of_a_client, input: {}}}
        - {when: "", call: {tool: calculator, input: "1+1"}}
tools:
  pay: {description: Pays., callable_api: "tools.py:pay", approval: true}
  block: {description: Blocks., callable_api: "tools.py:block"}
agents:
  - {name: agent, params: {model: model, strategy: tool_calling, tools: [calculator, pay, block]}}
"""
TOOLS = """
import time
from pathlib import Path

def pay() -> str:
    "Pays."
    return "paid"

async def block() -> str:
    "Keeps the event loop busy until the file `go` is there."
    here = Path(__file__).parent
    (here / "began").touch()
    until = time.monotonic() + 20
    while not (here / "go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return "2"
"""


def get(address: str, accept: str = "", **headers: str) -> tuple[int, str, str]:
    """The status, the type and the text."""
    asked = urllib.request.Request(address, headers={"Accept": accept, **headers})
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


def scraped(address: str) -> dict[str, Metric]:
    """The families by name, as OpenMetrics' parser reads them."""
    _, kind, text = get(address, "application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
    assert kind.startswith("application/openmetrics-text")
    return {one.name: one for one in open_metrics(text)}  # type: ignore[no-untyped-call]


def value(address: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    found = [one for family in scraped(address).values() for one in family.samples if one.name == name]
    return sum(one.value for one in found if labels.items() <= one.labels.items())


def address_of(log: str) -> str:
    found = re.search(r"Metrics are on (http://127\.0\.0\.1:\d+/metrics)\n", log)
    assert found is not None, log
    return found[1]


def ask(server: Served, text: str, **more: Any) -> Any:
    with server.client() as client:
        return client.responses.create(model="agent", input=text, **more)


def folder_with_tools(folder: Path) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = folder_with_tools(tmp_path_factory.mktemp("measured"))
    with serving(folder, AGENTS, args=["--metrics-port", "0"]) as served:
        yield served


def of_worker(url: str) -> list[str]:
    """The words of a worker of this database that has metrics."""
    return ["--db", url, "--metrics-port", "0", "--log-level", "debug"]


def families(scrapes: Iterable[dict[str, Metric]]) -> dict[str, tuple[str, str, frozenset[str]]]:
    """The type, unit and labels of each sample's name, without those that types add."""
    found: dict[str, tuple[str, str, frozenset[str]]] = {}
    for scrape in scrapes:
        for one in scrape.values():
            labels = frozenset(name for sample in one.samples for name in sample.labels if name != "le")
            name = one.name + {"counter": "_total", "info": "_info"}.get(one.type, "")
            before = found.get(name, ("", "", frozenset()))[2]
            found[name] = (one.type, one.unit if name.startswith("retinue") else "", labels | before)
    return found


@pytest.mark.full
def test_the_page_lists_what_a_server_and_a_worker_tell(server: Served, tmp_path: Path, a_postgres: Any) -> None:
    address = address_of(server.log)
    for text in ("add", "invent"):
        ask(server, text)
    assert get(f"{server.root}/v1/models")[0] == 401
    assert main(["quotas", "set", "default", "--runs", "1000/day", "--db", str(server.db)]) == 0
    until(lambda: value(address, "retinue_quota_used", quota="runs_day") >= 2)
    (tmp_path / "agents.yml").write_text(AGENTS)
    url = a_postgres.database()
    with working(folder_with_tools(tmp_path), of_worker(url)) as worker:
        own = scraped(worker.metrics)
        assert not any(name.startswith("retinue_http") for name in own)
        assert get(worker.metrics.replace("metrics", "ready"))[0] == 200
        assert get(worker.metrics.replace("metrics", "health"))[0] == 200
        found = families([scraped(address), own])
    page = {
        name: (kind, unit, frozenset(filter(None, labels.split(", "))))
        for name, kind, unit, labels in PAGE.findall((ROOT / "docs/metrics.md").read_text())
    }
    assert found == page
    text = get(address)[2]  # the other format says the same
    names = {one.name + ("_total" if one.type == "counter" else "") for one in plain(text)}
    assert names == set(page)
    assert "_created" not in text


def test_what_happens_is_counted_once(server: Served) -> None:
    address = address_of(server.log)
    names = ("runs_begun_total", "runs_ended_total", "steps_total", "model_requests_total", "model_tokens_total")
    before = {name: value(address, f"retinue_{name}") for name in names}
    calls = value(address, "retinue_tool_calls_total", tool="calculator", outcome="result")
    unknown = value(address, "retinue_tool_calls_total", tool="unknown")
    used = [ask(server, text).usage.total_tokens for text in ("add", "invent")]
    after = {name: value(address, f"retinue_{name}") - was for name, was in before.items()}
    expected = {"runs_begun_total": 2, "runs_ended_total": 2, "steps_total": 4, "model_requests_total": 4}
    assert after == {**expected, "model_tokens_total": sum(used)}
    assert value(address, "retinue_tool_calls_total", tool="calculator", outcome="result") == calls + 1
    assert value(address, "retinue_tool_calls_total", tool="unknown") == unknown + 1
    assert "invented_by_a_model" not in get(address)[2]


def test_a_tool_that_a_client_declares_is_other(server: Served) -> None:
    address = address_of(server.log)
    declared: Any = {
        "type": "function",
        "name": "weather_of_a_client",
        "parameters": {"type": "object", "properties": {}},
    }
    asked = ask(server, "weather", tools=[declared])
    output: Any = {"type": "function_call_output", "call_id": asked.output[-1].call_id, "output": "18 degrees"}
    with server.client() as client:
        client.responses.create(model="agent", input=[output], previous_response_id=asked.id, tools=[declared])
    assert value(address, "retinue_tool_calls_total", tool="other", outcome="result") == 1
    assert "weather_of_a_client" not in get(address)[2]


@pytest.mark.full
def test_a_waiting_run_that_a_command_cancels_is_counted_by_no_process(server: Served) -> None:
    address = address_of(server.log)
    before, ended_before = set(stored(server)), value(address, "retinue_runs_ended_total")
    ask(server, "pay", background=True)
    until(lambda: value(address, "retinue_runs_waiting_for_people") == 1)
    (run,) = set(stored(server)) - before
    assert main(["runs", "cancel", run, "--db", str(server.db)]) == 0
    until(lambda: value(address, "retinue_runs_waiting_for_people") == 0)
    assert value(address, "retinue_runs_ended_total") == ended_before


@pytest.mark.full
def test_figures_of_the_database_are_the_same_in_each_process_and_one_leads(tmp_path: Path, a_postgres: Any) -> None:
    args = ["--db", a_postgres.database(), "--metrics-port", "0"]
    with serving(folder_with_tools(tmp_path), AGENTS, args=args) as server:
        other = server.beside()
        try:
            both = [address_of(one.log) for one in (server, other)]
            ask(server, "pay", background=True)
            for name, number in (("processes_alive", 2), ("runs_waiting_for_people", 1), ("runs_queued", 0)):
                until(lambda: [value(one, f"retinue_{name}") for one in both] == [number] * 2)  # noqa: B023
            until(lambda: sum(value(one, "retinue_leader") for one in both) == 1)
        finally:
            other.stop()


@pytest.mark.full
def test_a_run_that_waits_and_goes_on_after_a_restart_is_not_counted_again(tmp_path: Path) -> None:
    with serving(folder_with_tools(tmp_path), AGENTS, args=["--metrics-port", "0"]) as server:
        asked = ask(server, "pay", background=True)
        address = address_of(server.log)
        until(lambda: value(address, "retinue_runs_waiting_for_people") == 1)
        assert value(address, "retinue_runs_begun_total") == 1
        server.kill()
        server.log = ""
        server.restart()
        address = address_of(server.log)
        (run,) = stored(server)
        assert main(["runs", "resume", run, "--approve", "all", "--db", str(server.db)]) == 0
        with server.client() as client:
            until(lambda: client.responses.retrieve(asked.id).status != "queued" and ended(address))
        assert value(address, "retinue_runs_begun_total") == 0
        assert value(address, "retinue_runs_ended_total", status="completed") == 1
        assert value(address, "retinue_model_requests_total") == 1  # the first was the other process's
        assert value(address, "retinue_tool_calls_total", tool="pay") == 1


def ended(address: str) -> bool:
    return value(address, "retinue_runs_ended_total") == 1


def stored(server: Served) -> list[str]:
    import sqlite3

    with sqlite3.connect(server.db) as connection:
        return [run_id for (run_id,) in connection.execute("SELECT id FROM runs")]


def test_it_answers_while_the_event_loop_is_busy(tmp_path: Path) -> None:
    with serving(folder_with_tools(tmp_path), AGENTS, args=["--metrics-port", "0"]) as server:
        address = address_of(server.log)
        ask(server, "block", background=True)
        until(lambda: (tmp_path / "began").exists())
        until(lambda: value(address, "retinue_event_loop_lag_seconds") > 0.3)
        assert get(address.replace("metrics", "health"))[0] == 200
        (tmp_path / "go").touch()
        until(lambda: value(address, "retinue_runs_ended_total") == 1)


def test_requests_are_counted_by_route_and_never_by_path(server: Served) -> None:
    address = address_of(server.log)
    for path in ("/v1/threads/thread_0/runs/", "/nothing/here", "/health"):
        get(server.root + path)
    with server.client() as client, pytest.raises(Exception, match="resp_0"):
        client.responses.retrieve("resp_0")
    text = get(address)[2]
    assert 'method="GET",route="/v1/responses/{response_id}",status="4xx"' in text
    assert 'method="GET",route="/health",status="2xx"' in text
    assert "thread_0" not in text
    assert "/nothing" not in text


def test_a_strangers_name_leads_to_nothing(server: Served) -> None:
    address = address_of(server.log)
    names = {"evil.test": 421, "evil.test:9": 421, "": 200, "localhost": 200, "127.0.0.1:1": 200, "[::1]:1": 200}
    names |= {"retinue:9464": 200, "retinue.agents.svc": 200, "retinue.agents.svc.cluster.local:9464": 200}
    assert {name: get(address, Host=name)[0] for name in names} == names


def test_what_is_no_page_and_a_port_in_use_are_said(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    address = address_of(server.log)
    assert get(address.replace("metrics", "other"))[0] == 404
    port = address.split(":")[2].partition("/")[0]
    file = server.db.with_name("agents.yml")
    words = ["serve", str(file), "--port", "0", "--db", f"{server.db}2", "--metrics-port", port]
    assert main(words) == 2
    assert "the port is in use; give another with --metrics-port" in capsys.readouterr().err


@pytest.mark.full
def test_a_worker_logs_a_runs_request_and_run(tmp_path: Path, a_postgres: Any) -> None:
    url = a_postgres.database()
    words = ["--db", url, "--runs-at-once", "1"]
    with serving(folder_with_tools(tmp_path), AGENTS, args=words) as server:
        ask(server, "block", background=True)
        until(lambda: (tmp_path / "began").exists())
        server.kill()
        (tmp_path / "go").touch()
        with working(tmp_path, of_worker(url)) as worker:
            until(lambda: value(worker.metrics, "retinue_run_takeovers_total") == 1)
            until(lambda: value(worker.metrics, "retinue_drive_duration_seconds_count") >= 1)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    ((run, request),) = {(one["run"], one["request"]) for one in lines if one["logger"] == "retinue.run_log"}
    assert run.startswith("run_")
    assert request.startswith("req_")
