"""Chat completions: each is a run of an agent, cancelled when its client goes away and gave no Idempotency-Key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from ...store.event_log import Entry
from ...store.run_row import RunRow
from ..context import Context, ContextDep, Server
from ..message_content import prepare_files
from ..run_failure import FAILED, error_of_run
from ..wire.api_errors import ApiError, no_model
from ..wire.client_disconnect import wait_for_disconnect
from ..wire.request_body import JsonRoute
from ..wire.sse import DONE, STREAMED, event_stream, frame
from .chat_run import chat_run
from .schemas import ChatCreate, check_supported
from .views import Chunks, completion

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions", responses=STREAMED)
async def create(
    body: ChatCreate, context: ContextDep, request: Request, x_retinue_thread: Annotated[str | None, Header()] = None
) -> Any:
    """Answer a conversation."""
    if body.model not in context.server.deployment.agents:
        raise no_model(body.model)
    check_supported(body)
    asked = body.sent()
    as_text = isinstance(body.messages, str)
    if as_text:
        asked["messages"] = [{"role": "user", "content": body.messages}]
    key = x_retinue_thread or body.thread_id or (body.metadata or {}).get("thread_id")
    await prepare_files(context, (one.get("content") for one in asked["messages"]))
    work = partial(chat_run, options=context.server.options, asked=asked, thread_key=key)
    run, new = await context.write(lambda connection, scope: work(connection, scope))
    if new:
        context.server.runs.start(run.id, run)
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return event_stream(_chunks(context, run, Chunks(run, with_usage=usage, reasoning=bool(body.reasoning))))
    run, log = await _ended(context, run, request)
    if run.status in FAILED or run.parked:
        raise await error_of_run(context.server, run)
    answer = completion(run, log, reasoning=bool(body.reasoning))
    if as_text:
        answer["text"] = answer["choices"][0]["message"]["content"]  # where OPEA's clients look
    return answer


async def _chunks(context: Context, run: RunRow, chunks: Chunks) -> AsyncIterator[str]:
    over = False
    items = context.server.runs.followers.follow(run.id, run.told, request=run.request)
    try:
        yield frame(chunks.first())
        async for item in items:
            rests = item if isinstance(item, RunRow) and item.rests else None
            over = rests is not None
            for chunk in chunks.tell(item) if rests is None else chunks.last(rests):
                yield frame(chunk)
            if over:
                break
    except ApiError as error:
        yield frame(error.body)
    finally:
        if not over and context.repeat is None:
            context.server.runs.interrupt(run.id)
        await items.aclose()
    yield DONE


async def _ended(context: Context, run: RunRow, request: Request) -> tuple[RunRow, list[Entry]]:
    """The run once it has ended, or waits, and what came of it since the last completion; it is cancelled if a
    client goes away meanwhile that cannot come back to it."""
    watch = asyncio.create_task(wait_for_disconnect(request))
    following = asyncio.create_task(_rest(context.server, run))
    try:
        await asyncio.wait([watch, following], return_when=asyncio.FIRST_COMPLETED)
        if not following.done() and context.repeat is None:
            context.server.runs.interrupt(run.id)
        return await following
    finally:
        for task in (watch, following):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await watch


async def _rest(server: Server, run: RunRow) -> tuple[RunRow, list[Entry]]:
    log: list[Entry] = []
    async with aclosing(server.runs.followers.follow(run.id, run.told, listens=False, request=run.request)) as items:
        async for item in items:
            if isinstance(item, Entry):
                log.append(item)
            if isinstance(item, RunRow) and item.rests:
                return item, log
    return run, log
