"""A workspace: the files that a run works with, under relative paths, in versions.

Every change makes a new version. A run's context has its workspace (`RunContext.workspace`), whose tools are in
`harness/`. Where the files are is a `Workspace`'s business: in a folder, or in a store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..errors import NotDone, UsageError

LONGEST_PATH = 512  # characters
MOST_FILES, MOST_BYTES = 10_000, 20_000_000  # of a workspace; of a file
_PART = re.compile(r"[^/\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]{1,255}")


class WorkspaceError(NotDone, UsageError):
    """A workspace has no such file, path or version, or may not have it. Nothing was changed."""


class WorkspaceFile(NamedTuple):
    """A file: its path, its size in bytes, and the version that last changed it."""

    path: str
    size: int
    version: int


class ChangedFile(NamedTuple):
    """A file of a change: its size in bytes (`None`: it was removed), and the size before (`None`: it is new)."""

    path: str
    size: int | None
    was: int | None


class WorkspaceChange(NamedTuple):
    """A version, and what it changed."""

    version: int
    files: Sequence[ChangedFile] = ()

    @property
    def data(self) -> dict[str, Any]:
        """What the data of a call's result have under `workspace`."""
        return {"version": self.version, "changed": [one._asdict() for one in self.files]}


class Workspace(Protocol):
    """Keeps the files of a run. Paths are normalized by its methods, which raise `WorkspaceError` for what is none."""

    async def list_files(self, version: int | None = None) -> Sequence[WorkspaceFile]:
        """Return the files of a version (by default the newest), sorted by their paths. Raises `WorkspaceError` for a
        version that is not kept."""
        ...

    async def read_files(self, paths: Iterable[str], version: int | None = None) -> Mapping[str, bytes]:
        """Return the contents of files by their paths, without those that are not there. Raises as `list_files`."""
        ...

    async def read_file(self, path: str, version: int | None = None) -> bytes:
        """Return the content of a file. Raises `WorkspaceError` if there is none."""
        ...

    async def change_files(self, changes: Mapping[str, bytes | None], key: str) -> WorkspaceChange:
        """Write files (`None`: remove) as one new version. What is as it was is left out of it. With the `key` of an
        earlier change, such as `change_key()`, nothing is changed again: the result is that change. Raises
        `WorkspaceError` for more than a workspace may hold, and for a file where a folder is."""
        ...

    async def find_change(self, key: str) -> WorkspaceChange | None:
        """Return the change that was made under this key."""
        ...


def normalize_path(path: str) -> str:
    """Return a path in a workspace without `.` and doubled slashes. Raises `WorkspaceError` for one that leads out of
    it, or that no file can have."""
    parts = [part for part in path.strip().split("/") if part not in ("", ".")]
    if path.strip().startswith("/") or ".." in parts or not parts:
        raise WorkspaceError(f"want a path within the workspace, such as notes/plan.md, not {path!r:.80}")
    if len(path) > LONGEST_PATH or not all(map(_PART.fullmatch, parts)):
        raise WorkspaceError(f"{path!r:.80} is no path of a file: it is long, or has control characters or backslashes")
    return "/".join(parts)


def normalize_changes(changes: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    """Return changes by normalized paths. Raises `WorkspaceError` also for a file that is too large."""
    for path, content in changes.items():
        if content is not None and len(content) > MOST_BYTES:
            raise WorkspaceError(f"{path} would have {len(content):,} bytes; a file has at most {MOST_BYTES:,}")
    return {normalize_path(path): content for path, content in changes.items()}
