"""Probes whether native tool calls work, with one short question before the first run that needs them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from ..core.prompt import Ask, Prompt
from ..core.protocols import Chunks
from ..core.tool import Tool
from ..core.values import Message, Reply
from ..errors import ModelNotFound, ModelRefused

_MAX_TOKENS = 512  # reasoning models need some before they call


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


_ADD = Tool("add", add, effects="read")
_QUESTION = Message("user", "Call the tool `add` to find out what 19 + 23 is.")


async def problem_with_calls(ask: Callable[[Ask], Chunks]) -> str:
    """Return briefly why tool calls do not work, or an empty string.

    A refusal counts as a result; transient failures are retried as usual. Raises `ModelUnavailable` and
    `ModelNotFound`.
    """
    request = Ask(Prompt(_QUESTION), _QUESTION.content, lambda _: Reply(""), max_tokens=_MAX_TOKENS, tools=(_ADD,))
    try:
        return _problem(await _whole_reply(ask(request)))
    except ModelNotFound:
        raise
    except ModelRefused as refused:
        return f"tool calls are refused: {refused}"


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
