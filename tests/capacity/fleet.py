"""PostgreSQL, Temporal, a server, workers and the model's stand-in, as processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from fakes.postgres import Postgres, postgres
from fakes.served import Served, serving
from fakes.temporal import Temporal, temporal

PLACES = 8  # of a worker: its `--runs-at-once`
_TICKS = os.sysconf("SC_CLK_TCK")
_TESTS = str(Path(__file__).parents[1])
_AGENTS = """
retinue: 1
components:
  - name: model
    type: PromptModel
    params: {{model_name_or_path: worker, engine: openai, base_url: {address}, api_key: none, api: chat}}
tools:
  note:
    description: Notes a fact.
    callable_api: tools.py:note
    effects: read
    args_schema: {{fact: {{type: str}}}}
agents:
  - name: worker
    params: {{model: model, strategy: tool_calling, tools: [note]}}
"""
_TOOLS = '''
async def note(fact: str) -> str:
    """Note a fact."""
    return f"{fact} is noted, and here is a sentence of some length that a tool might give back."
'''


class Fleet:
    """The processes; `add_worker` starts one more."""

    def __init__(self, folder: Path, database: Postgres, url: str, engine: Temporal) -> None:
        self.endpoint = ""
        self.server: Served
        self._folder, self._database, self._url, self._temporal = folder, database, url, engine
        self._standin: subprocess.Popen[str]
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self, stack: ExitStack) -> None:
        """Start all but the workers, until the stack is closed."""
        words = [sys.executable, "-m", "capacity.endpoint"]
        path = os.pathsep.join(filter(None, [_TESTS, os.environ.get("PYTHONPATH")]))
        env = {**os.environ, "PYTHONPATH": path}
        self._standin = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        stack.callback(_end, self._standin)
        assert self._standin.stdout is not None
        self.endpoint = self._standin.stdout.readline().strip()
        (self._folder / "tools.py").write_text(_TOOLS, "utf-8")
        shared = ["--dispatch", "temporal", "--temporal", self._temporal.address, "--db", self._url]
        text = _AGENTS.format(address=self.endpoint)
        self.server = stack.enter_context(serving(self._folder, text, args=shared))

    def add_worker(self, stack: ExitStack) -> None:
        """Start one more worker, and wait until it works."""
        said = self._folder / f"worker {len(self._workers)}"
        words = [sys.executable, "-m", "retinue", "worker", str(self._folder / "agents.yml"), "--db", self._url]
        words += ["--temporal", self._temporal.address, "--runs-at-once", str(PLACES)]
        with said.open("w") as out:
            worker = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        stack.callback(_end, worker)
        self._workers.append(worker)
        until = time.monotonic() + 60
        while "at work" not in said.read_text("utf-8"):
            assert worker.poll() is None, said.read_text("utf-8")
            assert time.monotonic() < until, said.read_text("utf-8")
            time.sleep(0.05)

    def cpu(self) -> dict[str, float]:
        """The seconds of CPU of each kind of process so far."""
        return {
            "server": _cpu_of(self.server.process.pid),
            "worker": sum(_cpu_of(one.pid) for one in self._workers),
            "postgres": sum(map(_cpu_of, self._database.processes())),
            "temporal": _cpu_of(self._temporal.process.pid),
            "clients": time.process_time(),
            "endpoint": _cpu_of(self._standin.pid),
        }

    def stored(self) -> tuple[float, float]:
        """The database's transactions and bytes so far."""
        there = urlsplit(self._url)
        with psycopg.connect(
            host=parse_qs(there.query)["host"][0], user="postgres", dbname=there.path[1:], autocommit=True
        ) as connection:
            query = (
                "SELECT xact_commit, pg_database_size(datname) FROM pg_stat_database WHERE datname = current_database()"
            )
            row = connection.execute(query).fetchone()
        assert row is not None
        return float(row[0]), float(row[1])


@contextmanager
def fleet() -> Iterator[tuple[Fleet, ExitStack]]:
    """A fleet without workers, while in the block; what is started in the stack is ended with it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="capacity")))
        database, engine = stack.enter_context(postgres(safe=True)), stack.enter_context(temporal())
        there = Fleet(folder, database, database.database(), engine)
        there.start(stack)
        yield there, stack


def machine_seconds() -> float:
    """The seconds of CPU that this machine's cores were busy so far, with what its host took."""
    user, nice, system, _idle, _waits, irq, soft, steal = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    )
    return (user + nice + system + irq + soft + steal) / _TICKS


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # one of PostgreSQL's that ended: its first process has its time
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS  # its own, and that of its children that ended


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
