"""Chat completions: each is a run of an agent, cancelled when its client goes away and gave no Idempotency-Key."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from ..._internal.concurrency import run_in_thread
from ..agents.overrides import check_functions, functions_in
from ..content.file_intake import Place, take_in_files
from ..content.message_content import prepare_files
from ..context import Context, ContextDep
from ..http.objects import Object
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..models.audio import check_sound, hear_messages
from ..models.list import named_or_only
from ..run_failure import FAILED, error_of_run
from ..run_session import RunSession
from .chat_run import chat_run
from .schemas import ChatCreate, check_supported
from .sound import SpokenChunks, add_sound, restore_speech, spoken_stream
from .views import Chunks, Entries, completion

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions", responses=STREAMED)
async def create(
    body: ChatCreate, context: ContextDep, request: Request, x_retinue_thread: Annotated[str | None, Header()] = None
) -> Any:
    """Answer a conversation."""
    session = await begin(body, context, x_retinue_thread)
    spoken = body.audio if "audio" in (body.modalities or ()) else None
    if body.stream and spoken is not None:
        told = SpokenChunks(context, session.run, with_usage=body.with_usage, reasoning=bool(body.reasoning))
        return event_stream(spoken_stream(context, session, told, spoken))
    if body.stream:
        chunks = Chunks(session.run, with_usage=body.with_usage, reasoning=body.shows_reasoning)
        return event_stream(session.follow(chunks))
    answer = await completed(body, context, request, session)
    if spoken is not None:
        await add_sound(context, session.run, answer, spoken)
    if isinstance(body.messages, str):
        answer["text"] = answer["choices"][0]["message"]["content"]  # where OPEA's clients look
    return answer


async def begin(body: ChatCreate, context: Context, thread: str | None = None) -> RunSession:
    """Return the session with the run that answers a request, on the `thread` that its header names, if any."""
    model = named_or_only(context.server.deployment, body.model)
    agent = context.server.deployment.agents[model]
    check_supported(body)
    await check_sound(context, model, body.modalities or (), body.audio)
    asked = body.sent() | {
        "model": model,
        "reasoning_effort": body.effort,
        "shows_reasoning": body.shows_reasoning or None,
    }
    if functions := functions_in(asked.get("tools") or ()):
        await run_in_thread(check_functions, agent, functions)
    if isinstance(body.messages, str):
        asked["messages"] = [{"role": "user", "content": body.messages}]
    asked["messages"] = await hear_messages(context, model, await restore_speech(context, asked["messages"]))
    key = thread or body.thread_id or (body.metadata or {}).get("thread_id")
    await prepare_files(context, (one.get("content") for one in asked["messages"]))
    places = (
        Place(f"messages[{at}].content", one["role"], one.get("content")) for at, one in enumerate(asked["messages"])
    )
    shown = await take_in_files(context, agent, places)
    work = partial(chat_run, options=context.server.options, asked=asked, thread_key=key, shown=shown)
    run, new = await context.write(lambda connection, scope: work(connection, scope))
    session = RunSession(context.server, run, since=run.told, lasting=context.repeat is not None)
    session.begin(new=new)
    return session


async def completed(body: ChatCreate, context: Context, request: Request, session: RunSession) -> Object:
    """Return the completion once the run rests. Raises `ApiError` if it failed."""
    entries = Entries()
    run = await session.wait(entries, request)
    if run.status in FAILED or run.suspended:
        raise await error_of_run(context.server, run)
    return completion(run, entries.log, reasoning=body.shows_reasoning)
