"""The packages of a tool: locked with their hashes in a file beside it, installed in an environment of their own.

Locking and installing are for people (`retinue lock`); whatever runs a tool only looks for what is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from .._internal.cache import cache_folder
from ..errors import DataError, UsageError

_REQUIREMENT = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9,._ -]*\])?( ?[<>=!~][<>=!~=A-Za-z0-9.*+, -]*)?"
)
_OPTIONS = ("--disable-pip-version-check", "--no-input", "--quiet", "--only-binary", ":all:")
_HEAD = "# for: "


def requirements(text: str) -> tuple[str, ...]:
    """The requirements in `pip_dependencies`, a list with commas: `pandas>=2,<3, yfinance`.

    Raises `ValueError` for one that is no name with versions: addresses, paths and options are not allowed.
    """
    found = tuple(filter(None, map(str.strip, re.split(r",(?!\s*[<>=!~])", text))))
    for one in found:
        if not _REQUIREMENT.fullmatch(one):
            raise ValueError(f"want packages with versions, such as 'pandas>=2,<3, yfinance', not {one[:60]!r}")
    return found


def lock_file(folder: Path, tool: str) -> Path:
    """Where the packages of `tool`, of a file in `folder`, are locked."""
    return folder / "locked" / f"{tool}.txt"


def is_locked(lock: Path, wanted: Sequence[str]) -> bool:
    """Whether `lock` is there and is for what is `wanted`."""
    return lock.is_file() and _is_for(lock.read_text("utf-8"), wanted)


def lock(path: Path, wanted: Sequence[str]) -> None:
    """Resolve `wanted` to wheels for this Python and machine, and write them with their hashes to `path`.

    Raises `UsageError` if there is no pip here, `DataError` if it finds no wheels that fit.
    """
    said = _pip("--dry-run", "--ignore-installed", "--report", "-", *wanted)
    lines = []
    for item in json.loads(said)["install"]:
        named = f"{item['metadata']['name']}=={item['metadata']['version']}"
        lines.append(f"{named} --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}")
    path.parent.mkdir(exist_ok=True)
    machine = f"Python {sysconfig.get_python_version()} on {sysconfig.get_platform()}"
    path.write_text("\n".join([f"{_HEAD}{', '.join(wanted)}", f"# wheels for {machine}", *sorted(lines), ""]), "utf-8")


def install(lock: Path) -> Path:
    """The interpreter of the environment that has just what `lock` says, made if it is not there.

    Raises `DataError` if a package cannot be had, or is not the one that was locked.
    """
    home = _home(lock.read_text("utf-8"))
    if not (home / "complete").exists():
        rmtree(home, ignore_errors=True)  # what an interrupted installation left
        venv.create(home, symlinks=os.name != "nt")
        _pip("--no-deps", "--require-hashes", "--requirement", str(lock), python=_python(home))
        (home / "complete").touch()
    return _python(home)


def installed(lock: Path, wanted: Sequence[str]) -> Path:
    """The interpreter that `install` made. Raises `DataError` saying what is not locked or not installed."""
    if not lock.is_file():
        raise DataError(f"{', '.join(wanted)}: not locked yet; say: retinue lock FILE")
    text = lock.read_text("utf-8")
    if not _is_for(text, wanted):
        raise DataError(f"{', '.join(wanted)}: locked for other packages, in {lock}; say: retinue lock FILE")
    home = _home(text)
    if not (home / "complete").exists():
        raise DataError(f"{', '.join(wanted)}: locked, but not installed here; say: retinue lock FILE")
    return _python(home)


def _is_for(text: str, wanted: Sequence[str]) -> bool:
    return text.partition("\n")[0] == f"{_HEAD}{', '.join(wanted)}"


def _home(text: str) -> Path:
    """The environment's folder: another lock, Python or machine has another."""
    said = f"{text}\n{sys.version}\n{sysconfig.get_platform()}\n{sys.base_prefix}"
    return cache_folder() / "tools" / hashlib.sha256(said.encode()).hexdigest()[:16]


def _python(home: Path) -> Path:
    return home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _pip(*arguments: str, python: Path | None = None) -> str:
    """What `pip install` prints, run for `python`, else for ours."""
    into = ["--python", str(python)] if python else []
    command = [sys.executable, "-m", "pip", *into, "install", *_OPTIONS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout
    if "No module named pip" in done.stderr:
        raise UsageError(f"locking needs pip, which is not there; say: {sys.executable} -m ensurepip")
    said = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR")]
    raise DataError(f"pip: {' '.join(said)[:500] or 'no message'}")
