"""Requests to a model under test: for a whole reply, or abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ..core.events import Delta
from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Model, Retry
from ..core.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Reply
from .case import require, shown

Make = Callable[[], Model]
Chunk = Delta | Retry | Reply


@dataclass(frozen=True, slots=True)
class ModelSubject:
    """A model under test. Cases that lack an input they need are skipped.

    Args:
        make: Returns a new model, whose engine answers any prompt with a text of at least two words. A real engine
            does;
            a stand-in says the same text each time, and where it is sent a constraint, one of `yes` and `no`.
        calls: Returns a new model, whose engine calls a tool that it is offered and must use.
        refused: Returns a new model, all of whose requests the engine refuses, e.g. for a wrong key.
        flaky: Returns a new model, whose engine has one transient failure (503, a broken connection), and then answers.
        unavailable: Returns a new model, whose engine cannot be reached. It should not wait long between its tries.
        too_long: Returns a new model, for which any prompt is too long.
        connections: Returns how many connections the engine has open at this moment.
        max_tokens: Limit for each reply to the suite's requests. Reasoning models need more.
        secret: The key that these are made with; it may not appear in any `repr` or error.
    """

    make: Make
    calls: Make | None = None
    refused: Make | None = None
    flaky: Make | None = None
    unavailable: Make | None = None
    too_long: Make | None = None
    connections: Callable[[], int] | None = None
    max_tokens: int = 256
    secret: str = field(default="", repr=False)

    def ask(self, prompt: str | Prompt = "Say hello in five words.", **more: Any) -> Ask:
        """Return the loop's request for `prompt`, with `more` as in `Ask`."""
        prompt = Prompt(Message("user", prompt)) if isinstance(prompt, str) else prompt
        return Ask(prompt, prompt.message.content, _written, max_tokens=self.max_tokens, **more)


def _written(decided: Decided) -> Reply:
    return Reply(decided.output) if isinstance(decided, AgentFinish) else Reply("", calls=decided)


async def chunks_of(model: Model, request: Ask) -> list[Chunk]:
    """Return everything that `model` yields."""
    async with aclosing(model.reply(request)) as chunks:
        return [chunk async for chunk in chunks]


async def whole_reply(model: Model, request: Ask) -> Reply:
    """Return the whole reply, which must equal the streamed text."""
    return require_reply(await chunks_of(model, request))


def require_reply(seen: Sequence[Chunk]) -> Reply:
    """Return the reply at the end of a model's output. Raises `AssertionError` unless it equals the streamed text."""
    last = seen[-1] if seen else None
    require(isinstance(last, Reply), f"want a Reply as the last item, not {shown(last)}")
    assert isinstance(last, Reply)
    text = _streamed(seen)
    require(text is None or text == last.text, f"the pieces make {shown(text)}, the reply is {shown(last.text)}")
    return last


def _streamed(seen: Sequence[Chunk]) -> str | None:
    """Return the final text that a reader of the stream sees; `None` if nothing was streamed."""
    after = max((at for at, chunk in enumerate(seen, 1) if isinstance(chunk, Retry)), default=0)
    pieces = [chunk.text for chunk in seen[after:] if isinstance(chunk, Delta)]
    return "".join(pieces) if pieces else None


def adding() -> Tool:
    """Return a tool to offer."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return Tool("add", add, effects="read")


def conversation() -> Prompt:
    """Return a conversation with two tool calls in one turn, which the model should now answer."""
    calls = (AgentAction("add", {"a": 1, "b": 2}, id="call_1_0"), AgentAction("add", {"a": 3, "b": 4}, id="call_1_1"))
    return Prompt(Message("system", "Be brief.")).add(
        Message("user", "What are 1 + 2 and 3 + 4? Answer in a whole sentence."),
        Message("assistant", "I add them.", calls),
        Message("tool", "3", call_id="call_1_0", tool="add"),
        Message("tool", "7", call_id="call_1_1", tool="add"),
    )


# ── giving up ────────────────────────────────────────────────────────────────────────────────────


async def gone_after_a_piece(model: Model, request: Ask) -> None:
    """The reader leaves after the first piece."""
    async with aclosing(model.reply(request)) as chunks:
        await anext(chunks)


async def cancelled_after_a_piece(model: Model, request: Ask) -> None:
    """The reader's task is cancelled after the first piece."""
    begun = asyncio.Event()

    async def read() -> None:
        async with aclosing(model.reply(request)) as chunks:
            async for _ in chunks:
                begun.set()
                await asyncio.Event().wait()

    task = asyncio.ensure_future(read())
    await begun.wait()
    await _cancel(task)


async def cancelled_at_once(model: Model, request: Ask) -> None:
    """The reader's task is cancelled before anything arrives."""
    task = asyncio.ensure_future(chunks_of(model, request))
    await asyncio.sleep(0)  # it has started, and waits for its engine
    if not task.done():
        await _cancel(task)


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    require(task.cancelled(), f"it was cancelled and ended otherwise: {shown(task)}")
