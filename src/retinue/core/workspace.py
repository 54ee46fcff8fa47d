"""A workspace: the files that a run works with, under relative paths, in versions.

Every change makes a new version. A run's context has its workspace (`RunContext.workspace`), whose tools are in
`harness/`. Where the files are is a `Workspace`'s business: in a folder, or in a store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ..errors import UsageError

LONGEST_PATH = 512  # characters
_PART = re.compile(r"[^/\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]{1,255}")


class WorkspaceFile(NamedTuple):
    """A file: its path, its size in bytes, and the version that last changed it."""

    path: str
    size: int
    version: int


class Workspace(Protocol):
    """Keeps the files of a run."""

    async def list_files(self, version: int | None = None) -> Sequence[WorkspaceFile]:
        """Return the files of a version (by default the newest), sorted by their paths."""
        ...

    async def read_file(self, path: str, version: int | None = None) -> bytes:
        """Return the content of a file. Raises `UsageError` if there is none."""
        ...

    async def change_files(self, changes: Mapping[str, bytes | None], key: str) -> int:
        """Write files (`None`: remove) as one new version, and return its number. With the `key` of an earlier change,
        such as `idempotency_key()`, nothing is changed again: the result is that change's version. Raises `UsageError`
        for what would be more than the workspace may hold."""
        ...


def normalize_path(path: str) -> str:
    """Return a path in a workspace without `.` and doubled slashes. Raises `UsageError` for one that leads out of it,
    or that no file can have."""
    parts = [part for part in path.strip().split("/") if part not in ("", ".")]
    if path.strip().startswith("/") or ".." in parts or not parts:
        raise UsageError(f"want a path within the workspace, such as notes/plan.md, not {path!r:.80}")
    if len(path) > LONGEST_PATH or not all(map(_PART.fullmatch, parts)):
        raise UsageError(f"{path!r:.80} is no path of a file: it is too long, or has control characters or backslashes")
    return "/".join(parts)
