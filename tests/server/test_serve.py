"""`retinue serve` as a process: when it is ready, what it says when it cannot be, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.openai_server import OpenAIServer
from fakes.served import Served, serving
from retinue.cli import main
from retinue.server.models.embeddings import MODEL

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenAI's of its assistants
AGENT = """
agents:
  - name: agent-1
    params: {model: scripted, strategy: tool_calling, script: [{say: one two three, delay: %s}]}
"""
PYTHON = [sys.executable, "-m", "retinue"]


@contextmanager
def begun(*words: str, env: Mapping[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that is ready, and its address."""
    process = subprocess.Popen(
        [*PYTHON, "serve", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Retinue is ready on http://127.0.0.1:"), line
        yield process, line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def models(url: str, key: str) -> list[str]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        return [model.id for model in client.models.list() if model.id != MODEL]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agents.yml"
    path.write_text(AGENT % 0)
    return path


@pytest.mark.full
def test_a_key_is_made_once_and_shown_once(file: Path, tmp_path: Path) -> None:
    db = str(tmp_path / "some where" / "runs.db")
    with begun(str(file), "--db", db) as (process, url):
        assert process.stderr is not None
        key = process.stderr.readline().split()[-1]
        assert key.startswith("sk-")
        assert models(url, key) == ["agent-1"]
    with begun(str(file), "--db", db) as (process, url):
        assert models(url, key) == ["agent-1"]
        process.terminate()
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
    assert key.encode() not in Path(db).read_bytes()


@pytest.mark.full
def test_keys_of_the_command_and_of_the_environment(file: Path, tmp_path: Path) -> None:
    env = {"RETINUE_API_KEYS": "key-one, key-two"}
    with begun(str(file), "--db", str(tmp_path / "x"), "--api-key", "key-three", env=env) as (_, url):
        assert [models(url, key) for key in ("key-one", "key-two", "key-three")] == [["agent-1"]] * 3
        with pytest.raises(openai.AuthenticationError):
            models(url, "key-four")


@pytest.mark.full  # as many other tests show in a process that is there
def test_the_database_may_be_postgresql(file: Path, a_postgres: Any) -> None:
    with begun(str(file), "--db", a_postgres.database(), "--api-key", "key-one") as (_, url):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="key-one", max_retries=0)
        with client:
            assistant = client.beta.assistants.create(model="agent-1")
            run = client.beta.threads.create_and_run_poll(
                assistant_id=assistant.id, thread={"messages": [{"role": "user", "content": "Hi"}]}
            )
            said = client.beta.threads.messages.list(run.thread_id, run_id=run.id).data
        assert (run.status, said[0].content[0].text.value) == ("completed", "one two three")  # type: ignore[union-attr]


def test_what_keeps_it_from_starting(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.yml").write_text("components: []\n")
    (tmp_path / "wrong.yml").write_text("agents: [{name: a, params: {model: x, modle: x}}]\n")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE mine (a)")
    (tmp_path / "text.db").write_text("no database at all, but a text of some length\n" * 100)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        wrong = {
            (str(tmp_path / "gone.yml"),): "there is no such file",
            (str(tmp_path / "none.yml"),): "no agents and no pipelines to serve",
            (str(tmp_path / "wrong.yml"),): "modle",
            (str(file), "--port", port): "the port is in use; give another with --port",
            (str(file), "--host", "no.such.host.invalid"): "cannot listen on no.such.host.invalid:8000",
            (str(file), "--db", str(tmp_path / "other.db")): "holds tables of another application",
            (str(file), "--db", str(tmp_path / "text.db")): "file is not a database",
            (str(file), "--db", "mysql://u:secret@h/d"): "unsupported database 'h/d': expected sqlite:///FILE or ",
            (str(file), "--db", "postgresql://u:secret@127.0.0.1:1/d"): "the database: ",
            (str(file), "--api-key", "two words"): "an API key must consist of printable ASCII characters",
            (): "give a FILE of agents, or describe one in the environment",
        }
        for words, reason in wrong.items():
            more = () if "--port" in words or "--host" in words else ("--port", "0")
            db = () if "--db" in words else ("--db", str(tmp_path / "x.db"))
            status, said = main(["serve", *words, *more, *db]), capsys.readouterr()
            assert (status, said.out) == (2, "")
            assert reason in said.err, words
            assert said.err.startswith("retinue: ")
            assert "secret" not in said.err
            assert len(said.err.splitlines()) == 1, said.err


def test_a_database_has_one_server(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path, AGENT % 0) as first:
        assert main(["serve", str(file), "--port", "0", "--db", str(first.db)]) == 2
    assert "another server has" in capsys.readouterr().err


def test_without_the_extra_it_says_so(file: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; from retinue.cli import main; "
        f"sys.exit(main(['serve', {str(file)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "pip install 'retinue[server]'" in done.stderr


class Streaming(threading.Thread):
    """Reads a run on a new thread as it is streamed; `seen` are its events, `broken` what cut it off."""

    def __init__(self, server: Served) -> None:
        super().__init__()
        self.began = threading.Event()
        self.seen: list[str] = []
        self.broken = ""
        self._server = server

    def run(self) -> None:
        with self._server.client() as client:
            self.assistant = client.beta.assistants.create(model="agent-1")
            self.thread = client.beta.threads.create(messages=[{"role": "user", "content": "Hi"}])
            try:
                for event in client.beta.threads.runs.create(
                    self.thread.id, assistant_id=self.assistant.id, stream=True
                ):
                    self.seen.append(event.event)
                    if event.event == "thread.run.in_progress":
                        self.began.set()
            except Exception as error:
                self.broken = type(error).__name__


def test_when_told_to_stop_it_lets_runs_finish(tmp_path: Path) -> None:
    with serving(tmp_path, AGENT % 1, args=["--grace", "30"]) as server:
        reading = Streaming(server)
        reading.start()
        assert reading.began.wait(30)
        assert server.stop() == 0
        reading.join()
    assert reading.seen[-1] == "thread.run.completed"
    assert not reading.broken


@pytest.mark.full
def test_what_does_not_finish_in_time_goes_on_at_the_next_start(tmp_path: Path) -> None:
    with serving(tmp_path, AGENT % 2, args=["--grace", "0"]) as server:
        reading = Streaming(server)
        reading.start()
        assert reading.began.wait(30)
        assert server.stop() == 0
        reading.join()
        assert reading.broken
        assert "Traceback" not in server.log
        server.restart()
        with server.client() as client:
            (run,) = client.beta.threads.runs.list(reading.thread.id).data
            run = client.beta.threads.runs.poll(run.id, thread_id=reading.thread.id)
            assert run.status == "completed"
            assert len(client.beta.threads.messages.list(reading.thread.id, run_id=run.id).data) == 1


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, AGENT % 60, args=["--grace", "60"]) as server:
        reading = Streaming(server)
        reading.start()
        assert reading.began.wait(30)
        server.process.send_signal(signal.SIGINT)
        until = time.monotonic() + 30
        while not _refused(server.root) and time.monotonic() < until:  # the first was heard
            time.sleep(0.05)
        assert server.stop() == -signal.SIGTERM
        reading.join()


def _refused(root: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(root.rpartition(":")[2])), timeout=5).close()
    except OSError:
        return True
    return False


def test_its_models_do_not_ask_the_server_itself(tmp_path: Path) -> None:
    file = 'agents: [{name: agent-1, params: {model: "openai:gpt-5-mini", strategy: tool_calling}}]'
    elsewhere = {"OPENAI_API_KEY": "sk-own", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    with serving(tmp_path, file, env=elsewhere) as server:
        assert "own address" not in server.log
        own = server.url
        server.stop()
        server.restart(OPENAI_BASE_URL=own)
        assert "OPENAI_BASE_URL is this server's own address" in server.log


@pytest.mark.full
def test_the_environment_may_describe_the_agent_as_opeas_do(tmp_path: Path) -> None:
    (tmp_path / "tools.yml").write_text("duckduckgo: {callable_api: calculator, description: Sums.}\n")
    with OpenAIServer() as model:
        env = {
            "strategy": "react",
            "llm_engine": "vllm",
            "llm_endpoint_url": model.url.removesuffix("/v1"),
            "model": "a-model",
            "recursion_limit": "5",
            "temperature": "0.01",
            "max_new_tokens": "64",
            "with_memory": "true",
            "require_human_feedback": "",
            "AGENT_NAME": "supervisor",
        }
        with begun("--db", str(tmp_path / "x.db"), "--api-key", "key-one", env=env) as (_, url):
            assert models(url, "key-one") == ["supervisor"]


def test_what_is_wrong_with_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("strategy", "raect")
    monkeypatch.setenv("model", "x")
    assert main(["serve", "--db", str(tmp_path / "y.db")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("retinue: environment:")
    assert "unknown strategy 'raect'" in said
