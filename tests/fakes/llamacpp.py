"""The real llama.cpp server with the embedded model, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SERVE = """
import sys, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
if sys.argv[2] != "0":
    parameters.port = int(sys.argv[2])
parameters.n_ctx = 2048
parameters.n_parallel = 1
parameters.verbosity = -1
parameters.no_extra_bufts = True
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def llamacpp_server(weights: Path, port: int = 0) -> Iterator[subprocess.Popen[str]]:
    """The process, which may not listen yet; killed at the end. `port`: 0 for any."""
    words = [sys.executable, "-c", _SERVE, str(weights), str(port)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def address(process: subprocess.Popen[str]) -> str:
    """Where it listens, once it does."""
    assert process.stdout is not None
    return next(line.strip() for line in process.stdout if line.startswith("http"))
