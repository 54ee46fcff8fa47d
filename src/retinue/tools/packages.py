"""Packages of a tool, locked with hashes in a file next to it and installed into a separate environment.

People lock and install them (`retinue lock`); running a tool only looks up what is installed.
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


def parse_requirements(text: str) -> tuple[str, ...]:
    """Parse the requirements in `pip_dependencies`, separated by commas: `pandas>=2,<3, yfinance`. Raises `ValueError`
    for anything other than a name with versions: no addresses, paths or options."""
    found = tuple(filter(None, map(str.strip, re.split(r",(?!\s*[<>=!~])", text))))
    for one in found:
        if not _REQUIREMENT.fullmatch(one):
            raise ValueError(f"want packages with versions, such as 'pandas>=2,<3, yfinance', not {one[:60]!r}")
    return found


def lock_file(folder: Path, tool: str) -> Path:
    """Return the path of the lock file of `tool`, defined in a file in `folder`."""
    return folder / "locked" / f"{tool}.txt"


def is_locked(lock: Path, wanted: Sequence[str]) -> bool:
    """Return whether `lock` exists and matches the requirements `wanted`."""
    return lock.is_file() and _is_for(lock.read_text("utf-8"), wanted)


def lock(path: Path, wanted: Sequence[str]) -> None:
    """Resolve `wanted` to wheels for this Python and machine, and write them with hashes to `path`. Raises `UsageError`
    if pip is missing, and `DataError` if no suitable wheels are found."""
    said = _run_pip("--dry-run", "--ignore-installed", "--report", "-", *wanted)
    lines = []
    for item in json.loads(said)["install"]:
        named = f"{item['metadata']['name']}=={item['metadata']['version']}"
        lines.append(f"{named} --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}")
    path.parent.mkdir(exist_ok=True)
    machine = f"Python {sysconfig.get_python_version()} on {sysconfig.get_platform()}"
    path.write_text("\n".join([f"{_HEAD}{', '.join(wanted)}", f"# wheels for {machine}", *sorted(lines), ""]), "utf-8")


def install(lock: Path) -> Path:
    """Return the interpreter of the environment with exactly the packages in `lock`; create it if necessary. Raises
    `DataError` if a package cannot be fetched or does not match its hash."""
    home = _find_home(lock.read_text("utf-8"))
    if not (home / "complete").exists():
        rmtree(home, ignore_errors=True)  # left over from an interrupted installation
        venv.create(home, symlinks=os.name != "nt")
        _run_pip("--no-deps", "--require-hashes", "--requirement", str(lock), python=_find_python(home))
        (home / "complete").touch()
    return _find_python(home)


def find_installed(lock: Path, wanted: Sequence[str]) -> Path:
    """Return the interpreter created by `install`. Raises `DataError` that says what is not locked or installed."""
    if not lock.is_file():
        raise DataError(f"{', '.join(wanted)}: not locked yet; run: retinue lock FILE")
    text = lock.read_text("utf-8")
    if not _is_for(text, wanted):
        raise DataError(f"{', '.join(wanted)}: {lock} locks other packages; run: retinue lock FILE")
    home = _find_home(text)
    if not (home / "complete").exists():
        raise DataError(f"{', '.join(wanted)}: locked, but not installed here; run: retinue lock FILE")
    return _find_python(home)


def _is_for(text: str, wanted: Sequence[str]) -> bool:
    return text.partition("\n")[0] == f"{_HEAD}{', '.join(wanted)}"


def _find_home(text: str) -> Path:
    """Return the environment's folder, which depends on the lock, Python and the machine."""
    said = f"{text}\n{sys.version}\n{sysconfig.get_platform()}\n{sys.base_prefix}"
    return cache_folder() / "tools" / hashlib.sha256(said.encode()).hexdigest()[:16]


def _find_python(home: Path) -> Path:
    return home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _run_pip(*arguments: str, python: Path | None = None) -> str:
    """Return the output of `pip install`, run for `python` or the current interpreter."""
    into = ["--python", str(python)] if python else []
    command = [sys.executable, "-m", "pip", *into, "install", *_OPTIONS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout
    if "No module named pip" in done.stderr:
        raise UsageError(f"locking needs pip, which is missing; run: {sys.executable} -m ensurepip")
    said = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR")]
    raise DataError(f"pip: {' '.join(said)[:500] or 'no message'}")
