"""`retinue up`: whatever ends it, all that it started is stopped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from fakes.until import until
from retinue.cli import main

pytestmark = pytest.mark.full
AGENTS = """
retinue: 1
components:
  - name: model
    type: PromptModel
    params: {engine: scripted, script: [{finish: Hello.}]}
agents:
  - name: agent
    params: {model: model, strategy: tool_calling}
"""
_PROGRAMS = ["postgres", "server", "worker 1", "worker 2"]


class Up:
    """`retinue up` as a process; what it says."""

    def __init__(self, folder: Path, *words: str) -> None:
        (folder / "agents.yml").write_text(AGENTS)
        self.temporal = "--temporal" in words
        self._said = folder / "said"
        words = ("up", str(folder / "agents.yml"), "--port", "0", "--data", str(folder / "data"), *words)
        with self._said.open("w") as said:
            self.process = subprocess.Popen([sys.executable, "-m", "retinue", *words], stdout=said, stderr=said)

    @property
    def said(self) -> str:
        return self._said.read_text()

    def processes(self) -> dict[str, int]:
        """The programs that it says it runs."""
        return {name: int(pid) for name, pid in re.findall(r"^([a-z]+(?: \d)?) runs as process (\d+)", self.said, re.M)}

    def ready(self) -> dict[str, int]:
        """The programs, once all of them run."""

        def there() -> bool:
            assert self.process.poll() is None, self.said
            return sorted(self.processes()) == sorted([*_PROGRAMS, *["temporal"] * self.temporal])

        until(there, 90)
        return self.processes()

    @property
    def key(self) -> str:
        (key,) = re.findall(r"Bearer (\S+)", self.said)
        return str(key)

    def ask(self) -> str | None:
        (address,) = re.findall(r"ready on (http\S+)", self.said)
        client = OpenAI(base_url=f"{address}/v1", api_key=self.key, max_retries=0)
        said = client.chat.completions.create(model="agent", messages=[{"role": "user", "content": "Hi"}])
        return said.choices[0].message.content


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user may enter."""
    made = Path(tempfile.mkdtemp(prefix="up"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="for root only, as whom PostgreSQL does not run")
def test_a_folder_that_postgresql_may_not_enter_is_named(folder: Path) -> None:
    folder.chmod(0o700)
    up = Up(folder)
    assert up.process.wait(90) == 2
    assert f"may not enter {folder}" in up.said


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("how", "more"), [(signal.SIGINT, ()), (signal.SIGTERM, ("--temporal",)), (signal.SIGKILL, ())]
)
def test_what_it_started_is_stopped(folder: Path, how: signal.Signals, more: tuple[str, ...]) -> None:
    up = Up(folder, *more)
    try:
        started = up.ready()
        assert up.ask() == "Hello."
    finally:
        up.process.send_signal(how)
        status = up.process.wait(60)
    assert status == (-signal.SIGKILL if how == signal.SIGKILL else 0)
    until(lambda: all(map(gone, started.values())), 60)


def test_what_ended_is_started_again_and_the_data_is_kept(folder: Path) -> None:
    up = Up(folder)
    try:
        before = up.ready()
        os.kill(before["worker 1"], signal.SIGKILL)
        until(lambda: up.processes()["worker 1"] != before["worker 1"], 60)
        assert up.ask() == "Hello."
        key = up.key
    finally:
        up.process.terminate()
        assert up.process.wait(60) == 0
    assert (folder / "data" / "postgres" / "PG_VERSION").exists()
    assert (folder / "data" / "key").stat().st_mode & 0o777 == 0o600
    again = Up(folder, "--", "--run-ttl", "77")
    try:
        again.ready()
        assert (again.ask(), again.key) == ("Hello.", key)
        for number in again.processes().values():
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            assert b"retinue" not in words or words[-3:-1] == [b"--run-ttl", b"77"]
    finally:
        again.process.terminate()
        assert again.process.wait(60) == 0


def test_what_does_not_get_ready_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = folder / "wrong.yml"
    wrong.write_text("retinue: 1\nagents: 7\n")
    assert main(["up", str(wrong)]) == 2
    assert "wrong.yml:2" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        up = Up(folder, "--port", str(taken.getsockname()[1]))
        assert up.process.wait(90) == 2
    assert "retinue: server does not get ready: " in up.said
    assert "the port is in use" in up.said
    assert "Traceback" not in up.said
    until(lambda: all(map(gone, up.processes().values())))
