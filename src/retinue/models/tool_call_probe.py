"""Probes whether native tool calls work, with one short question before the first run that needs them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from ..core.prompt import Ask, Prompt
from ..core.protocols import Chunks
from ..core.tool import Tool
from ..core.values import Message, Reply
from ..errors import ModelNotFound, ModelRefused, WindowExceeded

_OF_TOOLS = (None, 400, 404, 405, 413, 422, 501)  # statuses of a refusal that may be about the tools
_OF_ACCOUNT = re.compile(
    r"(?:api|access)[ _-]?key|credential|unauthori|authenti|billing|credit|quota|permission|payment", re.IGNORECASE
)
_MAX_TOKENS = 512, 8192  # reasoning models think before they call, some of them at length


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


_ADD = Tool("add", add, effects="read")
_QUESTION = Message("user", "Call the tool `add` to find out what 19 + 23 is.")


@dataclass(frozen=True, slots=True)
class Probed:
    """The problem with a model's tool calls, or an empty string.

    `is_certain`: it is the server that refuses them, or was found twice. `since` is on the monotonic clock.
    """

    problem: str
    is_certain: bool
    since: float


async def probe_calls(ask: Callable[[Ask], Chunks]) -> Probed:
    """Find out whether tool calls work. Transient failures are retried as usual.

    Raises `ModelError`, also for a refusal that is not about tools, but about the key, the account or the model.
    """
    request = Ask(Prompt(_QUESTION), _QUESTION.content, lambda _: Reply(""), tools=(_ADD,))
    try:
        for most in _MAX_TOKENS:
            reply = await _whole_reply(ask(replace(request, max_tokens=most)))
            if reply.calls or reply.finish != "length":
                break
        problem = _problem(reply)
        return Probed(problem, not problem, time.monotonic())
    except (ModelNotFound, WindowExceeded):
        raise
    except ModelRefused as refused:
        if refused.status not in _OF_TOOLS or _OF_ACCOUNT.search(str(refused)):
            raise
        return Probed(f"tool calls are refused: {refused}", True, time.monotonic())


async def _whole_reply(chunks: Chunks) -> Reply:
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, Reply):
                return chunk
    raise AssertionError("a reply ends with a Reply")


def _problem(reply: Reply) -> str:
    if not reply.calls:
        said = " ".join(reply.text.split())
        return f"asked for a tool call, it answered in words: {said[:80]!r}" if said else "it did not call the tool"
    call = reply.calls[0]
    given = call.tool_input
    numbers = isinstance(given, dict) and all(type(given.get(name)) is int for name in ("a", "b"))
    return "" if call.tool == "add" and numbers else f"it called {call.tool[:40]!r} with {str(given)[:80]}"
