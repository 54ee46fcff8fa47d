"""A single request to a model, without a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from .._internal.containment import await_contained
from ..errors import ModelError, UsageError
from .prompt import Ask, Decided, Prompt
from .protocols import Model
from .schema.patterns import Constraint
from .values import AgentFinish, Message, Reply


async def ask_once(
    model: Model,
    prompt: str | Sequence[Message],
    *,
    stop: Sequence[str] = (),
    max_tokens: int | None = None,
    constraint: Constraint | None = None,
) -> Reply:
    """Return the model's reply to a text or a conversation; `constraint` as in `Ask`. Raises `ModelError`."""
    messages = [Message("user", prompt)] if isinstance(prompt, str) else list(prompt)
    if not messages:
        raise UsageError("the prompt is empty; give the model something to reply to")
    prompted = Prompt(messages[0]).add(*messages[1:])
    request = Ask(prompted, messages[-1].content, write_plain, tuple(stop), constraint, max_tokens)
    if not isinstance(prompt, str):
        request = replace(request, chat=True)
    return await await_contained(_reply(model, request))


async def _reply(model: Model, request: Ask) -> Reply:
    async with aclosing(model.reply(request)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Reply):
                return chunk
    raise ModelError("the model ended without a reply")


def write_plain(decided: Decided) -> Reply:
    """Write an answer as it is, where no strategy asks for a format."""
    return Reply(decided.output if isinstance(decided, AgentFinish) else "")
