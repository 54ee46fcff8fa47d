"""A workspace in a folder of this machine, out of which nothing leads: no path, and no symbolic link.

Each part of a path is opened below the one before it, without following links, so that it does not matter when somebody
puts a link there. Versions are counted; the contents of older ones are not kept.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import ELOOP, ENOTDIR
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from .._internal.concurrency import run_in_thread
from ..core.workspace import (
    MOST_BYTES,
    MOST_FILES,
    ChangedFile,
    WorkspaceChange,
    WorkspaceError,
    WorkspaceFile,
    normalize_changes,
    normalize_path,
)
from ..errors import UsageError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would wait for a writer
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_KEPT = 100  # temporary workspaces of an agent


class FolderWorkspace:
    """The files of a `folder`, which is made. `version` is that of an earlier drive of the run, whose changes are not
    known here. What others change in the folder is a version of its own once it is seen."""

    def __init__(self, folder: str | Path, version: int = 0) -> None:
        self.folder = Path(folder).expanduser().resolve()
        self.version = version
        self._seen: dict[str, tuple[os.stat_result, int]] = {}  # the files, and the versions that changed them
        self._changes: dict[str, WorkspaceChange] = {}
        self._lock = threading.Lock()  # members write at the same time
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"the workspace {folder} cannot be made: {error.strerror}") from error

    async def list_files(self, version: int | None = None) -> Sequence[WorkspaceFile]:
        """Return the files of the newest version. Raises `WorkspaceError` for any other."""
        self._check(version)
        return await run_in_thread(self._list)

    async def read_files(self, paths: Iterable[str], version: int | None = None) -> Mapping[str, bytes]:
        """Return the contents of files by their paths, without those that are not there."""
        self._check(version)
        found = {path: await run_in_thread(partial(self._read, path)) for path in map(normalize_path, paths)}
        return {path: content for path, content in found.items() if content is not None}

    async def read_file(self, path: str, version: int | None = None) -> bytes:
        """Return the content of a file. Raises `WorkspaceError` if there is none."""
        for content in (await self.read_files([path], version)).values():
            return content
        raise WorkspaceError(f"there is no file {path[:200]}")

    async def change_files(self, changes: Mapping[str, bytes | None], key: str) -> WorkspaceChange:
        """Write and remove files, one after the other."""
        return await run_in_thread(partial(self._change, normalize_changes(changes), key))

    async def find_change(self, key: str) -> WorkspaceChange | None:
        """Return the change that was made under this key."""
        return self._changes.get(key)

    def _check(self, version: int | None) -> None:
        if version not in (None, self.version):
            raise WorkspaceError(f"a folder has only the newest version of its files, {self.version}, not {version}")

    def _scan(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the files by their paths. Links and what is no file are left out."""
        found = 0
        for place, _, names, held in os.fwalk(self.folder, follow_symlinks=False):
            inside = Path(place).relative_to(self.folder)
            for name in names:
                with suppress(OSError, WorkspaceError):  # gone meanwhile, or no path of ours
                    path, said = normalize_path(str(inside / name)), os.lstat(name, dir_fd=held)
                    if stat.S_ISREG(said.st_mode):
                        found += 1
                        yield path, said
            if found > MOST_FILES:
                raise WorkspaceError(f"the workspace {self.folder.name} has more than {MOST_FILES:,} files")

    def _list(self) -> list[WorkspaceFile]:
        with self._lock:
            found, before = dict(self._scan()), self._seen
            new = {path for path, said in found.items() if path not in before or _is_other(before[path][0], said)}
            self.version += bool(before and new)
            self._seen = {
                path: (said, self.version if path in new else before[path][1]) for path, said in found.items()
            }
            return sorted(WorkspaceFile(path, said.st_size, since) for path, (said, since) in self._seen.items())

    def _change(self, wanted: Mapping[str, bytes | None], key: str) -> WorkspaceChange:
        with self._lock:
            if key not in self._changes:
                before = {path: self._read(path) for path in wanted}
                changed = sorted(path for path, content in wanted.items() if content != before[path])
                self.version += 1
                for path in changed:
                    self._write(path, wanted[path])
                sizes = [tuple(None if one is None else len(one) for one in (wanted[at], before[at])) for at in changed]
                files = tuple(ChangedFile(path, *both) for path, both in zip(changed, sizes, strict=True))
                self._changes[key] = WorkspaceChange(self.version, files)
            return self._changes[key]

    def _read(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError), self._open_folder(path) as (held, name):
            file = os.open(name, _FILE, dir_fd=held)
            try:
                said = os.fstat(file)
                if not stat.S_ISREG(said.st_mode) or said.st_size > MOST_BYTES:
                    raise WorkspaceError(f"{path} is no file of at most {MOST_BYTES:,} bytes")
                with os.fdopen(file, "rb", closefd=False) as opened:
                    return opened.read()
            finally:
                os.close(file)
        return None

    def _write(self, path: str, content: bytes | None) -> None:
        with self._open_folder(path, makes=content is not None) as (held, name):
            if content is None:
                os.unlink(name, dir_fd=held)
                return
            part = f".{secrets.token_hex(8)}.part"
            opened = os.open(part, _NEW, 0o666, dir_fd=held)
            try:
                with os.fdopen(opened, "wb") as file:
                    with suppress(FileNotFoundError):  # it stays executable
                        os.fchmod(opened, os.lstat(name, dir_fd=held).st_mode & 0o777)
                    file.write(content)
                os.replace(part, name, src_dir_fd=held, dst_dir_fd=held)
            except OSError:
                os.unlink(part, dir_fd=held)
                raise
            self._seen[path] = os.lstat(name, dir_fd=held), self.version

    @contextmanager
    def _open_folder(self, path: str, *, makes: bool = False) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that a file is in, and the file's name there."""
        *folders, name = path.split("/")
        held = os.open(self.folder, _FOLDER)
        try:
            for folder in folders:
                if makes:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=held)
                inner = os.open(folder, _FOLDER, dir_fd=held)
                os.close(held)
                held = inner
            yield held, name
        except FileNotFoundError:
            raise
        except OSError as error:
            why = "a link or a file is in the way" if error.errno in (ENOTDIR, ELOOP) else error.strerror
            raise WorkspaceError(f"{path} cannot be used: {why}") from error
        finally:
            os.close(held)


def _is_other(one: os.stat_result, two: os.stat_result) -> bool:
    """Whether a file was changed: one that is replaced is another one, even within a tick of the clock."""
    return any(getattr(one, name) != getattr(two, name) for name in ("st_size", "st_mtime_ns", "st_ino"))


# ── temporary ones ───────────────────────────────────────────────────────────────────────────────

_temporary: dict[int, dict[str, FolderWorkspace]] = {}  # by the ids of their owners


def temporary_workspace(owner: object, name: str) -> FolderWorkspace:
    """Return the workspace of this name in a folder that is deleted with its `owner`, with this process, or once there
    are many newer ones and nobody uses it."""
    if id(owner) not in _temporary:
        weakref.finalize(owner, _temporary.pop, id(owner), None)
    kept = _temporary.setdefault(id(owner), {})
    if name not in kept:
        kept[name] = FolderWorkspace(mkdtemp(prefix="retinue-workspace-"))
        weakref.finalize(kept[name], _remove, kept[name].folder, os.getpid())
        for old in list(kept)[:-_KEPT]:
            del kept[old]
    return kept[name]


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not in a forked child, as it ends
        shutil.rmtree(folder, ignore_errors=True)
