"""`retinue serve --reload`: a change of code or files is served at once, and no process is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fakes.until import until

KEY = "sk-of-a-developer"
APP = """
from retinue import Agent, PromptModel
import words

agent = Agent(PromptModel(script=["hello"]), name=words.NAME)
"""


class Developed:
    """A server under development: what it says, and what it serves."""

    def __init__(self, folder: Path) -> None:
        self.said = ""
        words = ["serve", "app.py", "--reload", "--port", "0", "--api-key", KEY, "--log-level", "error"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "retinue", *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line

    def end(self, by: signal.Signals) -> int:
        """End it, and wait until nothing of it is left. Return its exit status."""
        self.process.send_signal(by)
        status = self.process.wait(60)
        self._reading.join(30)  # the server's process had the pipe, too
        assert not self._reading.is_alive()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    @property
    def address(self) -> str:
        return self.said.rpartition("Retinue is ready on ")[2].split("\n")[0]

    def names(self) -> list[str]:
        """The served agents; none while nothing answers."""
        try:
            found = httpx.get(f"{self.address}/v1/models", headers={"authorization": f"Bearer {KEY}"}).json()
        except (httpx.HTTPError, httpx.InvalidURL):
            return []
        return [one["id"] for one in found["data"] if one["id"] != "minilm"]


@pytest.fixture
def developed(tmp_path: Path) -> Iterator[Developed]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "words.py").write_text("NAME = 'first'\n")
    server = Developed(tmp_path)
    until(lambda: server.names() == ["first"], 60)
    yield server
    if server.process.returncode is None:
        server.end(signal.SIGKILL)


def test_a_change_is_served_and_a_broken_one_shown(developed: Developed, tmp_path: Path) -> None:
    before = developed.address
    (tmp_path / "words.py").write_text("NAME = 'second'\n")
    until(lambda: developed.names() == ["second"], 60)
    assert developed.address == before
    assert "changed: words.py; starting again" in developed.said
    (tmp_path / "words.py").write_text("NAME = \n")
    until(lambda: "waiting for a change" in developed.said, 60)
    assert "words.py:1: SyntaxError: invalid syntax" in developed.said
    assert "Traceback" not in developed.said
    (tmp_path / "words.py").write_text("NAME = 'third'\n")
    until(lambda: developed.names() == ["third"], 60)
    assert developed.end(signal.SIGINT) == 0


@pytest.mark.full
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind(developed: Developed, by: signal.Signals) -> None:
    assert developed.end(by) == (0 if by is signal.SIGTERM else -signal.SIGKILL)
