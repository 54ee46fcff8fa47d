"""Who answers a run, and what: the agent as the run's request wants it, the question, the conversation before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, select

from ..errors import UsageError
from ..runs import Assignment
from ..runs.claiming import is_new
from ..schema import Message
from ..store.database import Database
from ..store.rows import RunRow
from ..store.scope import Scope
from ..store.tables import messages
from ..tooling import Tool
from .assistants.resources import resources_of
from .deployment import Deployment
from .hosted import HOSTED, Hosted
from .tailoring import tailored


def assigning(deployment: Deployment, database: Database, hosted: Hosted) -> Callable[[RunRow], Awaitable[Assignment]]:
    """What `Runs` needs to know of a deployment. The function raises `UsageError` for a run that nobody can answer."""

    async def assign(run: RunRow) -> Assignment:
        agent = deployment.agents.get(run.request["model"])
        if agent is None:
            raise UsageError(f"The model '{run.request['model']}' does not exist.")
        wishes = run.request.get("tools") or ()
        more: list[Tool] = []
        if any(one.get("type") in HOSTED for one in wishes):
            resources = await database.read(partial(resources_of, run=run))
            more = await hosted.tools(Scope(run.tenant), wishes, resources)
        agent = tailored(agent, run.request, more)
        if not is_new(run):  # it began with what its log says, whatever became of its thread since
            return Assignment(agent)
        said: Sequence[Mapping[str, Any]] | None = run.request.get("messages")
        if said is None:
            said = await database.read(partial(thread_messages, run=run))
        conversation = shortened(said, run.request.get("truncation_strategy"))
        history, question = question_in(conversation, otherwise=run.request.get("instructions") or "")
        return Assignment(agent, question, history)

    return assign


def thread_messages(connection: Connection, run: RunRow) -> list[dict[str, Any]]:
    """The conversation on a run's thread before the run said anything: `role` and `content`."""
    query = select(messages.c.run_id, messages.c.body).where(messages.c.thread_id == run.thread_id)
    rows = connection.execute(query.order_by(messages.c.number))
    return [{"role": body["role"], "content": body["content"]} for run_id, body in rows if run_id != run.id]


def shortened(said: Sequence[Mapping[str, Any]], truncation: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    """As much of the conversation as a `truncation_strategy` leaves (`auto`: all; what does not fit into the model's
    window is shortened by the loop)."""
    last = (truncation or {}).get("last_messages")
    return said[-last:] if last and (truncation or {}).get("type") == "last_messages" else said


def question_in(said: Sequence[Mapping[str, Any]], otherwise: str = "") -> tuple[list[Message], str]:
    """The conversation before, and the question: what the user said last, else what was said last, else `otherwise`.
    Raises `UsageError` if there is none."""
    turns = [Message("assistant" if one["role"] == "assistant" else "user", text_of(one["content"])) for one in said]
    turns = [turn for turn in turns if turn.content.strip()]
    turns = turns or [Message("user", otherwise)]
    last = max((at for at, turn in enumerate(turns) if turn.role == "user"), default=len(turns) - 1)
    if not turns[last].content.strip():
        raise UsageError("There is no message to answer.")
    return [*turns[:last], *turns[last + 1 :]], turns[last].content


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or parts of which those are read that have one."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_part, content or ())))


def _part(part: Mapping[str, Any]) -> str:
    match part:
        case {"type": "text", "text": {"value": str() as text}} | {"type": "text", "text": str() as text}:
            return text
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return f"(an image: {url})" if not url.startswith("data:") else "(an image)"
        case {"type": str() as kind}:
            return f"({kind.replace('_', ' ')})"
    return ""
