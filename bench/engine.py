"""The embedded engine: a second process that need not read the fixed beginning, and replies beside a busy core."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from retinue import Agent, Delta, Message, PromptModel
from retinue.core.events import Replied
from retinue.core.prompt import Ask, Prompt
from retinue.extend import Reply
from retinue.models import weights
from retinue.tools import calculator, passages

ROOT = Path(__file__).parent.parent
QUESTIONS = ("Where is the oldest of the mills?", "Who was the first to cross the bay?")
TOKENS = 40  # of a reply
ROUNDS = 4
UNSETTLED = 2  # replies after a change of the load


def measure() -> str:
    """Two tables: two processes one after the other, and replies at rest and beside a busy core."""
    return f"{_processes()}\n{_busy_core()}"


# ── the fixed beginning ──────────────────────────────────────────────────────────────────────────


def _processes() -> str:
    with TemporaryDirectory() as cache:
        first, second = (_child("beginning", cache) for _ in range(2))
        size = sum(file.stat().st_size for file in Path(cache, "states").iterdir())
    rows = [
        f"| {name} | {got['tokens'] - got['cached']} of {got['tokens']} | {got['first']:.2f} | {got['next']:.2f} | "
        f"{max(0.0, got['first'] - got['next']):.2f} |"
        for name, got in (("first", first), ("second", second))
    ]
    return (
        "`retinue ask` with a search and the calculator, in two processes; the model is loaded already. Each asks two "
        "questions of equal length: what the first one takes longer to its first word is the fixed beginning.\n\n"
        "| process | tokens read for its first question | first word after, s | the same, second question | the "
        f"beginning, s |\n|---|---|---|---|---|\n{chr(10).join(rows)}\n\nThe second process takes "
        f"{second['first'] / first['first']:.1%} of the first one's time to its first word. The file has "
        f"{size / 1e6:.0f} MB.\n"
    )


def _beginning(path: str) -> dict[str, Any]:
    """Ask two questions, and return how long their first words took."""
    model = PromptModel(path)
    asyncio.run(model.abilities())
    agent = Agent(model, [passages(ROOT / "data/tasks/passages.jsonl"), calculator])
    first, following = (asyncio.run(_first_reply(agent, question)) for question in QUESTIONS)
    return {
        "tokens": first.usage.input_tokens,
        "cached": first.usage.cached_tokens,
        "first": first.first_token_seconds,
        "next": following.first_token_seconds,
    }


async def _first_reply(agent: Agent, question: str) -> Reply:
    async with aclosing(agent.start(question).events()) as events:
        async for event in events:
            if isinstance(event, Replied):
                return event.reply
    raise AssertionError("the model has not replied")


# ── a busy core ──────────────────────────────────────────────────────────────────────────────────


def _busy_core() -> str:
    with TemporaryDirectory() as cache:
        got = _child("busy", cache)
    rows, whole = [], {}
    for name, times in got.items():
        read, write = median(read for read, _ in times), median(write for _, write in times)
        whole[name] = median(read + write for read, write in times)
        rows.append(f"| {name} | {read:.2f} | {(TOKENS - 1) / write:.1f} | {whole[name]:.2f} |")
    return (
        f"Replies of {TOKENS} tokens to prompts of which some 60 tokens are new, at rest and beside a program that "
        f"keeps one core busy, in turn (medians of {2 * ROUNDS}; {os.cpu_count()} cores). The first {UNSETTLED} "
        "replies after a change are left out: one is written as before, and the next may have to read its whole "
        "prompt.\n\n"
        "| | first word after, s | tokens written a second | the reply, s |\n|---|---|---|---|\n"
        f"{chr(10).join(rows)}\n\nBeside a busy core a reply takes {whole['busy'] / whole['rest']:.2f} times as long.\n"
    )


def _busy(path: str) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds to the first word and from there to the last, of replies at rest and beside a busy core."""
    model = PromptModel(path, options={"ignore_eos": True})
    found: dict[str, list[tuple[float, float]]] = {"rest": [], "busy": []}
    for around in (0, 1):
        found["rest"] += _settled(model, 2 * around)
        with _busy_program():
            found["busy"] += _settled(model, 2 * around + 1)
    return found


def _settled(model: PromptModel, block: int) -> list[tuple[float, float]]:
    """Return the times of ROUNDS replies, after those that do not count."""
    first = block * (UNSETTLED + ROUNDS)
    times = [asyncio.run(_timed(model, first + number)) for number in range(UNSETTLED + ROUNDS)]
    return times[UNSETTLED:]


@contextmanager
def _busy_program() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        time.sleep(0.5)  # it starts
        try:
            yield
        finally:
            program.kill()


async def _timed(model: PromptModel, number: int) -> tuple[float, float]:
    known = "".join(f"{one}. The mill of Ottery was built in {1800 + one} by Hannah Pell.\n" for one in range(12))
    new = f"Mill {number} of Marl has {number + 3} wheels and {number + 7} floors. It stands by the canal that "
    text = f"{known}{new}Tom Rudd dug for the town when he was {number + 30} years old.\nThis mill"
    request = Ask(Prompt(Message("user", text)), text, _none, max_tokens=TOKENS)
    began = time.perf_counter()
    first = 0.0
    async with aclosing(model.reply(request)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Delta):
                first = first or time.perf_counter()
    return first - began, time.perf_counter() - first


def _none(decided: object) -> Reply:
    return Reply("")


def _child(what: str, cache: str) -> Any:
    """Return what another process measures, with `cache` for its states."""
    words = [sys.executable, "-m", "bench.engine", what, str(weights.find(""))]
    environ = {**os.environ, "RETINUE_CACHE": cache}
    done = subprocess.run(words, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps({"beginning": _beginning, "busy": _busy}[sys.argv[1]](sys.argv[2])))
