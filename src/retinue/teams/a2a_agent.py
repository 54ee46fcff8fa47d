"""`A2AAgent`: an agent of another server, by the Agent2Agent protocol, version 1.0."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection
from contextlib import aclosing, suppress
from dataclasses import dataclass

from ..agent import Agent
from ..core.budgets import Budget
from ..core.effects import Human
from ..core.protocols import Flow, Task, act, consult
from ..core.run_context import current_run, idempotency_key
from ..core.tool import Effects, Tool
from ..core.values import AgentAction, AgentFinish, StopReason
from ..errors import ModelError, ToolError
from ..executor import NoModel
from .a2a_connection import A2AConnection
from .human_answers import words_of
from .task_report import parse_report, report_of

_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0)  # seconds between two looks at a task that cannot be followed
_GRACE = 1.0  # seconds for what must be said when a call is cancelled


class A2AAgent(Agent):
    """An agent of another server, which is asked by A2A 1.0. As a tool it is a member like any agent.

    Each question is a task of that agent. What the task says is the answer: texts, data as JSON; files are named, and
    not fetched. If the task requires input, a person is asked, as for an approval; the answer continues the task. If
    the run is cancelled or out of time, so is the task. A run that is resumed finds its task again.

    Args:
        url: The address of the agent's card, or what precedes `/.well-known/agent-card.json` in it.
        api_key: Sent as a bearer token, or in the header that the card names.
        name: Its name.
        allow: Hosts (`host` or `host:port`) to which the card may lead besides that of `url`.
        seconds: The most that a question may take.
        effects: Whether a question may be sent again if it is not known whether it arrived (`Tool.effects`).
        human: Asked what the task wants to know; otherwise the caller's, or the run waits.

    Raises `UsageError` for an invalid address or key.
    """

    def __init__(  # noqa: PLR0913 -- an agent's address, its limits and what a tool has
        self,
        url: str,
        api_key: str | None = None,
        *,
        name: str = "a2a_agent",
        allow: Collection[str] = (),
        seconds: float = 600.0,
        effects: Effects = "once",
        human: Human | None = None,
    ) -> None:
        tasks = _Tasks(A2AConnection(url, api_key or "", allow, seconds), repeatable=effects != "once")
        tools = [
            Tool("send", tasks.send, "Sends a message to the agent.", effects=effects, timeout=seconds),
            Tool("follow", tasks.follow, "Waits for a task.", effects="read", timeout=seconds, polls=True),
        ]
        budget = Budget(steps=None, seconds=seconds, stale_steps=None)
        super().__init__(NoModel(), tools, strategy=RemoteTask(name, url), budget=budget, name=name, human=human)


@dataclass(frozen=True)
class RemoteTask:
    """The strategy of an `A2AAgent`: a message, then whatever its task needs until it ends. A run goes on with the
    server at `url` only."""

    agent: str
    url: str
    name: str = "a2a"

    def __call__(self, task: Task) -> Flow:
        """Ask once."""
        (seen,) = yield from act(AgentAction("send", {"message": _with_history(task)}))
        turn = 0
        while seen.outcome == "result" and (report := parse_report(seen.text)).state != "completed":
            if report.works:
                (seen,) = yield from act(AgentAction("follow", {"task": report.task}))
            elif report.state == "input-required":
                turn += 1
                question = report.text or "(it does not say what)"
                asked = AgentAction(self.agent, {"question": question})
                decision = yield from consult(asked, f"{self.agent} requires input: {question}")
                answer = {"message": words_of(decision), "task": report.task, "context": report.context, "turn": turn}
                (seen,) = yield from act(AgentAction("send", answer))
            else:
                return _failed(f"the task is {report.state}{f': {report.text}' if report.text else ''}")
        if seen.outcome != "result":
            return _failed(seen.text.partition(" failed: ")[2] or seen.text)
        return AgentFinish({"output": report.text})


def _with_history(task: Task) -> str:
    """Return the question; what was said before it, if anything, precedes it, since each question is a new task."""
    before = [f"{one.role}: {one.content}" for one in task.history if one.content.strip()]
    return "\n\n".join(["The conversation so far:", *before, "Now:", task.question]) if before else task.question


def _failed(problem: str) -> AgentFinish:
    return AgentFinish({"output": "", "problem": problem}, reason=StopReason.ERROR)


class _Tasks:
    """What the strategy does: it sends messages, and follows tasks."""

    def __init__(self, connection: A2AConnection, *, repeatable: bool) -> None:
        self._connection = connection
        self._repeatable = repeatable

    async def send(self, message: str, task: str = "", context: str = "", turn: int = 0) -> str:
        """Send a message, of a task or else of a new one, and return a report at once."""
        key = idempotency_key()
        known = {"taskId": task, "contextId": context}
        said = {
            "messageId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{key}/{turn}") if key else uuid.uuid4()),
            "role": "ROLE_USER",
            "parts": [{"text": message}],
            **{name: value for name, value in known.items() if value},
        }
        wishes = {"returnImmediately": True, "acceptedOutputModes": ["text/plain", "application/json"]}
        headers = {"Idempotency-Key": f"{key}/{turn}"[-255:]} if key else {}
        request = {"message": said, "configuration": wishes}
        sending = asyncio.ensure_future(self._connection.send(request, headers, repeatable=self._repeatable))
        try:
            return str(report_of(await asyncio.shield(sending)))
        except asyncio.CancelledError:
            await self._give_up(sending)
            raise

    async def follow(self, task: str) -> str:
        """Wait until a task ends or requires something, and return a report. Cancelled, it cancels the task."""
        try:
            for pause in (*_PAUSES, *[_PAUSES[-1]] * 1_000_000):
                report = report_of(await self._connection.get(task))
                if not report.works:
                    return str(report)
                if not await self._watched(task):
                    await asyncio.sleep(pause)
        except asyncio.CancelledError:
            await self._cancel(task)
            raise
        raise ToolError("the task does not end")

    async def _watched(self, task: str) -> bool:
        """Follow the stream of a task, if there is one. Return whether it said that there is something to do."""
        if not await self._connection.streams():
            return False
        with suppress(ToolError, ModelError):  # it ended meanwhile, or the stream broke off
            return await self._heard(task)
        return False

    async def _heard(self, task: str) -> bool:
        async with aclosing(self._connection.subscribe(task)) as events:
            async for event in events:
                if not report_of(event).works:
                    return True
        return False

    async def _give_up(self, sending: asyncio.Future[object]) -> None:
        """Cancel the task of a message that may just have arrived."""
        with suppress(Exception):
            report = report_of(await asyncio.wait_for(sending, _GRACE))
            if report.task and not report.ended:
                await self._cancel(report.task)

    async def _cancel(self, task: str) -> None:
        if current_run().is_continued:
            return
        with suppress(ToolError, ModelError, TimeoutError):  # it has ended, or the server is gone
            async with asyncio.timeout(_GRACE):
                await self._connection.cancel(task)
