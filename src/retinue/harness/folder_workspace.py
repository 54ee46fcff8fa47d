"""A workspace in a folder of this machine, out of which nothing leads: no path, and no symbolic link.

Each part of a path is opened below the one before it, without following links, so that it does not matter when somebody
puts a link there, such as a command of the agent. Versions are counted; the contents of older ones are not kept.
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
from typing import NamedTuple

from .._internal.concurrency import run_in_thread
from ..core.workspace import (
    MOST_BYTES,
    MOST_FILES,
    ChangedFile,
    WorkspaceChange,
    WorkspaceFile,
    check_size,
    normalize_path,
)
from ..errors import NotDone, UsageError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would wait for a writer
_KEPT = 100  # temporary workspaces of an agent


class _State(NamedTuple):
    """By which a file that was changed is known: a file that is replaced is another one, even within a tick."""

    size: int
    changed_at: int
    inode: int


class FolderWorkspace:
    """The files of a `folder`, which is made. `version` is that of an earlier drive of the run."""

    def __init__(self, folder: str | Path, version: int = 0) -> None:
        self.folder = Path(folder).expanduser().resolve()
        self.version = version
        self._changes: dict[str, WorkspaceChange] = {}
        self._lock = threading.Lock()  # members write at the same time
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"the workspace {folder} cannot be made: {error.strerror}") from error
        self._seen = {path: (state, version) for path, state in self._scan()}

    async def list_files(self, version: int | None = None) -> Sequence[WorkspaceFile]:
        """Return the files of the newest version. Raises `NotDone` for any other."""
        self._check(version)
        return await run_in_thread(self._list)

    async def read_files(self, paths: Iterable[str], version: int | None = None) -> Mapping[str, bytes]:
        """Return the contents of files by their paths, without those that are not there."""
        self._check(version)
        found = {path: await run_in_thread(partial(self._read, path)) for path in map(normalize_path, paths)}
        return {path: content for path, content in found.items() if content is not None}

    async def read_file(self, path: str, version: int | None = None) -> bytes:
        """Return the content of a file. Raises `NotDone` if there is none."""
        self._check(version)
        content = await run_in_thread(partial(self._read, normalize_path(path)))
        if content is None:
            raise NotDone(f"there is no file {path[:200]}")
        return content

    async def change_files(self, changes: Mapping[str, bytes | None], key: str) -> WorkspaceChange:
        """Write and remove files, one after the other. An earlier drive's change is not known here."""
        wanted = {normalize_path(path): content for path, content in changes.items()}
        for path, content in wanted.items():
            check_size(path, content or b"")
        return await run_in_thread(partial(self._change, wanted, key))

    async def find_change(self, key: str) -> WorkspaceChange | None:
        """Return the change that was made under this key by this drive."""
        return self._changes.get(key)

    async def note_changes(self, key: str) -> WorkspaceChange:
        """Make what others changed in the folder since it was last looked at a version of its own."""
        return await run_in_thread(partial(self._change, {}, key))

    def _check(self, version: int | None) -> None:
        if version not in (None, self.version):
            raise NotDone(f"a folder has only the newest version of its files, {self.version}, not {version}")

    def _scan(self) -> Iterator[tuple[str, _State]]:
        """Yield the files by their paths. Links and what is no file are left out."""
        found = 0
        for place, _, names, held in os.fwalk(self.folder, follow_symlinks=False):
            inside = Path(place).relative_to(self.folder)
            for name in names:
                with suppress(OSError, NotDone):  # gone meanwhile, or no path of ours
                    path = normalize_path(str(inside / name))
                    said = os.stat(name, dir_fd=held, follow_symlinks=False)
                    if stat.S_ISREG(said.st_mode):
                        found += 1
                        yield path, _State(said.st_size, said.st_mtime_ns, said.st_ino)
            if found > MOST_FILES:
                raise NotDone(f"the workspace {self.folder.name} has more than {MOST_FILES:,} files")

    def _list(self) -> list[WorkspaceFile]:
        new = (None, self.version)  # whatever changed it since, it is as this version has it
        listed = [(path, state, self._seen.get(path, new)) for path, state in self._scan()]
        return sorted(
            WorkspaceFile(path, state.size, version if before == state else self.version)
            for path, state, (before, version) in listed
        )

    def _change(self, wanted: Mapping[str, bytes | None], key: str) -> WorkspaceChange:
        with self._lock:
            if key in self._changes:
                return self._changes[key]
            for path, content in wanted.items():
                if self._read(path) != content:
                    self._write(path, content)
            now, before = dict(self._scan()), self._seen
            changed = sorted(path for path in {**before, **now} if now.get(path) != before.get(path, (None,))[0])
            self.version += 1
            stays = {path: (state, before[path][1]) for path, state in now.items() if path not in changed}
            self._seen = stays | {path: (now[path], self.version) for path in changed if path in now}
            files = [
                ChangedFile(
                    path, now[path].size if path in now else None, before[path][0].size if path in before else None
                )
                for path in changed
            ]
            self._changes[key] = WorkspaceChange(self.version, tuple(files))
            return self._changes[key]

    def _read(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError), self._open_folder(path) as (held, name):
            file = os.open(name, _FILE, dir_fd=held)
            try:
                said = os.fstat(file)
                if not stat.S_ISREG(said.st_mode) or said.st_size > MOST_BYTES:
                    raise NotDone(f"{path} is no file of at most {MOST_BYTES:,} bytes")
                with os.fdopen(file, "rb", closefd=False) as opened:
                    return opened.read()
            finally:
                os.close(file)
        return None

    def _write(self, path: str, content: bytes | None) -> None:
        """Replace or remove a file: one that is a link is itself replaced, never what it leads to."""
        with self._open_folder(path, makes=content is not None) as (held, name):
            if content is None:
                os.unlink(name, dir_fd=held)
                return
            part = f".{secrets.token_hex(8)}.part"
            opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=held)
            try:
                with os.fdopen(opened, "wb") as file:
                    with suppress(FileNotFoundError):  # it stays executable
                        os.fchmod(opened, os.stat(name, dir_fd=held, follow_symlinks=False).st_mode & 0o777)
                    file.write(content)
                os.replace(part, name, src_dir_fd=held, dst_dir_fd=held)
            except OSError:
                os.unlink(part, dir_fd=held)
                raise

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
            raise NotDone(f"{path} cannot be used: {why}") from error
        finally:
            os.close(held)


# ── temporary ones ───────────────────────────────────────────────────────────────────────────────

_temporary: dict[int, dict[str, FolderWorkspace]] = {}  # by the ids of their owners


def temporary_workspace(owner: object, name: str) -> FolderWorkspace:
    """Return the workspace of this name in a folder that is deleted with its `owner`, with this process, or once there
    are many newer ones and nobody uses it."""
    if id(owner) not in _temporary:
        _temporary[id(owner)] = {}
        weakref.finalize(owner, _temporary.pop, id(owner), None)
    kept = _temporary[id(owner)]
    if name not in kept:
        kept[name] = FolderWorkspace(mkdtemp(prefix="retinue-workspace-"))
        weakref.finalize(kept[name], _remove, kept[name].folder, os.getpid())
        for old in list(kept)[:-_KEPT]:
            del kept[old]
    return kept[name]


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not in a forked child, as it ends
        shutil.rmtree(folder, ignore_errors=True)
