"""`POST /chat/completions`: each completion is a run of an agent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from ..context import ContextDep
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED
from .chat_run import ChatRun
from .schemas import ChatCreate

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions", responses=STREAMED)
async def create(
    body: ChatCreate, context: ContextDep, request: Request, x_retinue_thread: Annotated[str | None, Header()] = None
) -> Any:
    """Answer a conversation."""
    return await ChatRun(context, request, body, x_retinue_thread).respond()
