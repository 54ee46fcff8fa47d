"""The guardian: a process that starts programs for another one, and stops them when that one is gone.

It runs as a program of its own, in a session of its own, so that neither Ctrl-C nor `kill -9` of the other one reaches
what it started before it can stop them in order. It reads JSON lines from its standard input (`name`, `words`, `env`,
`log`, `user`, `stop`), and writes when a program has started and ended (`name` with `pid` or `status`). When its input
ends, it stops the programs, the last one first. It imports nothing of ours, so that it is small and quick to start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

_PATIENCE = 20.0  # seconds to end before a program is killed


class Guardian:
    """The programs, in the order in which they were started."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self._one = threading.Lock()

    def start(self, name: str, words: list[str], **how: Any) -> None:
        """Start a program. Its output goes to the file `log`, which only its owner may read."""
        handle = os.open(how["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "ab") as log:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **how["env"]},
                    user=how["user"],
                    cwd="/" if how["user"] else None,
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                self._tell(name=name, status=127)
                return
        self._running.pop(name, None)
        self._running[name] = process, signal.Signals[how["stop"]]
        self._tell(name=name, pid=process.pid)
        threading.Thread(target=self._wait, args=(name, process), daemon=True).start()

    def stop(self) -> None:
        """Stop all of them."""
        for process, how in reversed(list(self._running.values())):
            if process.poll() is None:
                process.send_signal(how)
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _wait(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._tell(name=name, status=process.wait())

    def _tell(self, **what: Any) -> None:
        with self._one, suppress(OSError, ValueError):  # nobody listens any more
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()


def main() -> None:
    """Start what the input says, and stop it at the input's end, or upon SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    guardian = Guardian()
    try:
        while line := sys.stdin.readline():
            guardian.start(**json.loads(line))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        guardian.stop()


if __name__ == "__main__":
    main()
