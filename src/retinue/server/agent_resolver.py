"""Resolves a stored run to its agent, its question and the conversation before."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from sqlalchemy import Connection, Text, bindparam, cast, func, select

from .._internal.concurrency import run_in_thread
from ..agent import Agent
from ..core.budgets import Budget
from ..core.tools.delegation import HANDOFF
from ..core.tools.tool import Tool
from ..core.values import Message
from ..limits.shares import TenantShares
from ..runs import RunInput
from ..runs.leases import is_new
from ..store.database import Database
from ..store.prepared_statements import Prepared
from ..store.run_conversation import conversation_of, is_beside
from ..store.run_files import files_of_run
from ..store.run_queries import last_handoff
from ..store.run_row import RunRow
from ..store.tables import messages
from ..store.tenant_view import TenantView
from .agents.agent_versions import AgentVersions
from .agents.call_circles import ServerId, enter_run
from .agents.overrides import HOSTED, override_agent, wanted_schema
from .content.conversation_history import question_in, truncate_history
from .content.file_intake import FileLoader, keep_result_files
from .content.shown_history import with_file_data, with_shown_parts
from .content.threads import resources_of
from .content.tool_history import tool_exchanges, with_states
from .context import Options
from .memories import ServedMemory
from .tools.hosted import Hosted
from .tools.registered import RunTools

_ON_THREAD = Prepared(
    select(messages.c.run_id, messages.c.body)
    .where(messages.c.thread_id == bindparam("thread"))
    .order_by(messages.c.number)
)
_FEW = 10  # messages
_BEGINNING = (
    select(messages.c.run_id, func.length(cast(messages.c.body, Text)).label("size"))
    .where(messages.c.thread_id == bindparam("thread"))
    .limit(_FEW + 1)
    .subquery()
)
_TOTALS: tuple[Any, ...] = (func.count(), func.count(_BEGINNING.c.run_id), func.sum(_BEGINNING.c.size))
_SIZE = Prepared(select(*_TOTALS))
_LARGE = 8_000  # characters of schemas that take more than a few milliseconds to parse


def make_resolver(
    versions: AgentVersions,
    memory: ServedMemory,
    hosted: Hosted,
    shares: TenantShares,
    options: Options,
    server: ServerId,
) -> Callable[[RunRow], Awaitable[RunInput]]:
    """Return the function by which `Runs` resolves a run to its `RunInput`. Large schemas and images take the tenant's
    `shares`. The function raises `UsageError` for a run that cannot be served, and `AgentChanged` for one that cannot
    go on with the agent that it began with."""

    database, extensible = memory.database, memory.deployment.extensible
    registered = RunTools(database, shares, options.tool_hosts)

    async def assign(run: RunRow) -> RunInput:
        await enter_run(run, server)  # in the task that drives it
        agent = await versions.agent_of(run)
        loader = FileLoader(database, TenantView(run.tenant, quota=options.quota), shares, options.image_hosts)
        keep = partial(keep_result_files, loader, run.id)
        files = () if is_new(run) else await database.read(partial(files_of_run, run_id=run.id))
        if run.kind == "member":
            history = [Message(one["role"], one["content"]) for one in run.request["history"]]
            return RunInput(
                within_budget(agent, run.request["budget"]),
                run.request["question"],
                history,
                files=files,
                keep_files=keep,
            )
        path, agent = await _holder(versions, database, run, agent)
        wishes = run.request.get("tools") or ()
        more: list[Tool] = []
        if any(one.get("type") in HOSTED for one in wishes):
            resources = await database.read(partial(resources_of, run=run))
            more = await hosted.tools(TenantView(run.tenant), wishes, resources)
        if run.agent in extensible:
            more += await registered.tools(run)
        async with shares.large.rested(run.tenant) if (size := _schema_size(run)) > _LARGE else nullcontext():
            make = partial(override_agent, agent, run.request, more)
            agent = await run_in_thread(make) if size else make()
        if not is_new(run):  # its log holds the input, whatever changed on its thread since
            given = run.request.get("budget")  # a fork of a member's run has it
            driven = agent if given is None else within_budget(agent, given)
            return RunInput(driven, path=path, files=files, keep_files=keep)
        *history, question = await _turns(database, loader, agent, run)
        recalled = await memory.recall(run, question.content, history)
        return RunInput(agent, question.content, recalled, path, question.files, keep)

    return assign


async def _turns(database: Database, loader: FileLoader, agent: Agent, run: RunRow) -> list[Message]:
    """Return the conversation that a new run begins with, and its question last."""
    said = await _said(database, loader, agent, run)
    conversation = truncate_history(said, run.request.get("truncation_strategy"))
    turns, asked = question_in(conversation, otherwise=run.request.get("instructions") or "")
    if any(turn.calls for turn in turns):
        turns = await database.read(partial(with_states, scope=TenantView(run.tenant), turns=turns))
    return await with_file_data(database, run.tenant, [*turns, asked])


async def _said(database: Database, loader: FileLoader, agent: Agent, run: RunRow) -> Sequence[Mapping[str, Any]]:
    """Return the conversation to which a run's agent replies: the request's own, or that of its thread."""
    said: Sequence[Mapping[str, Any]] | None = run.request.get("messages")
    if said is None:
        first = None if database.is_shared else await database.read(partial(_first_messages, run=run), small=True)
        said, there = (None, first) if first is not None else await database.read(partial(_kept, run=run))
    if said is not None:
        return said
    return [*await with_shown_parts(loader, agent, run.id, there), *(run.request.get("since") or ())]


def _first_messages(connection: Connection, run: RunRow) -> list[dict[str, Any]] | None:
    """Return the thread's conversation if no run has answered in it and it is short, which is read at once; otherwise
    `None`."""
    number, answered, size = _SIZE.rows(connection, {"thread": run.thread_id})[0]
    if is_beside(run) or number > _FEW or answered or (size or 0) > _LARGE:
        return None
    return thread_messages(connection, run)


def _kept(
    connection: Connection, run: RunRow
) -> tuple[Sequence[Mapping[str, Any]] | None, Sequence[Mapping[str, Any]]]:
    """Return the conversation of the run's request if it is stored beside it, and otherwise that of its thread."""
    said = conversation_of(connection, run)
    return said, () if said is not None else thread_messages(connection, run)


async def _holder(versions: AgentVersions, database: Database, run: RunRow, agent: Agent) -> tuple[str, Agent]:
    """Return the path of the agent that has the conversation on the run's thread, and that agent."""
    if run.thread_id is None or not any(tool.name.startswith(HANDOFF) for tool in agent.tools):
        return run.agent, agent
    path = await database.read(partial(last_handoff, run=run, beginning=HANDOFF)) or run.agent
    found = versions.at(path)
    return (run.agent, agent) if found is None or found is versions.at(run.agent) else (path, found)


def within_budget(agent: Agent, budget: Mapping[str, Any]) -> Agent:
    """Return a member of a team with the budget that its caller gave it."""
    member = copy.copy(agent)
    member.budget, member.memories, member.human = Budget(**budget), (), None
    return member


def _schema_size(run: RunRow) -> int:
    """Return the characters of JSON schemas in the run's request; large ones take a while to parse."""
    sent = [run.request.get("tools") or (), wanted_schema(run.request.get("response_format")) or ()]
    return len(json.dumps(sent)) if any(sent) else 0


def thread_messages(connection: Connection, run: RunRow) -> list[dict[str, Any]]:
    """Return the thread's conversation before this run: its messages, and the tool exchanges of each earlier run before
    that run's last message."""
    rows = [row for row in _ON_THREAD.rows(connection, {"thread": run.thread_id}) if row[0] != run.id]
    done = tool_exchanges(connection, {run_id for run_id, _ in rows if run_id is not None})
    last = {run_id: at for at, (run_id, _) in enumerate(rows)}
    said: list[dict[str, Any]] = []
    for at, (run_id, body) in enumerate(rows):
        said += done.get(run_id, ()) if last[run_id] == at else ()
        said.append({"role": body["role"], "content": body["content"]})
    return said
