"""Rolling upgrades under load: from the version before, and to a planted next one, with and without Temporal.

`python -m upgrades`, with `tests` and `tools` on the path. The exit status is 1 if anything was lost, doubled or told
otherwise.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from fakes.postgres import postgres

from .rolling import roll
from .versions import KEPT, ROOT, version_after, version_before

_RUNS, _AT_ONCE = 300, 52


def main() -> int:
    """Roll in each way; print what came of it."""
    wrong = 0
    with postgres(safe=True) as server, tempfile.TemporaryDirectory() as name:
        pairs = [("to the next", ROOT / "src", version_after(Path(name) / "after"))]
        if KEPT:
            pairs.append(("from the version before", version_before(Path(name) / "before"), ROOT / "src"))
        for what, old, new in pairs:
            for engine in (False, True):
                told = f"{what}, {'with' if engine else 'without'} Temporal"
                seen, ended = roll(
                    server.database(), old, new, runs=_RUNS, at_once=_AT_ONCE, told=click.echo, with_temporal=engine
                )
                click.echo(
                    f"{told}: {seen.tally.runs} runs, {seen.tally.lost} lost, {seen.tally.broken} broken promises"
                )
                click.echo(f"  {_AT_ONCE} in flight all the time: {ended}")
                click.echo(
                    f"  {seen.streams} streams, {seen.keys} keys, {seen.approvals} approvals, {seen.cancels} cancels"
                )
                for one in seen.problems():
                    click.echo(f"  {one}")
                wrong += seen.broken + sum(not kind.endswith("completed") for kind in ended)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
