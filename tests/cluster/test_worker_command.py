"""`retinue worker` and `retinue serve --dispatch temporal` as programs."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from openai import OpenAI
from sqlalchemy import text

from fakes.scrapes import Watched
from fakes.served import Served, serving
from fakes.temporal import Temporal
from fakes.until import until
from fakes.worker import working
from retinue.cli import main
from retinue.store.engines import engine_of

AGENTS = """
retinue: 1
components:
  - name: model
    type: PromptModel
    params:
      engine: scripted
      script:
        - {when: "worked 1", finish: Done.}
        - {when: Begin, call: {tool: work, input: {}}}
        - {finish: Hello.}
tools:
  work: {description: Works., callable_api: "tools.py:work", effects: idempotent}
agents:
  - name: agent
    params: {model: model, strategy: tool_calling, tools: [work]}
"""
TOOLS = """
import asyncio, os
from pathlib import Path

async def work() -> str:
    "Work until the file `go` is there."
    here = Path(__file__).parent
    with (here / "began").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    try:
        while not (here / "go").exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        (here / "interrupted").touch()
        raise
    with (here / "ended").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return "worked 1"
"""


def failed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command says that it cannot do."""
    assert main(list(words)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_combinations_that_cannot_work_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "agents.yml"
    file.write_text(AGENTS)
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    together = "--dispatch temporal and --temporal HOST:PORT go together"
    assert together in failed(capsys, "serve", str(file), "--dispatch", "temporal")
    assert together in failed(capsys, "serve", str(file), "--temporal", "127.0.0.1:7233")
    shared = "--temporal needs a database that servers and workers share: --db "
    assert shared in failed(capsys, "serve", str(file), "--dispatch", "temporal", "--temporal", "127.0.0.1:7233")
    assert shared in failed(capsys, "worker", str(file), "--temporal", "127.0.0.1:7233")
    assert "--drive no needs a database that workers share" in failed(capsys, "serve", str(file), "--drive", "no")
    assert "a worker needs the database of its servers" in failed(capsys, "worker", str(file))
    unreachable = "Temporal cannot be used at 127.0.0.1:1: "
    assert unreachable in failed(capsys, "worker", str(file), "--db", url, "--temporal", "127.0.0.1:1")
    serve = ("serve", str(file), "--port", "0", "--db", url, "--api-key", "sk-1", "--dispatch", "temporal")
    assert unreachable in failed(capsys, *serve, "--temporal", "127.0.0.1:1")


def test_limits_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agents.yml"
    file.write_text(AGENTS)
    for wrong in ("agent", "agent=", "=3", "agent=0", "agent=some"):
        assert main(["worker", str(file), "--agent-runs", wrong]) == 2
        assert f"{wrong!r} is not a name and a number, such as researcher=5" in capsys.readouterr().err


class Cluster:
    """A server, and workers beside it."""

    def __init__(self, folder: Path, server: Served, words: list[str]) -> None:
        self.folder = folder
        self.server = server
        self.words = words

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        """One more worker, while in the block."""
        with working(self.folder, self.words) as found:
            yield found.process

    def let_workers_drive(self, url: str) -> None:
        """Wait until the server leaves its runs to workers."""
        engine = engine_of(url)

        def found() -> bool:
            self.client.responses.create(model="agent", input="Hello")
            with engine.connect() as connection:
                driver = connection.execute(text("SELECT driver FROM runs ORDER BY number DESC LIMIT 1")).scalar()
            return "-worker-" in str(driver)

        until(found)
        engine.dispose()

    @property
    def began(self) -> list[int]:
        """The processes in which the tool began."""
        file = self.folder / "began"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def begin(self) -> str:
        """Have a response made in the background, and wait until its tool has begun. The id."""
        created = self.client.responses.create(model="agent", input="Begin", background=True)
        until(lambda: self.began)
        return created.id

    def answer(self, response: str) -> str:
        """Let the tool end; the answer."""
        (self.folder / "go").touch()
        until(lambda: self.client.responses.retrieve(response).status == "completed")
        return self.client.responses.retrieve(response).output_text

    @property
    def client(self) -> OpenAI:
        return self.server.client()


@pytest.fixture(params=["temporal", "database"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> Iterator[Cluster]:
    """A server that drives nothing, on Temporal; or one of those that share a database."""
    (tmp_path / "tools.py").write_text(TOOLS)
    words = ["--db", url, "--grace", "0.2"]
    more: list[str] = []
    if request.param == "temporal":
        temporal: Temporal = request.getfixturevalue("a_temporal")
        words += ["--temporal", temporal.address]
        more = ["--dispatch", "temporal"]
    with serving(tmp_path, AGENTS, args=[*words, *more]) as server:
        yield Cluster(tmp_path, server, words)


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_another_worker_goes_on_with_the_runs_of_one_that_died(cluster: Cluster, how: signal.Signals, url: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(cluster.worker())
        cluster.let_workers_drive(url)
        response = cluster.begin()
        assert cluster.began == [first.pid]
        stack.enter_context(cluster.worker())
        first.send_signal(how)
        until(lambda: len(cluster.began) == 2)
        (cluster.folder / "go").touch()
        if how == signal.SIGSTOP:
            first.send_signal(signal.SIGCONT)
        assert cluster.answer(response) == "Done."
        assert len(cluster.began) == 2
        assert (cluster.folder / "ended").read_text().split() == [str(cluster.began[1])]  # nothing of the woken one


@pytest.mark.full
@pytest.mark.parametrize("cluster", ["temporal"], indirect=True)
def test_a_worker_on_temporal_counts_what_it_does(cluster: Cluster) -> None:
    with working(cluster.folder, [*cluster.words, "--metrics-port", "0"]) as worker:
        seen = Watched(worker.metrics)
        assert seen.sum("retinue_processes_alive") == 2
        response = cluster.begin()
        assert (seen.sum("retinue_runs_driven"), seen.sum("retinue_runs_begun_total", kind="response")) == (1, 1)
        assert cluster.answer(response) == "Done."
        until(lambda: seen.sum("retinue_runs_ended_total", kind="response", status="completed") == 1)
        assert seen.sum("retinue_tool_calls_total", tool="work", outcome="result") == 1
        assert (seen.sum("retinue_steps_total"), seen.sum("retinue_run_takeovers_total")) == (2, 0)
        until(lambda: seen.sum("retinue_runs_driven") == 0)


@pytest.mark.parametrize("cluster", ["database"], indirect=True)
def test_a_server_drives_while_no_worker_lives_and_streams_what_workers_drive(cluster: Cluster, url: str) -> None:
    with cluster.worker() as worker:
        cluster.let_workers_drive(url)
        client = cluster.client
        stream = client.responses.create(model="agent", input="Begin", stream=True)
        kinds = [next(stream).type for _ in range(2)]
        until(lambda: cluster.began == [worker.pid])
        (cluster.folder / "go").touch()
        kinds += [event.type for event in stream]
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        (cluster.folder / "go").unlink()
        response = cluster.client.responses.create(model="agent", input="Begin", background=True).id
        until(lambda: len(cluster.began) == 2)
        worker.kill()
        worker.wait()
        until(lambda: len(cluster.began) == 3)  # by the server
        assert cluster.began[2] != worker.pid
        assert cluster.answer(response) == "Done."


@pytest.mark.full
@pytest.mark.parametrize("cluster", ["temporal"], indirect=True)
def test_a_run_that_a_worker_drives_is_cancelled_by_a_command(
    cluster: Cluster, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster.worker():
        response = cluster.begin()
        assert main(["runs", "list", "--json", "--db", url]) == 0
        (run,) = json.loads(capsys.readouterr().out)
        assert main(["runs", "cancel", run["id"], "--db", url]) == 0
        assert capsys.readouterr().out == f"{run['id']} is being cancelled\n"
        until(lambda: cluster.client.responses.retrieve(response).status == "cancelled")
        until(lambda: (cluster.folder / "interrupted").exists())


@pytest.mark.full
@pytest.mark.parametrize("cluster", ["database"], indirect=True)
def test_a_worker_without_temporal_goes_on_with_what_a_server_left(cluster: Cluster) -> None:
    response = cluster.begin()
    with cluster.worker() as worker:
        cluster.server.kill()
        until(lambda: len(cluster.began) == 2)
        assert cluster.began[1] == worker.pid
        cluster.server.restart()
        assert cluster.answer(response) == "Done."


@pytest.mark.full
def test_what_is_logged_while_temporal_is_away_is_json_and_a_metric_tells_it(
    tmp_path: Path, url: str, a_temporal: Temporal
) -> None:
    (tmp_path / "agents.yml").write_text(AGENTS)
    (tmp_path / "tools.py").write_text(TOOLS)
    words = ["--db", url, "--temporal", a_temporal.address, "--metrics-port", "0", "--log-format", "json"]
    with working(tmp_path, words) as worker:
        watched = Watched(worker.metrics)
        assert watched.sum("retinue_temporal_up") == 1
        a_temporal.kill()
        try:
            until(lambda: watched.sum("retinue_temporal_up") == 0)
            until(lambda: "retinue.temporal" in (tmp_path / "log").read_text())
        finally:
            a_temporal.start()
        until(lambda: watched.sum("retinue_temporal_up") == 1)
    lines = (tmp_path / "log").read_text().splitlines()
    assert all(json.loads(line)["message"] for line in lines)
