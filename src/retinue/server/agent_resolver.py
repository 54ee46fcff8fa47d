"""Resolves a stored run to its agent, its question and the conversation before."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from sqlalchemy import Connection

from .._internal.concurrency import run_in_thread
from ..agent import Agent
from ..core.budgets import Budget
from ..core.tools.delegation import HANDOFF
from ..core.tools.tool import Tool
from ..core.values import Message
from ..harness import wants_workspace
from ..limits.shares import TenantShares
from ..runs import RunInput
from ..runs.agent_versions import AgentVersions, find_agent
from ..runs.leases import is_new
from ..store.run_belongings import conversation_of, files_of_run
from ..store.run_queries import last_handoff
from ..store.run_row import RunRow
from ..store.tenant_view import TenantView
from ..store.thread_messages import messages_on
from .agents.call_circles import ServerId, enter_run
from .agents.overrides import HOSTED, override_agent, wanted_schema
from .content.conversation import question_in, tool_exchanges, truncate_history, with_states
from .content.message_files import FileLoader, with_file_data, with_shown_parts
from .content.threads import resources_of
from .content.uploads import prepare_workspace
from .context import Options
from .memories import ServedMemory
from .tools.hosted import Hosted
from .tools.registered import RunTools

_OF_RUN = ("tool_choice", "response_format")  # what a request wants of its own run, and not of that run's helpers
_LARGE = 8_000  # characters of schemas that take more than a few milliseconds to parse


class AgentResolver:
    """Resolves runs, each in the task that drives it. Large schemas and images take the tenant's `shares`."""

    def __init__(
        self,
        versions: AgentVersions,
        memory: ServedMemory,
        hosted: Hosted,
        shares: TenantShares,
        options: Options,
        server: ServerId,
    ) -> None:
        self._versions = versions
        self._memory = memory
        self._hosted = hosted
        self._shares = shares
        self._options = options
        self._server = server
        self._database = memory.database
        self._registered = RunTools(memory.database, shares, options.tool_hosts)

    async def resolve(self, run: RunRow) -> RunInput:
        """Return what a run is driven with. Raises `UsageError` for a run that cannot be served, and `AgentChanged` for
        one that cannot go on with the agent that it began with."""
        await enter_run(run, self._server)
        agent = await find_agent(run, self._database, partial(self._find_agent, of=run))
        scope = TenantView(run.tenant, quota=self._options.quota, user=run.user)
        loader = FileLoader(self._database, scope, self._shares, self._options.image_hosts)
        keep = partial(loader.keep_results, run_id=run.id)
        files = () if is_new(run) else await self._database.read(partial(files_of_run, run_id=run.id))
        if run.kind == "member":
            asked = run.request
            history = [Message(one["role"], one["content"]) for one in asked["history"]]
            member = within_budget(agent, asked["budget"])
            return RunInput(member, asked["question"], history, files=files, keep_files=keep)
        path, agent = await self._find_holder(run, agent)
        agent = await self._override(run, agent)
        if not is_new(run):  # its log holds the input, whatever changed on its thread since
            given = run.request.get("budget")  # a fork of a member's run has it
            driven = agent if given is None else within_budget(agent, given)
            return RunInput(driven, path=path, files=files, keep_files=keep)
        if wants_workspace(agent.spec.harness, agent.tools):
            await prepare_workspace(self._database, run, self._options.quota)
        *before, question = await self._read_conversation(run, agent, loader)
        recalled = await self._memory.recall(run, question.content, before)
        return RunInput(agent, question.content, recalled, path, question.files, keep)

    async def _find_agent(self, run: RunRow, of: RunRow) -> Agent:
        """Return the agent of a run; if `of` is one of a helper below it, with the tools of the run's request."""
        agent = await self._versions.agent_of(run)
        if run.id == of.id or run.kind == "member":
            return agent
        _, agent = await self._find_holder(run, agent)
        request = {name: one for name, one in run.request.items() if name not in _OF_RUN}
        return await self._override(run._replace(request=request), agent)

    async def _find_holder(self, run: RunRow, agent: Agent) -> tuple[str, Agent]:
        """Return the path of the agent that has the conversation on the run's thread, and that agent."""
        if run.thread_id is None or not any(tool.name.startswith(HANDOFF) for tool in agent.tools):
            return run.agent, agent
        path = await self._database.read(partial(last_handoff, run=run, beginning=HANDOFF)) or run.agent
        found = self._versions.at(path)
        return (run.agent, agent) if found is None or found is self._versions.at(run.agent) else (path, found)

    async def _override(self, run: RunRow, agent: Agent) -> Agent:
        """Return the agent with the tools and settings of the run's request."""
        wishes = run.request.get("tools") or ()
        more: list[Tool] = []
        if any(one.get("type") in HOSTED for one in wishes):
            resources = await self._database.read(partial(resources_of, run=run))
            more = await self._hosted.tools(TenantView(run.tenant, user=run.user), wishes, resources)
        if run.agent in self._memory.deployment.extensible:
            more += await self._registered.tools(run)
        schemas = [wishes, wanted_schema(run.request.get("response_format")) or ()]
        size = len(json.dumps(schemas)) if any(schemas) else 0
        async with self._shares.large.rested(run.tenant) if size > _LARGE else nullcontext():
            make = partial(override_agent, agent, run.request, more)
            return await run_in_thread(make) if size else make()

    async def _read_conversation(self, run: RunRow, agent: Agent, loader: FileLoader) -> list[Message]:
        """Return the conversation that a new run begins with, and its question last."""
        said: Sequence[Mapping[str, Any]] | None = run.request.get("messages")
        there: Sequence[Mapping[str, Any]] = ()
        if said is None:
            said, there = await self._database.read(partial(_stored_conversation, run=run))
        if said is None:
            said = [*await with_shown_parts(loader, agent, run.id, there), *(run.request.get("since") or ())]
        kept = truncate_history(said, run.request.get("truncation_strategy"))
        turns, asked = question_in(kept, otherwise=run.request.get("instructions") or "")
        if any(turn.calls for turn in turns):
            turns = await self._database.read(
                partial(with_states, scope=TenantView(run.tenant, user=run.user), turns=turns)
            )
        return await with_file_data(self._database, run.tenant, [*turns, asked])


def _stored_conversation(
    connection: Connection, run: RunRow
) -> tuple[Sequence[Mapping[str, Any]] | None, Sequence[Mapping[str, Any]]]:
    """Return the conversation of the run's request, or `None` and that of its thread before this run: its messages, and
    the tool exchanges of each earlier run before that run's last message."""
    if (said := conversation_of(connection, run)) is not None:
        return said, ()
    rows = [row for row in messages_on(connection, run.thread_id) if row[0] != run.id]
    done = tool_exchanges(connection, {run_id for run_id, _ in rows if run_id is not None})
    last = {run_id: at for at, (run_id, _) in enumerate(rows)}
    there: list[Mapping[str, Any]] = []
    for at, (run_id, body) in enumerate(rows):
        there += done.get(run_id or "", ()) if last[run_id] == at else ()
        there.append({"role": body["role"], "content": body["content"]})
    return None, there


def within_budget(agent: Agent, budget: Mapping[str, Any]) -> Agent:
    """Return a member of a team with the budget that its caller gave it."""
    member = copy.copy(agent)
    member.budget, member.memories, member.human = Budget(**budget), (), None
    return member
