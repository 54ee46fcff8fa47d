"""Asking a model as its suite does: for a whole reply, or to give up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from ..events import Delta
from ..ports import Model, Retry
from ..prompt import Ask, Decided, Prompt
from ..schema import AgentAction, AgentFinish, Message, Reply
from ..tooling import Tool
from .case import require, shown

Chunk = Delta | Retry | Reply


def ask_for(prompt: str | Prompt = "Say hello in five words.", **more: Any) -> Ask:
    """What the loop asks a model: `prompt`, and `more` as in `Ask`."""
    prompt = Prompt(Message("user", prompt)) if isinstance(prompt, str) else prompt
    return Ask(prompt, prompt.message.content, _written, **more)


def _written(decided: Decided) -> Reply:
    return Reply(decided.output) if isinstance(decided, AgentFinish) else Reply("", calls=decided)


async def chunks_of(model: Model, request: Ask) -> list[Chunk]:
    """All that `model` yields."""
    async with aclosing(model.reply(request)) as chunks:
        return [chunk async for chunk in chunks]


async def whole_reply(model: Model, request: Ask) -> Reply:
    """The whole reply, which is what was streamed."""
    seen = await chunks_of(model, request)
    last = seen[-1] if seen else None
    require(isinstance(last, Reply), f"want a Reply as the last item, not {shown(last)}")
    assert isinstance(last, Reply)
    streamed = _streamed(seen)
    require(
        streamed is None or streamed == last.text, f"the pieces make {shown(streamed)}, the reply is {shown(last.text)}"
    )
    return last


def _streamed(seen: Sequence[Chunk]) -> str | None:
    """The text that a reader of the stream has before it in the end; `None` if nothing was streamed."""
    after = max((at for at, chunk in enumerate(seen, 1) if isinstance(chunk, Retry)), default=0)
    pieces = [chunk.text for chunk in seen[after:] if isinstance(chunk, Delta)]
    return "".join(pieces) if pieces else None


def adding() -> Tool:
    """A tool to offer."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return Tool("add", add, effects="read")


def conversation() -> Prompt:
    """One in which a tool was called twice in one turn, and the model is to answer now."""
    calls = (AgentAction("add", {"a": 1, "b": 2}, id="call_1_0"), AgentAction("add", {"a": 3, "b": 4}, id="call_1_1"))
    return Prompt(Message("system", "Be brief.")).add(
        Message("user", "What are 1 + 2 and 3 + 4? Answer in a whole sentence."),
        Message("assistant", "I add them.", calls),
        Message("tool", "3", call_id="call_1_0", tool="add"),
        Message("tool", "7", call_id="call_1_1", tool="add"),
    )


# ── giving up ────────────────────────────────────────────────────────────────────────────────────


async def gone_after_a_piece(model: Model) -> None:
    """The reader goes away after the first piece."""
    async with aclosing(model.reply(ask_for())) as chunks:
        await anext(chunks)


async def cancelled_after_a_piece(model: Model) -> None:
    """The reader's task is cancelled after the first piece."""
    begun = asyncio.Event()

    async def read() -> None:
        async with aclosing(model.reply(ask_for())) as chunks:
            async for _ in chunks:
                begun.set()
                await asyncio.Event().wait()

    task = asyncio.ensure_future(read())
    await begun.wait()
    await _cancel(task)


async def cancelled_at_once(model: Model) -> None:
    """The reader's task is cancelled before anything came."""
    task = asyncio.ensure_future(chunks_of(model, ask_for()))
    await asyncio.sleep(0)  # it has begun, and waits for its engine
    if not task.done():
        await _cancel(task)


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    require(task.cancelled(), f"it was cancelled and ended otherwise: {shown(task)}")
