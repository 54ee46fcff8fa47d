"""Starts of `retinue` without its second of imports: a process that has imported it, and forks.

What is started is a process as any other, with the environment, the folder and the output that it was given: it can be
killed, has an exit status, and ends as Python ends. `python -m retinue` itself is what `Popen` of it gives.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

_AT_ITS_BEGINNING = ("LD_PRELOAD", "PYTHONPATH", "RETINUE_CRASHPOINT")  # what is looked at no later than by an import
_DIGITS = 12  # of a number that is told
_lock = threading.Lock()
_used = [False]
_servers: list[socket.socket] = []  # one, once it was needed


def use() -> None:
    """Have processes forked from now on. Who measures how long a start takes, does not."""
    _used[0] = True


def can(env: Mapping[str, str]) -> bool:
    """Whether a process with this environment may be forked."""
    return _used[0] and all(env.get(name, "") == os.environ.get(name, "") for name in _AT_ITS_BEGINNING)


class Forked:
    """A process, as far as tests use `subprocess.Popen`; `stdout` has its output and its errors."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], folder: Path | None = None) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        reading, writing = os.pipe()
        self._told, telling = socket.socketpair()
        with telling:
            self.pid = _ask([list(words), dict(env), str(folder or Path.cwd())], writing, telling, self._told)
        os.close(writing)
        self.stdout: IO[str] | None = os.fdopen(reading, encoding="utf-8")
        self._told.setblocking(False)
        self._looking = threading.Lock()

    def poll(self) -> int | None:
        """Its exit status, `None` while it runs; minus the signal's number if a signal ended it."""
        with self._looking, suppress(BlockingIOError):
            if self.returncode is None:
                self.returncode = int(self._told.recv(_DIGITS))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.poll() is None:
            waiting = select.poll()
            waiting.register(self._told, select.POLLIN)
            waiting.poll(None if timeout is None else 1000 * timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def __del__(self) -> None:
        self._told.close()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and that is being told
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Ran(NamedTuple):
    """How a process ended, and all that it said."""

    status: int
    text: str


def ran(words: Sequence[str], env: Mapping[str, str], folder: Path) -> Ran:
    """What `retinue` with these words came to."""
    process = Forked(words, env, folder)
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read()
    return Ran(process.wait(60), said)


def _ask(order: list[object], output: int, telling: socket.socket, told: socket.socket) -> int:
    """Have a process started; its id."""
    with _lock:
        if not _servers:
            ours, theirs = socket.socketpair()
            with theirs:
                words = [sys.executable, __file__, str(theirs.fileno())]
                process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            _servers.append(ours)
            atexit.register(_stop, ours, process)
        socket.send_fds(_servers[0], [json.dumps(order).encode() + b"\n"], [output, telling.fileno()])
        return int(told.recv(_DIGITS))


def _stop(orders: socket.socket, process: subprocess.Popen[bytes]) -> None:
    orders.close()
    process.wait()


def _serve(orders: socket.socket) -> None:
    """Fork for each order; returns in the processes that were forked, ready to be `retinue`."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what watches ends unwatched
    while True:
        text, files, _, _ = socket.recv_fds(orders, 65_536, 2)
        if not text:
            sys.exit()
        while not text.endswith(b"\n"):
            text += orders.recv(65_536)
        if os.fork() == 0:
            orders.close()
            if _watched(*files):
                return _become(*json.loads(text))
        for file in files:
            os.close(file)


def _watched(output: int, ended: int) -> bool:
    """Fork once more, and tell how that process ends; whether this is that process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        for target in (1, 2):
            os.dup2(output, target)
        os.close(output)
        os.close(ended)
        return True
    os.close(output)
    os.write(ended, b"%*d" % (_DIGITS, child))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(ended, b"%*d" % (_DIGITS, status))
    os._exit(0)


def _become(words: list[str], env: dict[str, str], folder: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv[:] = ["retinue", *words]
    sys.path[0] = folder


if __name__ == "__main__":
    import retinue.cli.serve
    import retinue.server.process  # noqa: F401 - for those who are forked

    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("retinue", run_name="__main__", alter_sys=False)
