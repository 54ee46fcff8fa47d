"""Agents in Python that keep their runs in a store (deployment/durable.py), and whose processes are killed: at each
passage of each named point, or at random while two processes work on one store."""

from __future__ import annotations

import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import points
from .harness import DEPLOYMENT, outside
from .logs import gaps, logs
from .orders import WAYS, Order, Tally
from .parts import Told

_STEPS = "look, note, pay, look+note+pay, sign"
_TEAM = "look+note, pay, note, sign"
_PATIENCE = 90.0  # seconds for an order
_BETWEEN = (0.3, 2.5)  # seconds between two kills at random


class Program:
    """A program with agents that keep their runs in `store`. One process of it works at a time."""

    def __init__(self, folder: Path, store: str, world: str) -> None:
        path = os.pathsep.join(filter(None, [str(DEPLOYMENT.parents[1]), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, "CHAOS_WORLD": world, "PYTHONPATH": path}
        words = [sys.executable, str(folder / "durable.py"), store]
        with (folder / "errors").open("a") as errors:
            self._program = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
            )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._pid = 0
        self._exit: int | None = None
        self.answers: list[dict[str, Any]] = []

    def _read(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            self._said.put(line)

    def begin(self, orders: Sequence[Order], crash: str = "") -> None:
        """Begin a process that works off the orders, and dies at `crash` (`POINT:PASSAGE`)."""
        given = {"orders": [[one.number, one.question, one.model] for one in orders], "crash": crash}
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps(given) + "\n")
        self._program.stdin.flush()
        self.answers, self._exit, self._pid = [], None, 0
        while not self._pid:
            self._hear(30.0)

    def _hear(self, seconds: float) -> None:
        said: dict[str, Any] = json.loads(self._said.get(timeout=seconds))
        self._pid, self._exit = said.get("pid", self._pid), said.get("exit", self._exit)
        self.answers += [said] if "number" in said else []

    def wait(self, seconds: float) -> int | None:
        """Wait for the process. Return its exit status, or `None` if it is still there."""
        until = time.monotonic() + seconds
        with suppress(queue.Empty):
            while self._exit is None:
                self._hear(max(0.001, until - time.monotonic()))
        return self._exit

    def kill(self) -> None:
        """Kill the process."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self.wait(10.0)

    def end(self) -> None:
        """End the program."""
        if self._exit is None and self._pid:
            self.kill()
        self._program.kill()
        self._program.communicate()


@dataclass
class Place:
    """A store, the world outside, and a folder with the program, of which there are some."""

    store: str
    world: str
    folder: Path
    programs: list[Program]

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self.store if "://" in self.store else f"sqlite:///{self.store}"

    def effects(self) -> list[dict[str, Any]]:
        """What the ledger has."""
        with urllib.request.urlopen(f"{self.world}/effects") as response:
            found: list[dict[str, Any]] = json.load(response)
        return found


@dataclass
class Killed:
    """What came of kills: the tally of the orders, gaps in logs, and for each order that a death interrupted the
    seconds from the start of the process that went on until its next event."""

    kills: int = 0
    tally: Tally = field(default_factory=Tally)
    gaps: int = 0
    further: list[float] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """Promises that were not kept."""
        return self.tally.broken + self.gaps


@contextmanager
def place(db: str = "", delay: float = 0.05, programs: int = 1) -> Iterator[Place]:
    """A store, in a file of its own or at `db`, with the world outside, while in the block."""
    folder = Path(tempfile.mkdtemp(prefix="chaos"))
    try:
        for name in ("tools.py", "durable.py"):
            shutil.copy(DEPLOYMENT / name, folder)
        with outside(delay) as world:
            store = db or str(folder / "runs.db")
            at = Place(store, world, folder, [Program(folder, store, world) for _ in range(programs)])
            try:
                yield at
            finally:
                for one in at.programs:
                    one.end()
    finally:
        shutil.rmtree(folder)


def die(db: str = "", *, team: bool = False, wanted: Sequence[str] = (), most: int = 100, told: Told) -> Killed:
    """Let a process die at each passage of each point (or of those `wanted`), at most `most` of each, until it passes
    no further; another one then goes on."""
    seen, orders = Killed(), list[Order]()
    with place(db) as at:
        (program,) = at.programs
        for which, point in enumerate(wanted or points.names(team=team)):
            for number in range(1, most + 1):
                order = _order(f"{'team' * team}{which}x{number}", team=team)
                program.begin([order], f"{point}:{number}")
                if program.wait(_PATIENCE) == 0:
                    break
                died = time.time()
                seen.kills += 1
                orders.append(order)
                program.begin([order])
                program.wait(_PATIENCE)
                _note(order, program.answers)
                told(f"{point}, passage {number}: {order.run.get('status')}")
                log = logs(at.url).get(order.run.get("run", ""), [])
                later = [when for _, when, _ in log if when > died]
                seen.further += [min(later) - died] if later else []
        return _count(at, seen, orders)


def kill_two(kills: int, db: str = "", *, at_once: int = 6, seed: int = 0, told: Told) -> Killed:
    """Have two processes work off the same orders on one store, and kill one or the other at random."""
    dice, seen, done = random.Random(seed), Killed(), list[Order]()
    with place(db, programs=2) as at:
        while seen.kills < kills:
            orders = [_order(f"two{len(done) + n}", team=n % 3 == 2) for n in range(at_once)]
            done += orders
            answers: list[dict[str, Any]] = []
            for one in at.programs:
                one.begin(orders)
            while seen.kills < kills:
                time.sleep(dice.uniform(*_BETWEEN))
                if any(one.wait(0.0) == 0 for one in at.programs):
                    break
                killed = at.programs[dice.randrange(2)]
                killed.kill()
                seen.kills += 1
                answers += killed.answers
                killed.begin(orders)
            for one in at.programs:
                one.wait(_PATIENCE)
                answers += one.answers
            for order in orders:
                _note(order, answers)
            told(f"{seen.kills} kills, {len(done)} runs")
        return _count(at, seen, done)


def _order(number: str, *, team: bool) -> Order:
    return Order(number, _TEAM if team else _STEPS, team=team)


def _note(order: Order, answers: Sequence[dict[str, Any]]) -> None:
    mine = [one for one in answers if one.get("number") == order.number]
    if mine:
        order.run = {"status": mine[0]["reason"], "run": mine[0]["run"]}
        order.said = sorted({one["answer"] for one in mine})
        order.happened = sum(one["told"].count("happened") for one in mine)
        order.missing = sum(one["told"].count("missing") for one in mine)


def _count(at: Place, seen: Killed, orders: Sequence[Order]) -> Killed:
    """Count what became of the orders, at the ledger and in the logs."""
    effects, kept = at.effects(), logs(at.url)
    seen.gaps = sum(map(gaps, kept.values()))
    counted = seen.tally = Tally(len(orders))
    for order in orders:
        mine = [(one["tool"], one["what"]) for one in effects if one["what"].partition(".")[0] == order.number]
        there = Counter(mine)
        fine = order.said == [order.answer] and set(there) == set(order.wanted)
        doubled = [tool for (tool, _), times in there.items() if times > 1 and WAYS[tool] != "read"]
        counted.lost += not fine
        counted.doubled_once += sum(WAYS[tool] == "once" for tool in doubled)
        counted.doubled_keyed += sum(WAYS[tool] == "idempotent" for tool in doubled)
        counted.happened += order.happened
        counted.missing += order.missing
        if not fine or doubled:
            words = (at.folder / "errors").read_text("utf-8")[-2_000:]
            counted.problems.append(f"{order.number}: {order.run}, {order.said}, {sorted(there.items())}\n{words}")
    return seen
