"""A workspace's files in a folder of their own, in which a sandbox runs, and what a command changed there.

The folder is kept while its workspace lives, so that a command costs what changed since the last one. Two commands at
once have two folders. Nobody looks into a folder for its files while a command runs in it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import weakref
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from stat import S_ISREG

from .._internal.concurrency import run_in_thread
from ..core.workspace import MOST_BYTES, Workspace, normalize_path
from ..errors import NotDone, ToolError, UsageError
from .sandbox import give, prepare_base, walk

_AT_ONCE = 200  # files that are read together
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_Mark = tuple[int, ...]  # changes whenever anyone writes to a file
_idle: dict[int, list[Checkout]] = {}  # by the ids of their workspaces, while these live


class Checkout:
    """A folder with the files of a workspace. Once it `is_spoilt`, it is not used again."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="retinue-sandbox-"))
        self.remove = weakref.finalize(self, _remove_tree, self.base)
        prepare_base(self.base)
        self.is_spoilt = False
        self._work = self.base / "work"
        self._kept: dict[str, tuple[int, _Mark]] = {}  # the version of a file, and its mark

    async def update(self, workspace: Workspace, most: int) -> None:
        """Make the folder what the newest version of the workspace is. Raises `NotDone` for more than `most` bytes."""
        listed = {one.path: one for one in await workspace.list_files()}
        if (size := sum(one.size for one in listed.values())) > most:
            raise NotDone(f"the workspace has {size:,} bytes; commands can be run in one of at most {most:,}")
        known = {path: (version, mark[0]) for path, (version, mark) in self._kept.items()}
        wanted = [path for path, one in listed.items() if known.get(path) != (one.version, one.size)]
        await run_in_thread(self._remove_files, [*(self._kept.keys() - listed.keys()), *wanted])
        for at in range(0, len(wanted), _AT_ONCE):
            found = await workspace.read_files(wanted[at : at + _AT_ONCE])
            await run_in_thread(self._write_files, {path: (listed[path].version, data) for path, data in found.items()})

    def _remove_files(self, paths: Collection[str]) -> None:
        for path in paths:
            self._kept.pop(path, None)
            (self._work / path).unlink(missing_ok=True)
            with suppress(OSError):  # the folder is not empty
                for folder in list((self._work / path).parents)[: path.count("/")]:
                    folder.rmdir()
        if any((self.base / "tmp").iterdir()):
            _remove_tree(self.base / "tmp")
            (self.base / "tmp").mkdir(mode=0o700)
            give(self.base / "tmp")

    def _write_files(self, files: Mapping[str, tuple[int, bytes]]) -> None:
        before = time.time() - 1  # whatever writes to a file later, also within a tick of the clock, is seen
        for path, (version, data) in files.items():
            file = self._work / path
            self._make_folder(file.parent)
            file.write_bytes(data)
            file.chmod(0o755 if data.startswith((b"#!", b"\x7fELF")) else 0o644)  # a workspace knows no modes
            os.utime(file, (before, before))
            give(file)
            self._kept[path] = version, _mark(file.lstat())

    def _make_folder(self, folder: Path) -> None:
        if not folder.exists():
            self._make_folder(folder.parent)
            folder.mkdir()
            give(folder)

    def collect(self) -> tuple[dict[str, bytes | None], list[str]]:
        """Return what a command may have changed, and what a workspace does not keep, which is removed."""
        changed: dict[str, bytes | None] = dict.fromkeys(self._kept)
        left, folders = [], []
        for entry, _ in walk([self._work]):
            path, file = entry.path[len(f"{self._work}/") :], Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                file.chmod(0o700)  # a command may have closed it to itself
                folders.append(file)
                if entry.name in _CACHES:
                    _remove_tree(file)
            elif problem := _find_problem(path, said := entry.stat(follow_symlinks=False)):
                left.append(f"{path!a:.100} ({problem})")
                file.unlink()
            elif self._kept.get(path, (0, ()))[1] == _mark(said):
                del changed[path]
            else:
                file.chmod(said.st_mode & 0o777 | 0o600)
                changed[path] = file.read_bytes()
        for folder in reversed(folders):  # what is in a folder comes after it
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        return changed, left

    def accept(self, changed: Mapping[str, bytes | None], version: int) -> None:
        """Note that the workspace has what was changed."""
        for path, data in changed.items():
            self._kept.pop(path, None)
            if data is not None:
                self._kept[path] = version, _mark((self._work / path).lstat())


@asynccontextmanager
async def check_out(workspace: Workspace, most: int) -> AsyncIterator[Checkout]:
    """Yield a folder with the files of the workspace, which have at most `most` bytes. Raises `NotDone`."""
    if id(workspace) not in _idle:
        weakref.finalize(workspace, _idle.pop, id(workspace), None)
    idle = _idle.setdefault(id(workspace), [])
    try:
        checkout = idle.pop() if idle else await run_in_thread(Checkout)
        await checkout.update(workspace, most)
    except (UsageError, OSError) as error:
        raise NotDone(f"the command was not run: {error}") from error
    yield checkout
    if checkout.is_spoilt:
        await run_in_thread(checkout.remove)
    else:
        idle.append(checkout)


def _find_problem(path: str, said: os.stat_result) -> str:
    """Return why a workspace does not keep a file, or an empty string."""
    if not S_ISREG(said.st_mode):
        return "a link, or no regular file"
    with suppress(UsageError, ToolError):
        if normalize_path(path) == path:
            return f"more than {MOST_BYTES:,} bytes" if said.st_size > MOST_BYTES else ""
    return "its name"


def _mark(said: os.stat_result) -> _Mark:
    return said.st_size, said.st_ctime_ns, said.st_mtime_ns, said.st_ino


def _remove_tree(path: Path) -> None:
    """Remove a folder of any depth, also what a command has closed to itself."""
    for program in ("chmod", "-R", "u+rwx"), ("rm", "-rf"):
        words = [*program, "--", str(path)]
        subprocess.run(words, capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})
