"""`A2AAgent`: an agent of another server, by the Agent2Agent protocol, version 1.0."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ..agent import Agent
from ..core.budgets import Budget
from ..core.loop.effects import Human
from ..core.protocols import Flow, Task, act, consult
from ..core.run_context import current_run, idempotency_key
from ..core.tools.tool import Effects, Tool
from ..core.values import AgentAction, AgentFinish, StopReason
from ..errors import ModelError, ToolError
from ..executor import NoModel
from .a2a_connection import A2AConnection
from .remote_agent import write_decision

_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0)  # seconds between two looks at a task that cannot be followed
_GRACE = 1.0  # seconds for what must be said when a call is cancelled
WORKING = ("submitted", "working", "unspecified")
_STATES = (*WORKING, "completed", "failed", "canceled", "rejected", "input-required", "auth-required")


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
        said = [f"{one.role}: {one.content}" for one in task.history if one.content.strip()]
        if said:  # each question is a task of its own
            said = ["The conversation so far:", *said, "Now:"]
        (seen,) = yield from act(AgentAction("send", {"message": "\n\n".join([*said, task.question])}))
        turn = 0
        while seen.outcome == "result" and (report := parse_report(seen.text)).state != "completed":
            if report.works:
                (seen,) = yield from act(AgentAction("follow", {"task": report.task}))
            elif report.state == "input-required":
                turn += 1
                question = report.text or "(it does not say what)"
                asked = AgentAction(self.agent, {"question": question})
                decision = yield from consult(asked, f"{self.agent} requires input: {question}")
                answer = {"message": write_decision(decision), "task": report.task, "context": report.context}
                (seen,) = yield from act(AgentAction("send", answer | {"turn": turn}))
            else:
                return _fail(f"the task is {report.state}{f': {report.text}' if report.text else ''}")
        if seen.outcome != "result":
            return _fail(seen.text.partition(" failed: ")[2] or seen.text)
        return AgentFinish({"output": report.text})


def _fail(problem: str) -> AgentFinish:
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
        asked = self._connection.ask("SendMessage", "/message:send", request, headers, repeatable=self._repeatable)
        sending = asyncio.ensure_future(asked)
        try:
            return str(read_report(await asyncio.shield(sending)))
        except asyncio.CancelledError:
            with suppress(Exception):  # the message may just have arrived
                report = read_report(await asyncio.wait_for(sending, _GRACE))
                if report.task and (report.works or report.state.endswith("-required")):
                    await self._cancel_task(report.task)
            raise

    async def follow(self, task: str) -> str:
        """Wait until a task ends or requires something, and return a report. Cancelled, it cancels the task."""
        pauses, path = chain(_PAUSES, repeat(_PAUSES[-1])), f"/tasks/{quote(task, safe='')}"
        try:
            while True:
                report = read_report(await self._connection.ask("GetTask", path, {"id": task}, method="GET"))
                if not report.works:
                    return str(report)
                if not await self._watch_stream(task):
                    await asyncio.sleep(next(pauses))
        except asyncio.CancelledError:
            await self._cancel_task(task)
            raise

    async def _watch_stream(self, task: str) -> bool:
        """Follow the stream of a task, if there is one. Return whether it said that there is something to do."""
        path = f"/tasks/{quote(task, safe='')}:subscribe"
        if await self._connection.streams():
            with suppress(ToolError, ModelError):  # it ended meanwhile, or the stream broke off
                async with aclosing(self._connection.exchange("SubscribeToTask", path, {"id": task})) as events:
                    async for event in events:
                        if not read_report(event).works:
                            return True
        return False

    async def _cancel_task(self, task: str) -> None:
        if not current_run().is_continued:
            with suppress(ToolError, TimeoutError):  # it has ended, or the server is gone
                async with asyncio.timeout(_GRACE):
                    await self._connection.ask("CancelTask", f"/tasks/{quote(task, safe='')}:cancel", {"id": task})


class TaskReport(NamedTuple):
    """A task at some time. `text` is its answer, or what it says about its state."""

    state: str
    task: str = ""
    context: str = ""
    text: str = ""

    @property
    def works(self) -> bool:
        """Whether there is nothing to do but to wait."""
        return self.state in WORKING

    def __str__(self) -> str:
        return f"{self.state} {quote(self.task, safe='')} {quote(self.context, safe='')}\n{self.text}"


def parse_report(text: str) -> TaskReport:
    """Return the report with this text. Raises `ToolError` if it is none."""
    head, _, rest = text.partition("\n")
    words = head.split(" ")
    if len(words) != 3 or words[0] not in _STATES:
        raise ToolError(f"{head[:80]!r} is not the state of a task")
    return TaskReport(words[0], unquote(words[1]), unquote(words[2]), rest)


def read_report(result: Any) -> TaskReport:
    """Return the report of a task, a message, a response or an event of a stream. An event of an artifact says no more
    than that the task works. Raises `ToolError` for anything else."""
    given = result if isinstance(result, Mapping) else {}
    if isinstance(message := given.get("message"), Mapping):
        return TaskReport("completed", text=read_text(message.get("parts")))
    if isinstance(update := given.get("statusUpdate"), Mapping):
        return _read_task_report(update, update.get("taskId"))
    if isinstance(given.get("artifactUpdate"), Mapping):
        return TaskReport("working")
    task = given.get("task", given)
    if isinstance(task, Mapping) and "status" in task:
        return _read_task_report(task, task.get("id"))
    raise ToolError(f"the agent answered with something that is neither a task nor a message: {str(result)[:80]!r}")


def _read_task_report(task: Mapping[str, Any], id_: Any) -> TaskReport:
    status = task.get("status")
    status = status if isinstance(status, Mapping) else {}
    state = str(status.get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", "-")
    if state not in _STATES or not isinstance(id_, str) or not id_:
        raise ToolError(f"the agent says of a task that its state is {str(status.get('state'))[:80]!r}")
    context, message, given = task.get("contextId"), status.get("message"), task.get("artifacts")
    parts = message.get("parts") if isinstance(message, Mapping) else None
    texts = [part for part in parts if isinstance(part, Mapping) and "text" in part] if isinstance(parts, list) else []
    said = read_text(texts) or read_text(parts)  # of a message without any text, whatever it has
    artifacts = [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []
    made = "\n\n".join(filter(None, (read_text(one.get("parts")) for one in artifacts)))
    text = made or said if state == "completed" else said or made
    return TaskReport(state, id_, context if isinstance(context, str) else "", text)


def read_text(parts: Any) -> str:
    """Return parts as text: data as JSON, on lines of its own; files are named, and not fetched. Texts that follow each
    other are joined as they are, since a stream arrives in pieces."""
    said = ""
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, Mapping):
            continue
        named = " ".join(str(part[name])[:200] for name in ("filename", "mediaType") if part.get(name))
        if isinstance(text := part.get("text"), str):
            said += text
        elif "data" in part:
            said += f"\n{json.dumps(part['data'], ensure_ascii=False)}\n"
        elif isinstance(url := part.get("url"), str):
            said += "\n" + f"[a file, not fetched: {named} {url[:500]}]".replace("  ", " ") + "\n"
        elif "raw" in part:
            said += f"\n[a file, not shown: {named}]\n"
    return said.replace("\n\n[", "\n[").strip()
