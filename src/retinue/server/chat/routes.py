"""Chat completions: each is a run of an agent, cancelled when its client goes away and gave no Idempotency-Key."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from ..context import ContextDep
from ..image_intake import Place, take_in_images
from ..message_content import prepare_files
from ..overrides import named_or_only
from ..run_failure import FAILED, error_of_run
from ..run_session import RunSession
from ..wire.request_body import JsonRoute
from ..wire.sse import STREAMED, event_stream
from .chat_run import chat_run
from .schemas import ChatCreate, check_supported
from .views import Chunks, Entries, completion

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions", responses=STREAMED)
async def create(
    body: ChatCreate, context: ContextDep, request: Request, x_retinue_thread: Annotated[str | None, Header()] = None
) -> Any:
    """Answer a conversation."""
    model = named_or_only(context.server.deployment, body.model)
    check_supported(body)
    asked = body.sent() | {"model": model}
    as_text = isinstance(body.messages, str)
    if as_text:
        asked["messages"] = [{"role": "user", "content": body.messages}]
    key = x_retinue_thread or body.thread_id or (body.metadata or {}).get("thread_id")
    await prepare_files(context, (one.get("content") for one in asked["messages"]))
    places = (
        Place(f"messages[{at}].content", one["role"], one.get("content")) for at, one in enumerate(asked["messages"])
    )
    shown = await take_in_images(context, context.server.deployment.agents[model], places)
    work = partial(chat_run, options=context.server.options, asked=asked, thread_key=key, shown=shown)
    run, new = await context.write(lambda connection, scope: work(connection, scope))
    session = RunSession(context.server, run, since=run.told, lasting=context.repeat is not None)
    session.begin(new=new)
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return event_stream(session.follow(Chunks(run, with_usage=usage, reasoning=bool(body.reasoning))))
    entries = Entries()
    run = await session.wait(entries, request)
    if run.status in FAILED or run.suspended:
        raise await error_of_run(context.server, run)
    answer = completion(run, entries.log, reasoning=bool(body.reasoning))
    if as_text:
        answer["text"] = answer["choices"][0]["message"]["content"]  # where OPEA's clients look
    return answer
