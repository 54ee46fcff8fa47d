"""Runs the programs of a folder in `PythonRuntime` and writes what came of them as JSON: in a process of its own, so
that its memory and its children are those of the programs alone.

    python -m fakes.running_programs FOLDER LIMITS REPLACEMENTS STEP     (the second and the third as JSON)

One of STEP programs is run.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retinue import ToolError
from retinue._internal.concurrency import gather_bounded
from retinue.components import PythonRuntime

AT_ONCE = 2


async def outcomes(programs: Mapping[str, str], limits: Mapping[str, float]) -> dict[str, Any]:
    """Of each program by name: `gives` (its result as `repr`) or `ends` (the error), and the `seconds` it took."""
    runtime = PythonRuntime(limits)
    allowed = limits["seconds"] + limits["sleep"] + 1.0

    async def one(code: str) -> dict[str, Any]:
        for _ in range(2):  # a program that is late on a busy machine has a second chance
            began = time.perf_counter()
            try:
                said = {"gives": repr((await runtime.run_async(code))["results"])}
            except ToolError as error:
                said = {"ends": str(error)}
            seconds = time.perf_counter() - began
            if seconds < allowed:
                break
        return {**said, "seconds": seconds}

    await runtime.run_async("1")  # what is loaded with the first is no program's
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = await gather_bounded(one, programs.values(), AT_ONCE)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    named = dict(zip(programs, found, strict=True))
    return {"programs": named, "kilobytes": grown, "workers_left": workers_left()}


def workers_left() -> bool:
    """Whether a process that was started still runs a second later: one that is killed takes a moment to end."""
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not ended:
            time.sleep(0.02)
    return True


def read(folder: Path, replacements: Mapping[str, str], step: int) -> dict[str, str]:
    """One of `step` programs of a folder by name, with names in them replaced."""
    programs = {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.py"))[::step]}
    for name, value in replacements.items():
        programs = {stem: code.replace(name, value) for stem, code in programs.items()}
    return programs


if __name__ == "__main__":
    limits, replacements, step = map(json.loads, sys.argv[2:])
    sys.stdout.write(json.dumps(asyncio.run(outcomes(read(Path(sys.argv[1]), replacements, step), limits))))
