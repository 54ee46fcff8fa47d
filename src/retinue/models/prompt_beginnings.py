"""The fixed beginnings of prompts, at the llama.cpp server in this process: read once, and kept for later processes.

A strategy's prompts begin with the same wording, tools and examples in each run. llama.cpp keeps what it has read in
memory and reads only what is new; here its state after such a beginning is saved in a file, and restored in the next
process. A beginning is the text before `Ask.news` in a prompt that starts a conversation. It is saved when a run opens
with it, or when something else follows the same text, so that what occurs once, such as an earlier conversation, is not
saved.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Literal

from ..core.prompt import Ask
from ..errors import ModelError
from ..net.http_client import HttpClient
from .prompt_states import PromptStates, made_folder
from .wire_format import json_at, to_json, token_count

logger = logging.getLogger(__name__)
FEWEST = 600  # characters of a beginning that is worth a file: some 150 tokens, or 15 MB for each 500
_MOST_KNOWN = 4096


def fixed_beginning(request: Ask) -> str:
    """Return the text of the prompt before what is new in it; empty if it is short, or the prompt extends another."""
    messages = request.prompt.messages
    if (
        not request.news
        or request.chat
        or request.tools
        or any(one.role in ("assistant", "tool") or one.files for one in messages)
    ):
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
        beginning = fixed_beginning(request)
        seen, busy = self._sent(beginning, request.news)
        if not beginning or seen == "settled" or await asyncio.to_thread(made_folder) is None:
            return 0
        try:
            if seen == "first" and (path := await asyncio.to_thread(self._states.find, beginning)):
                self._settle(beginning)
                await self._restore(server, path, busy=busy)
            elif seen == "again" or request.opening:
                self._settle(beginning)
                return await self._save(server, beginning)
        except (ModelError, OSError) as error:
            logger.debug("the state of a prompt's beginning was not kept: %s", error)
        return 0

    def _sent(self, beginning: str, news: str) -> tuple[Literal["first", "again", "settled"], bool]:
        """Note a prompt; return whether its beginning is new, and whether any prompt was sent before it."""
        with self._lock:
            busy, self._busy = self._busy, True
            if beginning not in self._news:
                if len(self._news) >= _MOST_KNOWN:
                    self._news.clear()
                self._news[beginning] = news
                return "first", busy
            return ("settled" if self._news[beginning] in (None, news) else "again"), busy

    def _settle(self, beginning: str) -> None:
        """Note that there is nothing more to do for `beginning`."""
        with self._lock:
            self._news[beginning] = None

    async def _restore(self, server: HttpClient, path: Path, *, busy: bool) -> None:
        if busy:  # an unlike prompt makes llama.cpp move what it has read last into its cache
            await server.get("/completion", to_json({"prompt": " ", "n_predict": 0, "cache_prompt": True}))
        try:
            await server.get("/slots/0?action=restore", to_json({"filename": path.name}))
        except ModelError:
            await asyncio.to_thread(path.unlink, missing_ok=True)
            raise

    async def _save(self, server: HttpClient, beginning: str) -> int:
        """Read `beginning` by itself, and save the state if the server holds exactly that."""
        body = {"prompt": beginning, "n_predict": 0, "cache_prompt": True}
        read = await server.get("/completion", to_json(body))
        partial = await asyncio.to_thread(self._states.create, beginning)
        try:
            saved = await server.get("/slots/0?action=save", to_json({"filename": partial.name}))
            if token_count(json_at(saved, "n_saved")) == token_count(json_at(read, "tokens_evaluated")) > 0:
                await asyncio.to_thread(self._states.complete, beginning, partial)
        finally:
            await asyncio.to_thread(partial.unlink, missing_ok=True)
        return token_count(json_at(read, "timings", "prompt_n"))
