"""Runs of real servers and workers, as a real collector receives them: also through deaths of the process, and from one
server to another."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.otlp_collector import OtlpCollector, Span
from fakes.postgres import Postgres
from fakes.served import Served, serving
from fakes.until import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the SDK calls its assistants so
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLED: Any = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1"}
TOOL = """
def note(word: str) -> str:
    "Notes a word."
    return "noted"
"""
TEAM_FILE = """
retinue: 1
tools:
  note: {callable_api: "notes.py:note", description: Notes., effects: idempotent, approval: false}
agents:
  - name: low
    params:
      {model: scripted, strategy: tool_calling, tools: [note],
       script: [{when: "noted|refused", say: low done}, {when: "", call: {tool: note, input: {word: w}}}]}
  - name: middle
    params:
      {model: scripted, strategy: tool_calling, workers: [low],
       script: [{when: "low done", say: middle done}, {when: "", call: {tool: low, input: {query: q}}}]}
  - name: top
    params:
      {model: scripted, strategy: tool_calling, workers: [middle],
       script: [{when: "middle done", say: all done}, {when: "", call: {tool: middle, input: {query: q}}}]}
"""
TEAM = """\
invoke_agent top
  chat scripted
  execute_tool middle
    invoke_agent middle
      chat scripted
      execute_tool low
        invoke_agent low
          chat scripted
          execute_tool note
          chat scripted
      chat scripted
  chat scripted""".splitlines()
ASKING_FILE = TEAM_FILE.replace("approval: false", "approval: true")
ASKED: Any = {"model": "top", "messages": [{"role": "user", "content": "Go"}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_tool(tmp_path)


def with_tool(folder: Path) -> Path:
    (folder / "notes.py").write_text(TOOL, "utf-8")
    return folder


def told(collector: OtlpCollector, *, never: bool = False) -> dict[str, str]:
    """The environment of a process that tells the collector of its runs: soon, or `never` before it stops."""
    delay = "3600000" if never else "20"
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": delay}


def one_trace(collector: OtlpCollector) -> list[Span]:
    """The spans, which are those of one trace."""
    assert len({one.trace for one in collector.spans}) == 1
    return collector.spans


def test_the_callers_trace_goes_on_below_the_caller(folder: Path, collector: OtlpCollector) -> None:
    with serving(folder, TEAM_FILE, env=told(collector)) as server, server.client() as client:
        client.chat.completions.create(**ASKED, extra_headers=CALLED)
        until(lambda: len(collector.spans) == len(TEAM))
    assert collector.tree() == TEAM
    spans = one_trace(collector)
    (top,) = collector.named("invoke_agent top")
    assert (top.trace, top.parent, top.state) == (TRACE, CALLER, "vendor=1")
    assert len(spans) == len(collector.arrived)


@pytest.mark.parametrize(
    ("sent", "spans"),
    [
        ({}, len(TEAM)),
        ({"traceparent": f"00-{'0' * 32}-{CALLER}-01"}, len(TEAM)),
        ({"traceparent": "nonsense"}, len(TEAM)),
        ({"traceparent": f"00-{TRACE}-{CALLER}-00"}, 0),  # the caller's trace is not recorded
    ],
)
def test_without_a_callers_trace_it_is_one_of_its_own(
    served_team: Served, team_collector: OtlpCollector, sent: Any, spans: int
) -> None:
    team_collector.arrived.clear()
    with served_team.client() as client:
        for _ in range(2):
            client.chat.completions.create(**ASKED, extra_headers=sent)
        client.chat.completions.create(**ASKED, extra_headers={"traceparent": f"00-{'1' * 32}-{CALLER}-01"})
    until(lambda: len(team_collector.spans) == 2 * spans + len(TEAM))
    traces = Counter(one.trace for one in team_collector.spans)
    assert set(traces.values()) == {len(TEAM)}
    assert len(traces) == (3 if spans else 1)


@pytest.fixture(scope="module")
def team_collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as collector:
        yield collector


@pytest.fixture(scope="module")
def served_team(tmp_path_factory: pytest.TempPathFactory, team_collector: OtlpCollector) -> Iterator[Served]:
    folder = with_tool(tmp_path_factory.mktemp("team"))
    with serving(folder, TEAM_FILE, env=told(team_collector)) as server:
        yield server


def begun(server: Served) -> tuple[str, str]:
    """A run on a thread, which survives its client's connection."""
    with server.client() as client:
        assistant = client.beta.assistants.create(model="top")
        thread = client.beta.threads.create(messages=[{"role": "user", "content": "Go"}])
        with suppress(openai.APIError):
            run = client.beta.threads.runs.create(thread.id, assistant_id=assistant.id, extra_headers=CALLED)
            return thread.id, run.id
        return thread.id, ""


def finished(server: Served, thread: str) -> None:
    with server.client() as client:
        until(lambda: [one.status for one in client.beta.threads.runs.list(thread)] == ["completed"])


POINTS = [
    ("after claim", 1),
    ("before reply is written", 3),  # in the low member's first request to the model
    ("before intent", 1),
    ("after intent", 1),  # in the tool's call
    ("after members have it", 2),
    ("before the end", 1),
    ("after the end", 1),
    ("after the end", 3),  # the team's run has ended, and nobody drives it again
]


@pytest.mark.full
@pytest.mark.parametrize("never", [True, False], ids=["nothing was sent before", "most was sent before"])
@pytest.mark.parametrize(("point", "passage"), POINTS)
@pytest.mark.matrix
def test_wherever_a_process_dies_the_tree_is_whole(
    folder: Path, collector: OtlpCollector, point: str, passage: int, never: bool
) -> None:
    env = told(collector, never=never)
    with serving(folder, TEAM_FILE, env=env) as server:
        server.stop()
        server.restart(RETINUE_CRASHPOINT=f"{point}:{passage}")
        thread, _ = begun(server)
        until(lambda: server.process.poll() is not None)
        server.kill()
        if never:
            assert collector.spans == []
        server.restart()
        finished(server, thread)
        server.stop()
    assert collector.tree() == TEAM
    one_trace(collector)
    for again in Counter(one.id for one in collector.arrived):
        assert len({_facts(one) for one in collector.arrived if one.id == again}) == 1, "sent again, it is another"


def _facts(span: Span) -> tuple[Any, ...]:
    told = {
        name: value for name, value in span.values.items() if name != "gen_ai.provider.name"
    }  # of ended runs unknown
    return span.name, span.start, span.end, span.parent, str(sorted(told.items()))


def test_a_run_that_waits_for_a_person_is_one_span(folder: Path, collector: OtlpCollector) -> None:
    with (
        serving(folder, ASKING_FILE, env=told(collector)) as server,
        server.client() as client,
    ):
        thread, run = begun(server)
        until(lambda: client.beta.threads.runs.retrieve(run, thread_id=thread).status == "requires_action")
        action: Any = client.beta.threads.runs.retrieve(run, thread_id=thread).required_action
        (call,) = action.submit_tool_outputs.tool_calls
        server.stop()
        server.restart()
        with server.client() as again:
            output: Any = [{"tool_call_id": call.id, "output": '{"decision": "approve"}'}]
            again.beta.threads.runs.submit_tool_outputs(run, thread_id=thread, tool_outputs=output)
            finished(server, thread)
        server.stop()
    assert collector.tree() == TEAM
    one_trace(collector)
    (low,) = collector.named("invoke_agent low")
    assert [name for name, _ in low.events] == ["retinue.paused", "retinue.resumed"]


def test_a_run_that_is_cancelled_while_it_waits_has_its_spans(folder: Path, collector: OtlpCollector) -> None:
    with (
        serving(folder, ASKING_FILE, env=told(collector)) as server,
        server.client() as client,
    ):
        thread, run = begun(server)
        until(lambda: client.beta.threads.runs.retrieve(run, thread_id=thread).status == "requires_action")
        client.beta.threads.runs.cancel(run, thread_id=thread)
        until(lambda: collector.named("invoke_agent top") and collector.named("invoke_agent low"))
    for name in ("top", "middle", "low"):
        (span,) = collector.named(f"invoke_agent {name}")
        assert span.values["retinue.stop_reason"] == "CANCELLED"
    assert [line.strip() for line in collector.tree()].count("chat scripted") == 3
    assert collector.tree()[0] == "invoke_agent top"
    one_trace(collector)


REMOTE = """
retinue: 1
components:
  - {name: there, type: KIND, params: {url: "URL", api_key: KEY, MORE}}
agents:
  - name: caller
    params:
      {model: scripted, strategy: tool_calling, workers: [there],
       script: [{when: "all done", say: got it}, {when: "", call: {tool: there, input: {query: q}}}]}
"""


@pytest.mark.parametrize(
    ("kind", "path", "more"),
    [("RemoteAgent", "/v1", "name: there, model: top"), ("A2AAgent", "/a2a/top", "name: there")],
)
def test_agents_of_other_servers_are_in_the_same_trace(
    served_team: Served, team_collector: OtlpCollector, tmp_path: Path, kind: str, path: str, more: str
) -> None:
    team_collector.arrived.clear()
    file = REMOTE.replace("KIND", kind).replace("URL", served_team.root + path).replace("MORE", more)
    file = file.replace("KEY", served_team.key)
    with serving(tmp_path, file, env=told(team_collector)) as server, server.client() as client:
        messages: Any = [{"role": "user", "content": "Go"}]
        done = client.chat.completions.create(model="caller", messages=messages, extra_headers=CALLED)
        assert done.choices[0].message.content == "got it"
        server.stop()
    until(lambda: team_collector.named("invoke_agent top"))
    one_trace(team_collector)
    (there,), (top,) = team_collector.named("invoke_agent there"), team_collector.named("invoke_agent top")
    assert (top.parent, top.trace) == (there.id, TRACE)
    assert top.values["retinue.run.id"] != there.values["retinue.run.id"]
    tree = team_collector.tree()
    assert tree[:4] == [
        "invoke_agent caller",
        "  chat scripted",
        "  execute_tool there",
        "    invoke_agent there",
    ]
    assert f"      {TEAM[0]}" in tree


@pytest.mark.full
def test_one_server_goes_on_where_another_died(folder: Path, collector: OtlpCollector, a_postgres: Postgres) -> None:
    url = a_postgres.database()
    env = told(collector)
    with serving(folder, TEAM_FILE, env=env, args=["--db", url]) as first:
        first.stop()
        first.restart(RETINUE_CRASHPOINT="after intent:1")
        thread, _ = begun(first)
        until(lambda: first.process.poll() is not None)
        second = first.beside()
        try:
            finished(second, thread)
        finally:
            second.stop()
        first.kill()
    assert collector.tree() == TEAM
    one_trace(collector)


@pytest.mark.full
def test_a_dead_collector_slows_no_server(folder: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "10"}
    with serving(folder, TEAM_FILE, env=env) as server, server.client() as client:
        for _ in range(5):
            assert client.chat.completions.create(**ASKED).choices[0].message.content == "all done"
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 8
    assert (
        server.log.count("telemetry was not sent: http://127.0.0.1:9/v1/traces cannot be reached: Connection refused")
        == 1
    )
