"""Plants each breakage in a copy of `src`, and says which test of the suite finds it.

`python -m planted`, with `tools` on the path, runs what `make test` runs of the files that are expected to find it;
`--rest` what `make test-rest` runs of them. A test counts if it fails with the breakage and passes without it. The exit
status is 1 if a breakage is not found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from .breakages import BREAKAGES, ROOT, Breakage, DoesNotStand

_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+::.*?)(?: - .*)?$", re.MULTILINE)
_PASSED, _SOME_FAILED, _NONE_RAN = 0, 1, 5  # exit statuses of pytest


class Unusable(Exception):
    """The tests could not be run, or fail without the breakage, too."""


@contextmanager
def plant(breakage: Breakage) -> Iterator[Path]:
    """Yield a copy of `src` with the breakage in it. Raises `DoesNotStand`."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        src = Path(folder) / "src"
        shutil.copytree(ROOT / "src", src)
        breakage.apply(src)
        yield src


def run_tests(src: Path, words: Sequence[str]) -> tuple[int, str]:
    """Run tests up to the first that fails, with Retinue from `src`, also in the processes that they start. Return
    pytest's exit status and what it printed."""
    env = {**os.environ, "PYTHONPATH": str(src)}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not model", *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def find(breakage: Breakage, *, rest: bool = False) -> str:
    """Return the test that finds a breakage; empty if none does. Raises `DoesNotStand` and `Unusable`."""
    words = [*(f"tests/{name}" for name in breakage.tests), *(["--rest"] if rest else [])]
    with plant(breakage) as src:
        status, printed = run_tests(src, words)
    if status in (_PASSED, _NONE_RAN):
        return ""
    found = _FAILED.search(printed)
    if status != _SOME_FAILED or found is None:
        raise Unusable(f"the tests could not be run:\n{printed[-2000:]}")
    status, printed = run_tests(ROOT / "src", [found[1]])
    if status != _PASSED:
        raise Unusable(f"{found[1]} does not pass without it, either:\n{printed[-2000:]}")
    return found[1]


def report(breakage: Breakage, *, rest: bool) -> bool:
    """Say which test finds a breakage. Return whether one does."""
    try:
        found = find(breakage, rest=rest)
    except (DoesNotStand, Unusable) as error:
        click.echo(f"error      {breakage.name}: {error}")
        return False
    click.echo(f"{'found' if found else 'NOT FOUND':10} {breakage.name}{f': {found}' if found else ''}")
    return bool(found)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--rest", is_flag=True, help="Run what `make test-rest` runs, instead of what `make test` runs.")
@click.option("--processes", default=2, help="How many breakages are tried side by side.", show_default=True)
def main(names: Sequence[str], rest: bool, processes: int) -> None:
    """Plant the breakages whose names have one of these words in them; all without any."""
    chosen = [one for one in BREAKAGES if not names or any(name in one.name for name in names)]
    with ThreadPoolExecutor(processes) as pool:
        found = list(pool.map(partial(report, rest=rest), chosen))
    click.echo(f"{sum(found)} of {len(found)} breakages found")
    sys.exit(0 if chosen and all(found) else 1)


if __name__ == "__main__":
    main()
