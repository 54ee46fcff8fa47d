"""Asking a model as the loop does, and seeing all that it yields."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from retinue import Delta, Message
from retinue.core.prompt import Ask, Decided, Prompt
from retinue.core.protocols import Model, Retry
from retinue.core.schema.patterns import Constraint
from retinue.core.values import AgentFinish, Reply

Chunk = Delta | Retry | Reply


def written(decided: Decided) -> Reply:
    """A decision in the form of no strategy."""
    if isinstance(decided, AgentFinish):
        return Reply(f"finish: {decided.output}")
    return Reply("\n".join(f"call: {action.tool} {action.tool_input}" for action in decided))


def request(
    prompt: str | Prompt = "Hello?",
    *,
    stop: Sequence[str] = (),
    constraint: Constraint | None = None,
    max_tokens: int | None = None,
) -> Ask:
    """An `Ask` with `prompt`; its news is the last message."""
    if isinstance(prompt, str):
        prompt = Prompt(Message("user", prompt))
    return Ask(prompt, prompt.message.content, written, tuple(stop), constraint, max_tokens)


async def chunks_async(model: Model, asked: Ask) -> list[Chunk]:
    """All that `model` yields."""
    async with aclosing(model.reply(asked)) as chunks:
        return [chunk async for chunk in chunks]


def chunks(model: Model, asked: Ask | None = None) -> list[Chunk]:
    """All that `model` yields, in an event loop of its own."""
    return asyncio.run(chunks_async(model, asked or request()))


def reply(model: Model, asked: Ask | None = None) -> Reply:
    """The whole reply. What was shown of it since it was last begun is the same text."""
    seen = chunks(model, asked)
    last = seen[-1]
    assert isinstance(last, Reply)
    assert shown(seen) == last.text
    return last


def shown(seen: Sequence[Chunk]) -> str:
    """The text that a live reader has before it in the end."""
    text = ""
    for chunk in seen:
        if isinstance(chunk, Retry):
            text = ""
        elif isinstance(chunk, Delta):
            text += chunk.text
    return text


def retries(seen: Sequence[Chunk]) -> list[Retry]:
    """The announcements that the engine is asked again."""
    return [chunk for chunk in seen if isinstance(chunk, Retry)]
