"""Texts that belong to a run beside its log: results that are too long for a prompt, and summaries of conversations.

A server, and a run with a store, keep them in the database (`store/run_texts.py`). Otherwise this process does, the
results in files that go with it."""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from .._internal.concurrency import run_in_thread
from .events import Compacted
from .values import Message

MOST_KEPT = 5_000_000
"""Characters of a result that are kept."""
_MOST_BYTES, _MOST_SUMMARIES = 1 << 30, 256  # of a process


def name_result(run: str, call: str) -> str:
    """Return the name under which a call's result is read on, in any run that sees it. Nobody can guess it."""
    return f"res_{hashlib.sha256(f'{run}/{call}'.encode('utf-8', 'replace')).hexdigest()[:16]}"


def digest_history(messages: Iterable[Message]) -> list[str]:
    """Return the digest of each beginning of a conversation. Ids of calls do not count: they differ from one API to
    another."""
    chain, found = hashlib.sha256(), []
    for one in messages:
        calls = [(call.tool, call.tool_input) for call in one.calls]
        said = (one.role, one.content.strip(), calls, [file.id for file in one.files])
        chain.update(f"{said!r}\0".encode("utf-8", "replace"))
        found.append(chain.hexdigest())
    return found


class RunTexts(Protocol):
    """Keeps the texts of one run, and finds those of its user's other runs."""

    async def keep_result(self, call: str, text: str) -> str:
        """Keep a result before it is logged; that of the same call is replaced. Return why it cannot be, or an empty
        text."""
        ...

    async def find_result(self, name: str) -> str | None:
        """Return the result with this name (`name_result`), if it is still there."""
        ...

    async def keep_summary(self, digest: str, made: Sequence[Compacted]) -> None:
        """Keep what stands for the conversation with this digest."""
        ...

    async def find_summary(self, digests: Sequence[str]) -> Sequence[Compacted]:
        """Return what stands for the longest of these beginnings of a conversation, shortest first."""
        ...


def pack_text(text: str) -> bytes:
    """Return a text as it is kept."""
    return zlib.compress(text.encode("utf-8", "replace"), 1)


def unpack_text(data: bytes) -> str:
    """Return a text that was kept."""
    return zlib.decompress(data).decode()


class ProcessTexts:
    """Keeps them in this process: a gigabyte of results at most, and the last 256 summaries."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        self.summaries: OrderedDict[tuple[str, ...], Sequence[Compacted]] = OrderedDict()

    def put(self, name: str, text: str) -> None:
        """Write a result, and delete the oldest where there are too many."""
        self._folder = self._folder or TemporaryDirectory(prefix="retinue-")
        data, folder = pack_text(text), Path(self._folder.name)
        folder.joinpath(name).write_bytes(data)
        self._bytes += len(data) - self._sizes.pop(name, 0)
        self._sizes[name] = len(data)
        while self._bytes > _MOST_BYTES:
            oldest, size = self._sizes.popitem(last=False)
            self._bytes -= size
            folder.joinpath(oldest).unlink(missing_ok=True)

    def read(self, name: str) -> str | None:
        """Return a result."""
        if self._folder is None or name not in self._sizes:
            return None
        return unpack_text(Path(self._folder.name, name).read_bytes())


PROCESS = ProcessTexts()


class OfProcess(NamedTuple):
    """The part of `PROCESS` that is about a run."""

    tenant: str
    user: str
    agent: str
    run: str

    async def keep_result(self, call: str, text: str) -> str:
        """Keep a result until the process ends."""
        try:
            await run_in_thread(PROCESS.put, self._place(name_result(self.run, call)), text)
        except OSError as error:
            return f"it cannot be written: {error.strerror}"
        return ""

    async def find_result(self, name: str) -> str | None:
        """Return a result of the user's."""
        return await run_in_thread(PROCESS.read, self._place(name))

    async def keep_summary(self, digest: str, made: Sequence[Compacted]) -> None:
        """Keep a summary until there are many later ones."""
        PROCESS.summaries[*self[:3], digest] = made
        while len(PROCESS.summaries) > _MOST_SUMMARIES:
            PROCESS.summaries.popitem(last=False)

    async def find_summary(self, digests: Sequence[str]) -> Sequence[Compacted]:
        """Return the summary of the longest beginning."""
        return next(filter(None, (PROCESS.summaries.get((*self[:3], one)) for one in reversed(digests))), ())

    def _place(self, name: str) -> str:
        return hashlib.sha256("\0".join((self.tenant, self.user, name)).encode("utf-8", "replace")).hexdigest()
