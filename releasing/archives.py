"""Archives that are the same bytes each time."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

_STRANGE = re.compile(r"(^|/)(tests?|__pycache__|\.[^/]+)/|\.(pyc|env|pem|key|db|sqlite3?|log)$|(^|/)\.")
_SECRET = re.compile(rb"sk-[A-Za-z0-9_-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|AKIA[0-9A-Z]{16}")


def build(root: Path, into: Path, kind: str, epoch: int) -> Path:
    """Build the `wheel` or the `sdist` of the project in `root`."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into.resolve())]
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"the {kind} cannot be built: {done.stderr.strip()[-500:]}")
    (built,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def rebuilt(sdist: Path, into: Path, epoch: int) -> Path:
    """Build the wheel out of a source distribution."""
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(sdist) as archive:
            archive.extractall(name, filter="data")
        (root,) = Path(name).iterdir()
        return build(root, into, "wheel", epoch)


def same(one: Path, other: Path) -> None:
    """Raises `ClickException` unless two files are the same bytes."""
    if one.read_bytes() != other.read_bytes():
        raise click.ClickException(f"two builds of {one.name} differ: {sha256(one)} and {sha256(other)}")


def strange(wheel: Path) -> list[str]:
    """Return the files of a wheel that do not belong there: tests, caches, hidden files, and what looks secret."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return [name for name in names if _STRANGE.search(name) or _SECRET.search(archive.read(name))]


def pack(into: Path, folder: str, files: Mapping[str, Path], epoch: int) -> Path:
    """Write files, by their names in `folder`, into a compressed archive."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, file in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = file.stat().st_size, epoch, 0o644
            with file.open("rb") as content:
                archive.addfile(member, content)
    into.write_bytes(gzip.compress(raw.getvalue(), mtime=epoch))
    return into


def tree(root: Path, places: Iterable[str]) -> dict[str, Path]:
    """Return the files below some places of `root`, without caches, by their names."""
    found = [
        file for place in places for file in ([root / place] if (root / place).is_file() else (root / place).rglob("*"))
    ]
    return {
        file.relative_to(root).as_posix(): file
        for file in found
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc"
    }


def sha256(file: Path) -> str:
    """Return a file's checksum."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
