"""A real `retinue serve` as a process of its own, and the official SDK's clients for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import openai

from . import fork_server

Process: TypeAlias = "subprocess.Popen[str] | fork_server.Forked"
KEY = "sk-test-0123456789abcdef"
_READY = re.compile(r"Retinue is ready on (http://127\.0\.0\.1:(\d+))\s*")
_SECONDS = 30.0


class Served:
    """A server on `url` with the runs in `db`. It can be killed, stopped and started again where it was."""

    process: Process
    root: str  # its address
    url: str  # that of its API

    def __init__(self, file: Path, env: Mapping[str, str], args: Sequence[str]) -> None:
        self.key = KEY
        self.db = file.with_name("runs.db")
        self.started = 0.0  # when the process was started, in Unix seconds
        self.log = ""
        self._file = file
        self._env = {**os.environ, **env}
        self._args = args
        self._port = "0"
        self._reading: threading.Thread
        self.restart()

    def restart(self, **env: str) -> None:
        """Start it with the same file, database and port, and wait until it is ready. `env` is for this time only."""
        self.root = self.url = ""
        self.started = time.time()
        words = ["serve", str(self._file), "--port", self._port, "--db", str(self.db), "--api-key", self.key]
        self.process = _started([*words, *self._args], {**self._env, **env})
        said = threading.Event()
        self._reading = threading.Thread(target=self._read, args=[said], daemon=True)
        self._reading.start()
        said.wait(_SECONDS)
        if not self.url:
            self.kill()
            raise AssertionError(f"retinue serve did not get ready; it said:\n{self.log}")

    def beside(self, **env: str) -> Served:
        """Another server with the same file, database and settings, on a port of its own."""
        return Served(self._file, {**self._env, **env}, self._args)

    def kill(self) -> None:
        """End it without a warning (SIGKILL)."""
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """Ask it to end (SIGTERM); its exit status."""
        self.process.terminate()
        try:
            return self._ended()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"retinue serve did not stop; it said:\n{self.log}") from None

    def client(self, **options: Any) -> openai.OpenAI:
        """The SDK's blocking client. It refuses answers that are not what its types say, and tries nothing twice."""
        return openai.OpenAI(**self._options(options))

    def async_client(self, **options: Any) -> openai.AsyncOpenAI:
        """The SDK's other client, likewise."""
        return openai.AsyncOpenAI(**self._options(options))

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        fixed = {"base_url": self.url, "api_key": self.key, "max_retries": 0, "timeout": _SECONDS}
        return {**fixed, "_strict_response_validation": True, **options}

    def _read(self, said: threading.Event) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log += line
            if ready := _READY.fullmatch(line):
                self.root, self._port = ready.groups()
                self.url = f"{self.root}/v1"
                said.set()
        said.set()  # it has ended

    def _ended(self) -> int:
        status = self.process.wait(_SECONDS)
        self._reading.join(_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


def _started(words: Sequence[str], env: Mapping[str, str]) -> Process:
    words = ["-m", "retinue", *words]
    if fork_server.can(env):
        return fork_server.Forked(words, env)
    return subprocess.Popen(
        [sys.executable, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def serving(
    folder: Path, yaml_text: str, *, env: Mapping[str, str] | None = None, args: Sequence[str] = ()
) -> Iterator[Served]:
    """`retinue serve` for a file with this text in `folder`, on a free port, while in the block."""
    file = folder / "agents.yml"
    file.write_text(yaml_text, "utf-8")
    server = Served(file, env or {}, args)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()
