"""A workspace's files in a folder of their own, in which a sandbox runs, and what a command changed there.

The folder is kept while its workspace lives, so that a command costs what changed since the last one. Two commands at
once have two folders. Nobody looks into a folder while a command runs in it: what is in there then may change at will.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
import weakref
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import NamedTuple

from .._internal.concurrency import run_in_thread
from ..core.workspace import MOST_BYTES, Workspace, WorkspaceFile, normalize_path
from ..errors import NotDone, UsageError
from .sandbox import give, prepare_base, walk

_AT_ONCE = 200  # files that are read together
_TICK = 50_000_000  # nanoseconds, more than the time of a file is exact
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_idle: dict[int, list[Checkout]] = {}  # by the ids of their workspaces, while these live


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
        self._places: set[str] = set()  # where other folders are shown
        self.is_spoilt = False
        self._settled = 0  # what was written after this may be written again at the same time, as clocks see it

    async def update(self, workspace: Workspace, most: int) -> None:
        """Make the folder what the newest version of the workspace is. Raises `NotDone` for more than `most` bytes."""
        listed = {one.path: one for one in await workspace.list_files()}
        if (size := sum(one.size for one in listed.values())) > most:
            raise NotDone(f"the workspace has {size:,} bytes; commands can be run in one of at most {most:,}")
        wanted = [path for path, one in listed.items() if self._is_other(one)]
        await run_in_thread(self._remove_files, [*(self._kept.keys() - listed.keys()), *wanted])
        for at in range(0, len(wanted), _AT_ONCE):
            found = await workspace.read_files(wanted[at : at + _AT_ONCE])
            await run_in_thread(self._write_files, {path: (listed[path].version, data) for path, data in found.items()})
        await run_in_thread(self._clear)

    def _clear(self) -> None:
        if any((self.base / "tmp").iterdir()):
            _remove_tree(self.base / "tmp")
            (self.base / "tmp").mkdir(mode=0o700)
            give(self.base / "tmp")
        self._settled = time.time_ns() - _TICK

    def _is_other(self, file: WorkspaceFile) -> bool:
        kept = self._kept.get(file.path)
        return kept is None or (kept.version, kept.mark[0]) != (file.version, file.size)

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
            self._make_folder(file.parent)
            file.write_bytes(data)
            file.chmod(_choose_mode(data))
            give(file)
            self._kept[path] = _Kept(version, hashlib.sha256(data).digest(), _mark(file.lstat()))

    def make_places(self, paths: Iterable[str]) -> None:
        """Make empty folders at which others are shown. Raises `OSError` if a file is in the way."""
        for path in paths:
            self._make_folder(self.work / path)
            self._places |= {path, *map(str, Path(path).parents)}

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folder(folder.parent)
            folder.mkdir()
            give(folder)

    def collect(self) -> Changes:
        """Return what a command changed, and remove what a workspace does not keep."""
        found: dict[str, bytes | None] = dict.fromkeys(self._kept)
        left: list[str] = []
        folders, filled = [], {str(self.work)}
        for entry, _ in walk([self.work]):
            filled.add(entry.path.rpartition("/")[0])
            if entry.is_dir(follow_symlinks=False):
                Path(entry.path).chmod(0o700)  # a command may have closed it to itself
                if entry.name in _CACHES:
                    _remove_tree(entry.path)
                else:
                    folders.append(entry.path)
                continue
            path = entry.path[len(f"{self.work}/") :]
            problem = _find_problem(entry, path)
            if problem:
                left.append(f"{path!a:.100} ({problem})")
                Path(entry.path).unlink()
            elif self._is_changed(entry, path):
                found[path] = Path(entry.path).read_bytes()
            else:
                del found[path]
        for folder in reversed(folders):  # what is in a folder comes after it
            with suppress(OSError):  # it is not empty
                Path(folder).rmdir()
        empty = (one[len(f"{self.work}/") :] for one in folders if one not in filled)
        left += [f"{one!a:.100} (an empty folder)" for one in empty if one not in self._places]
        return Changes(found, left)

    def _is_changed(self, entry: os.DirEntry[str], path: str) -> bool:
        """Whether a file has another content than it had. Its time is believed unless it was written just before."""
        kept, mark = self._kept.get(path), _mark(entry.stat(follow_symlinks=False))
        if kept is None or (kept.mark != mark or mark[1] > self._settled):
            file = Path(entry.path)
            file.chmod(0o600)
            data = file.read_bytes()
            file.chmod(_choose_mode(data))
            if kept is None or hashlib.sha256(data).digest() != kept.digest:
                return True
            self._kept[path] = kept._replace(mark=_mark(file.lstat()))
        return False

    def accept(self, changes: Mapping[str, bytes | None], version: int) -> None:
        """Note that the workspace has the changes, as this version."""
        for path, data in changes.items():
            if data is None:
                self._kept.pop(path, None)
            else:
                mark = _mark((self.work / path).lstat())
                self._kept[path] = _Kept(version, hashlib.sha256(data).digest(), mark)


@asynccontextmanager
async def check_out(workspace: Workspace, most: int) -> AsyncIterator[Checkout]:
    """Yield a folder with the files of the workspace, which have at most `most` bytes. After an error it is not used
    again. Raises `NotDone`, and what the workspace raises."""
    if id(workspace) not in _idle:
        weakref.finalize(workspace, _idle.pop, id(workspace), None)
    idle = _idle.setdefault(id(workspace), [])
    try:
        checkout = idle.pop() if idle else await run_in_thread(Checkout)
        await checkout.update(workspace, most)
    except (UsageError, OSError) as error:
        raise NotDone(f"the command was not run: {error}") from error
    yield checkout
    if not checkout.is_spoilt:
        idle.append(checkout)


def _find_problem(entry: os.DirEntry[str], path: str) -> str:
    """Return why a workspace does not keep this, or an empty string."""
    said = entry.stat(follow_symlinks=False)
    if not S_ISREG(said.st_mode):
        return "a symbolic link" if S_ISLNK(said.st_mode) else "no regular file"
    with suppress(UsageError):
        if normalize_path(path) == path:
            return f"more than {MOST_BYTES:,} bytes" if said.st_size > MOST_BYTES else ""
    return "its name"


def _mark(said: os.stat_result) -> tuple[int, ...]:
    return said.st_size, said.st_ctime_ns, said.st_mtime_ns, said.st_ino


def _choose_mode(data: bytes) -> int:
    """Return the mode of a file, of which a workspace knows nothing: programs can be run."""
    return 0o755 if data.startswith((b"#!", b"\x7fELF")) else 0o644


def _remove_tree(path: str | Path) -> None:
    """Remove a folder of any depth, also what a command has closed to itself."""
    for program in ("chmod", "-R", "u+rwx"), ("rm", "-rf"):
        subprocess.run([*program, "--", path], stdin=subprocess.DEVNULL, capture_output=True, check=False)
