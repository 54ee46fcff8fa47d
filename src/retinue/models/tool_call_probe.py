"""Trying out whether native tool calls work: one short question, before the first run that wants them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from ..core.prompt import Ask, Prompt
from ..core.protocols import Chunks
from ..core.tool import Tool
from ..core.values import Message, Reply
from ..errors import ModelNotFound, ModelRefused

_MAX_TOKENS = 512  # models that think before they call need some


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


_ADD = Tool("add", add, effects="read")
_QUESTION = Message("user", "Call the tool `add` to find out what 19 + 23 is.")


async def problem_with_calls(ask: Callable[[Ask], Chunks]) -> str:
    """Why tool calls do not work, in a few words; empty if they do.

    A refusal is an answer to this; what passes is asked again as ever. Raises `ModelUnavailable`, and `ModelNotFound`.
    """
    request = Ask(Prompt(_QUESTION), _QUESTION.content, lambda _: Reply(""), max_tokens=_MAX_TOKENS, tools=(_ADD,))
    try:
        async with aclosing(ask(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Reply):
                    return _problem(chunk)
    except ModelNotFound:
        raise
    except ModelRefused as refused:
        return f"tool calls are refused: {refused}"
    raise AssertionError("a reply ends with a Reply")


def _problem(reply: Reply) -> str:
    if not reply.calls:
        said = " ".join(reply.text.split())
        return f"asked for a tool call, it answered in words: {said[:80]!r}" if said else "it did not call the tool"
    call = reply.calls[0]
    given = call.tool_input
    numbers = isinstance(given, dict) and all(type(given.get(name)) is int for name in ("a", "b"))
    return "" if call.tool == "add" and numbers else f"it called {call.tool[:40]!r} with {str(given)[:80]}"
