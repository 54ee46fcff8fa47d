"""What the model has read of a prompt's fixed beginning, kept in files so that a later process need not read it again.

A strategy's prompts begin with the same wording, tools and examples in each run. llama.cpp keeps what it has read in
memory and reads only what is new. Its state after such a beginning is saved in a file, and restored in the next
process. A beginning is the text before `Ask.news` in a prompt that starts a conversation. It is saved when a run opens
with it, or when something else follows the same text, so that what occurs once, such as an earlier conversation, is not
saved.

A file is named by what its state depends on and by its own SHA-256: one that was damaged, or belongs to another model,
another engine or another text, is not found. Files appear whole, under their final name, and can be deleted at any
time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp

from .._internal.cache import cache_folder
from ..core.prompt import Ask
from ..errors import ModelError
from ..net.http_client import HttpClient
from .wire_format import find_count_at, to_json

MOST_FILES = 16
MOST_BYTES = 512 << 20
SWITCH = "RETINUE_PROMPT_STATES"  # `off` in the environment keeps none, and reads none
_UNFINISHED = 3600.0  # seconds after which a file that is still being written has been left behind
logger = logging.getLogger(__name__)
FEWEST = 600  # characters of a beginning that is worth a file: some 150 tokens, or 15 MB for each 500
_MOST_KNOWN = 4096


def find_beginning(request: Ask) -> str:
    """Return the text of the prompt before what is new in it; empty if it is short, or the prompt extends another."""
    goes_on = any(one.role in ("assistant", "tool") or one.files for one in request.prompt.messages)
    if not request.news or request.chat or request.tools or goes_on:
        return ""
    before, found, _ = request.prompt.text.partition(request.news)
    before = before.rstrip()  # a space belongs to the word that follows it
    return before if found and len(before) >= FEWEST else ""


class PromptBeginnings:
    """The beginnings that one server has been sent."""

    def __init__(self, states: PromptStates) -> None:
        self._states = states
        self._news: dict[str, str | None] = {}  # what followed each beginning first; `None`: there is nothing to do
        self._busy = False  # whether the server's memory holds another prompt
        self._lock = threading.Lock()

    async def prepare(self, server: HttpClient, request: Ask) -> int:
        """Restore the state after the beginning of `request`, or read and save it; return how many tokens were read.

        Whatever fails here is left to the request itself.
        """
        beginning = find_beginning(request)
        with self._lock:
            busy, self._busy = self._busy, True
            if len(self._news) >= _MOST_KNOWN:
                self._news.clear()
            is_new = beginning not in self._news
            first = self._news.setdefault(beginning, request.news)
        is_settled = not is_new and first in (None, request.news)
        if not beginning or is_settled or await asyncio.to_thread(make_folder) is None:
            return 0
        try:
            path = await asyncio.to_thread(self._states.find, beginning) if is_new else None
            if path is not None:
                self._news[beginning] = None
                await self._restore(server, path, busy=busy)
            elif request.opening or not is_new:
                self._news[beginning] = None
                return await self._save(server, beginning)
        except (ModelError, OSError) as error:
            logger.debug("the state of a prompt's beginning was not kept: %s", error)
        return 0

    async def _restore(self, server: HttpClient, path: Path, *, busy: bool) -> None:
        if busy:  # an unlike prompt makes llama.cpp move what it has read last into its cache
            await server.get("/completion", to_json({"prompt": " ", "n_predict": 0, "cache_prompt": True}))
        try:
            await server.get("/slots/0?action=restore", to_json({"filename": path.name}))
        except ModelError:
            await asyncio.to_thread(path.unlink, missing_ok=True)
            raise

    async def _save(self, server: HttpClient, beginning: str) -> int:
        """Have the server read only `beginning`, and save its state if that is exactly what it holds."""
        body = {"prompt": beginning, "n_predict": 0, "cache_prompt": True}
        read = await server.get("/completion", to_json(body))
        partial = await asyncio.to_thread(self._states.create, beginning)
        try:
            saved = await server.get("/slots/0?action=save", to_json({"filename": partial.name}))
            if find_count_at(saved, "n_saved") == find_count_at(read, "tokens_evaluated") > 0:
                await asyncio.to_thread(self._states.complete, beginning, partial)
        finally:
            await asyncio.to_thread(partial.unlink, missing_ok=True)
        return find_count_at(read, "timings", "prompt_n")


def find_states_folder() -> Path:
    """Return the folder of all states: `$RETINUE_CACHE/states`, or a folder in the user's cache."""
    return cache_folder() / "states"


def make_folder() -> Path | None:
    """Return the folder, which only its user may enter, or `None` if states are not kept or it cannot be made."""
    path = find_states_folder()
    if os.environ.get(SWITCH, "").strip().lower() in ("off", "0", "no", "false"):
        return None
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError:
        return None
    return path


@dataclass(frozen=True, slots=True)
class PromptStates:
    """The states of one model. `depends` is what they depend on besides the text, such as the engine's version."""

    depends: tuple[str | int, ...]

    def find(self, text: str) -> Path | None:
        """Return the intact file with the state after `text`, if there is one. A damaged one is deleted."""
        for path in find_states_folder().glob(f"{self._hash_text(text)}-*.state"):
            if path.stem.endswith(f"-{_hash_file(path)}"):
                os.utime(path)  # what was used last is kept longest
                return path
            path.unlink(missing_ok=True)
        return None

    def create(self, text: str) -> Path:
        """Return a new empty file, to write the state after `text` into. Raises `OSError`."""
        number, name = mkstemp(".partial", f"{self._hash_text(text)}-", find_states_folder())
        os.close(number)
        return Path(name)

    def complete(self, text: str, partial: Path) -> None:
        """Give the written file its final name, and delete what is too much: files that were not used for longest, down
        to the limits, and what others left unfinished. Raises `OSError`."""
        partial.replace(partial.with_name(f"{self._hash_text(text)}-{_hash_file(partial)}.state"))
        files: list[tuple[float, int, Path]] = []
        for path in find_states_folder().glob("*.*"):
            with suppress(OSError):  # another process has deleted it
                found = path.stat()
                if path.suffix == ".state":
                    files.append((found.st_mtime, found.st_size, path))
                elif path.suffix == ".partial" and found.st_mtime < time.time() - _UNFINISHED:
                    path.unlink()
        total = 0
        for number, (_, size, path) in enumerate(sorted(files, reverse=True), 1):
            total += size
            if number > MOST_FILES or total > MOST_BYTES:
                with suppress(OSError):
                    path.unlink()

    def _hash_text(self, text: str) -> str:
        return hashlib.sha256(json.dumps([*self.depends, text]).encode()).hexdigest()[:32]


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
