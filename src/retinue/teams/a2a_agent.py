"""`A2AAgent`: an agent of another server, by the Agent2Agent protocol, version 1.0.

From what a user constructs down to the wire: the strategy, its tools, the reports of tasks, and the connection, whose
requests are JSON-RPC or HTTP+JSON, as the agent's card says. Cards are untrusted, so they are bounded, checked, and
never a reason to talk to yet another server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ..agent import Agent
from ..core.budgets import Budget
from ..core.context_templates import fill_headers
from ..core.loop.effects import Human
from ..core.protocols import Flow, Task, act, consult
from ..core.run_context import current_run, idempotency_key
from ..core.tools.tool import Effects, Tool
from ..core.values import AgentAction, AgentFinish, StopReason
from ..errors import ModelError, ModelUnavailable, NotDone, ToolError, UsageError
from ..executor import NoModel
from ..net.error_mapping import call_failure
from ..net.http_client import DONE, HttpClient, build_bearer_header
from ..net.retry import Attempts, Retries, TimeLimits
from ..net.url_policy import parse_url, shorten_url
from .remote_agent import check_headers, hide_address, write_decision

logger = logging.getLogger(__name__)
WELL_KNOWN = "/.well-known/agent-card.json"
MAX_ANSWER = 4_000_000  # bytes of a response, or of a stream
MAX_CARD = 200_000  # bytes
_RETRIES = Retries(tries=4, first_wait=0.5, longest_wait=30.0)
_KEPT = 300.0  # seconds for which a card is good
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_OURS = re.compile(
    r"(?i)(host|connection|content-.*|transfer-.*|proxy-.*|te|trailer|upgrade|accept.*|a2a-.*|x-retinue-.*)"
)
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
        headers: Sent with each request but that for the card; they may have templates, as `${user.secret:NAME}`.

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
        headers: Mapping[str, str] | None = None,
    ) -> None:
        check_headers(headers or {})
        there = A2AConnection(url, api_key or "", allow, seconds, repeatable=effects != "once")
        there.headers = headers or {}
        tools = [
            Tool("send", there.send, "Sends a message to the agent.", effects=effects, timeout=seconds),
            Tool("follow", there.follow, "Waits for a task.", effects="read", timeout=seconds, polls=True),
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
    given = _read_object(result)
    if isinstance(message := given.get("message"), Mapping):
        return TaskReport("completed", text=read_text(message.get("parts")))
    if isinstance(given.get("artifactUpdate"), Mapping):
        return TaskReport("working")
    if isinstance(task := given.get("statusUpdate"), Mapping):
        id_ = task.get("taskId")
    elif isinstance(task := given.get("task", given), Mapping) and "status" in task:
        id_ = task.get("id")
    else:
        raise ToolError(f"the agent answered with something that is neither a task nor a message: {str(result)[:80]!r}")
    status, context = _read_object(task.get("status")), task.get("contextId")
    state = str(status.get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", "-")
    if state not in _STATES or not isinstance(id_, str) or not id_:
        raise ToolError(f"the agent says of a task that its state is {str(status.get('state'))[:80]!r}")
    parts = _read_object(status.get("message")).get("parts")
    said = read_text([part for part in _read_objects(parts) if "text" in part]) or read_text(parts)
    made = "\n\n".join(filter(None, (read_text(one.get("parts")) for one in _read_objects(task.get("artifacts")))))
    text = made or said if state == "completed" else said or made
    return TaskReport(state, id_, context if isinstance(context, str) else "", text)


def read_text(parts: Any) -> str:
    """Return parts as text: data as JSON, on lines of its own; files are named, and not fetched. Texts that follow each
    other are joined as they are, since a stream arrives in pieces."""
    said = ""
    for part in _read_objects(parts):
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


# ── the connection ───────────────────────────────────────────────────────────────────────────────


class A2AConnection:
    """Talks to the agent whose card is at `url`, and to no other server, except those in `allow`.

    `send` and `follow` are the strategy's tools. `repeatable`: a message that may have arrived may be sent again.
    """

    headers: Mapping[str, str] = {}

    def __init__(self, url: str, api_key: str, allow: Collection[str], seconds: float, *, repeatable: bool) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"an A2A agent's url is the address of its server or its card, not {url[:200]!r}")
        self._url = url
        self._key = api_key.strip()
        self._allow = (allow,) if isinstance(allow, str) else tuple(allow)
        self._limits = TimeLimits(min(10.0, seconds), seconds, seconds)
        self._repeatable = repeatable
        self._known: tuple[RemoteCard, HttpClient, float] | None = None  # since when

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
        asked = self._ask("SendMessage", "/message:send", request, headers, repeatable=self._repeatable)
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
                report = read_report(await self._ask("GetTask", path, {"id": task}, method="GET"))
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
        card, _, _ = await self._fetch_agent()
        if card.streaming:
            with suppress(ToolError, ModelError):  # it ended meanwhile, or the stream broke off
                async with aclosing(self._exchange("SubscribeToTask", path, {"id": task})) as events:
                    async for event in events:
                        if not read_report(event).works:
                            return True
        return False

    async def _cancel_task(self, task: str) -> None:
        if not current_run().is_continued:
            with suppress(ToolError, TimeoutError):  # it has ended, or the server is gone
                async with asyncio.timeout(_GRACE):
                    await self._ask("CancelTask", f"/tasks/{quote(task, safe='')}:cancel", {"id": task})

    async def _ask(
        self,
        rpc: str,
        path: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str] = {},
        *,
        method: str = "POST",
        repeatable: bool = True,
    ) -> Any:
        """Return the result of the method `rpc`, which is at `path`. Asks again where the agent was unavailable, if it
        cannot have got the request, or if that is `repeatable`. Raises `ToolError`, and `NotDone` by the rule in
        `net/error_mapping.py`."""
        attempts = Attempts(_RETRIES)
        try:
            while True:
                try:
                    async with aclosing(self._exchange(rpc, path, params, headers, method)) as results:
                        async for result in results:
                            return result
                    raise ModelUnavailable(f"{self._url} answered nothing")
                except ModelUnavailable as error:
                    if _was_sent(error) and not repeatable:
                        raise
                    retry = attempts.plan_retry(error)
                await asyncio.sleep(retry.seconds)
        except ModelError as last:
            logger.warning("%s", last)
            raise call_failure(hide_address(str(last), self._url), sent=_was_sent(last)) from None

    async def _exchange(
        self, rpc: str, path: str, params: Mapping[str, Any], headers: Mapping[str, str] = {}, method: str = "POST"
    ) -> AsyncGenerator[Any, None]:
        """Send one request, and yield the results in the response or stream. Raises `ToolError` and `ModelError`."""
        card, client, _ = await self._fetch_agent()
        more = {**await fill_headers(self.headers), "A2A-Version": "1.0", **current_run().headers(), **headers}
        is_rpc = card.binding == "JSONRPC"
        if is_rpc:
            path, params = "", {"jsonrpc": "2.0", "id": 1, "method": rpc, "params": params}
        body = json.dumps(params).encode() if is_rpc or method == "POST" else None
        async with aclosing(client.exchange(path, body, more, MAX_ANSWER)) as reads:
            async for bodies in reads:
                for one in bodies:
                    if one is not DONE:
                        yield _read_result(one, is_rpc=is_rpc)

    async def _fetch_agent(self) -> tuple[RemoteCard, HttpClient, float]:
        """Return the agent's card, and a client for its address. A card is fetched again when it is old."""
        known = self._known
        if known is None or time.monotonic() > known[2] + _KEPT:
            try:
                card = await fetch_card(self._url, self._key, self._allow, self._limits)
            except ModelError as error:
                error.code = "model_unreachable"  # whatever was to be sent was not
                raise
            except NotDone as error:
                logger.warning("%s", error)
                raise NotDone(hide_address(str(error), self._url)) from None
            if known is not None and known[0] == card:
                client = known[1]
            else:
                header = (lambda key: {card.key_header: key}) if card.key_header else build_bearer_header
                url = card.url if card.binding == "JSONRPC" else card.url.rstrip("/")
                client = HttpClient(url, self._key, self._limits, header, resends=False)
            known = self._known = (card, client, time.monotonic())
        return known


def _read_result(body: Any, *, is_rpc: bool) -> Any:
    if not isinstance(body, Mapping):
        raise ToolError(f"the agent answered with {str(body)[:80]!r}; want an object")
    if (error := body.get("error")) is not None:
        said = error.get("message") if isinstance(error, Mapping) else error
        raise call_failure(f"the agent refuses: {' '.join(str(said).split())[:500]}", sent=True)
    return body.get("result") if is_rpc else body


def _was_sent(error: ModelError) -> bool:
    return error.code != "model_unreachable"


# ── the card ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RemoteCard:
    """What is needed of an agent's card: where and how to talk to it. `key_header` is the name of the header that its
    API key goes into; empty: as a bearer token. `binding` is `JSONRPC` or `HTTP+JSON`."""

    name: str
    url: str
    binding: str
    streaming: bool = False
    key_header: str = ""


async def fetch_card(url: str, api_key: str, allow: Collection[str], limits: TimeLimits) -> RemoteCard:
    """Return the card of the agent at `url`, which is the address of its card or what precedes `/.well-known`.

    `allow` are the hosts (`host` or `host:port`) that it may name besides that of `url`. Raises `NotDone`, and
    `ModelError` if it cannot be had.
    """
    address = url if url.endswith(".json") else f"{url.rstrip('/')}{WELL_KNOWN}"
    client = HttpClient(address, api_key, limits, build_bearer_header)
    try:
        async with aclosing(client.exchange("", most=MAX_CARD)) as reads:
            async for bodies in reads:
                return check_card(bodies[0], address, allow)
    finally:
        await client.close()
    raise NotDone(f"{shorten_url(address)} is empty; want an agent's card")


def check_card(card: Any, address: str, allow: Collection[str] = ()) -> RemoteCard:
    """Return what is needed of a card that was found at `address`. Raises `NotDone` for one that cannot be used."""
    where = f"the card at {shorten_url(address)}"
    if not isinstance(card, Mapping) or not isinstance(card.get("name"), str) or not card["name"].strip():
        raise NotDone(f"{where} is not an agent's card: want an object with a name and supportedInterfaces")
    capabilities = _read_object(card.get("capabilities"))
    if required := [one for one in _read_objects(capabilities.get("extensions")) if one.get("required")]:
        raise NotDone(f"{where} requires the extension {str(required[0].get('uri'))[:200]!r}, which is not supported")
    interfaces = list(_read_objects(card.get("supportedInterfaces")))
    for one in interfaces:
        binding, version = str(one.get("protocolBinding")), str(one.get("protocolVersion"))
        if binding in ("JSONRPC", "HTTP+JSON") and version.split(".")[0] == "1":
            name, url = " ".join(card["name"].split())[:200], str(one.get("url"))
            _check_address(url, address, allow, where)
            return RemoteCard(name, url, binding, capabilities.get("streaming") is True, _find_key_header(card))
    there = ", ".join(f"{one.get('protocolBinding')} {one.get('protocolVersion')}"[:60] for one in interfaces[:5])
    raise NotDone(f"{where} offers {there or 'no interface'}; want JSONRPC or HTTP+JSON of A2A 1.0")


def _check_address(named: str, address: str, allow: Collection[str], where: str) -> None:
    """Refuse an interface at another server than the card's, which would get the key and the question."""
    try:
        there, here = parse_url(named), parse_url(address)
    except ToolError as error:
        raise NotDone(f"{where} names an address that cannot be used: {error}") from None
    same = (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port)
    if not same and not {there.host, f"{there.host}:{there.port}"}.intersection(allow):
        told = f"it is on {here.host}:{here.port}, but names {shorten_url(named)} as the agent's address"
        raise NotDone(f"{where} leads elsewhere: {told} (if that is right: allow=['{there.host}:{there.port}'])")


def _find_key_header(card: Mapping[str, Any]) -> str:
    """Return the header for the API key, where the card asks for one that is no bearer token."""
    schemes = list(_read_objects(list(_read_object(card.get("securitySchemes")).values())))
    if any("httpAuthSecurityScheme" in one for one in schemes):
        return ""
    for scheme in schemes:
        given = _read_object(scheme.get("apiKeySecurityScheme"))
        name = str(given.get("name"))
        if given.get("location") == "header" and _HEADER.fullmatch(name) and not _OURS.fullmatch(name):
            return name
    return ""


def _read_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else iter(())
