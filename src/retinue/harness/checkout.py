"""A workspace's files in a folder of their own, in which a sandbox runs, and what a command changed there.

The folder is kept while its workspace lives, so that a command costs what changed since the last one. Two commands at
once have two folders. Nobody looks into a folder while a command runs in it: what is in there then may change at will.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from .._internal.concurrency import run_in_thread
from ..core.workspace import Workspace, normalize_path
from ..errors import NotDone, UsageError
from .sandbox import give, prepare_base, walk

_MAX_FILE = 20_000_000  # bytes
_AT_ONCE = 200  # files that are read together
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_idle: weakref.WeakKeyDictionary[Workspace, list[Checkout]] = weakref.WeakKeyDictionary()


class _Kept(NamedTuple):
    """A file as it was put into the folder or last found there. `mark` changes whenever anyone writes to it."""

    version: int
    digest: bytes
    mark: tuple[int, ...]


class Changes(NamedTuple):
    """What a command changed, and what of it a workspace does not keep, each with the reason."""

    files: Mapping[str, bytes | None]
    left: list[str]


class Checkout:
    """A folder with the files of a workspace."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="retinue-sandbox-"))
        weakref.finalize(self, _remove_tree, self.base)
        prepare_base(self.base)
        self.work = self.base / "work"
        self._kept: dict[str, _Kept] = {}

    async def update(self, workspace: Workspace, most: int) -> None:
        """Make the folder what the newest version of the workspace is. Raises `NotDone` for more than `most` bytes."""
        listed = {one.path: one for one in await workspace.list_files()}
        if (size := sum(one.size for one in listed.values())) > most:
            raise NotDone(f"the workspace has {size:,} bytes; commands can be run in one of at most {most:,}")
        wanted = [path for path, one in listed.items() if path not in self._kept or self._kept[path].version != one.version]
        await run_in_thread(self._remove_files, [*(self._kept.keys() - listed.keys()), *wanted])
        for at in range(0, len(wanted), _AT_ONCE):
            found = await workspace.read_files(wanted[at : at + _AT_ONCE])
            await run_in_thread(self._write_files, {path: (listed[path].version, data) for path, data in found.items()})

    def _remove_files(self, paths: Collection[str]) -> None:
        for path in paths:
            self._kept.pop(path, None)
            (self.work / path).unlink(missing_ok=True)
            with suppress(OSError):  # the folder is not empty
                for folder in list((self.work / path).parents)[: path.count("/")]:
                    folder.rmdir()

    def _write_files(self, files: Mapping[str, tuple[int, bytes]]) -> None:
        for path, (version, data) in files.items():
            file = self.work / path
            for folder in list(file.parents)[path.count("/") - 1 :: -1] if "/" in path else ():
                if not folder.exists():
                    folder.mkdir()
                    give(folder)
            file.write_bytes(data)
            file.chmod(0o755 if data.startswith((b"#!", b"\x7fELF")) else 0o644)
            give(file)
            self._kept[path] = _Kept(version, hashlib.sha256(data).digest(), _mark(file.lstat()))

    def collect(self, mounts: Collection[str]) -> Changes:
        """Return what a command changed, and remove what a workspace does not keep. `mounts` are not looked at."""
        _make_accessible(self.work)
        changed: dict[str, bytes | None] = {}
        left: list[str] = []
        seen: set[str] = set()
        for path, problem in self._find_files(mounts):
            ...
        return Changes(changed, left)
