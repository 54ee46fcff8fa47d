"""`retinue serve` as a process, with a database of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from retinue import UsageError

KEY = "a-key-for-conformance"
_DEPLOYMENT = Path(__file__).with_name("deployment.yaml")
_READY = re.compile(r"^Retinue is ready on (http://\S+)$", re.MULTILINE)
_SECONDS = 60.0  # to be ready, and to end


@contextmanager
def served() -> Iterator[tuple[str, Path]]:
    """The server's address and the file it logs to, while it runs. Raises `UsageError` if it does not start."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        words = [sys.executable, "-m", "retinue", "serve", str(_DEPLOYMENT), "--port", "0"]
        words += ["--db", str(Path(folder) / "runs.sqlite"), "--api-key", KEY]
        with log.open("wb") as out:
            process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield _address(process, log), log
        finally:
            process.terminate()
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + _SECONDS
    while (said := _READY.search(log.read_text(encoding="utf-8", errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > until:
            raise UsageError(f"the server does not start: {log.read_text(encoding='utf-8', errors='replace')}")
        time.sleep(0.05)
    return said[1]
