"""A connection to a server, opened on demand and reopened when lost. A single task opens, watches and closes it.

Everything runs on the background loop, which outlives a run, because a context must be left in the task that entered
it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import logging
import math
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError

from .._internal.processes import call_in_forked_child, keep_from_parent
from .._internal.sync_bridge import run_blocking
from ..errors import NotDone
from ..net.error_mapping import call_failure
from .messages import (
    OWN_FAILURE,
    Disconnect,
    Dispatcher,
    describe_first_error,
    list_all,
    request_raw_result,
    shake_hands,
)
from .server_address import Server
from .tool_pins import Offer, Offered, split_offers
from .transports import connect_http, connect_stdio

IDLE = 60.0  # idle seconds before the connection and the tool list are checked
MAX_PAUSE = 30.0  # maximum seconds before an unreachable server is tried again
_NO_SESSION = (404, 400)  # statuses of servers that do not know a session; the first one is MCP's
_CHECK = 10.0  # seconds for the answer to a check
_LEAVING = 3.0  # seconds for closing the session
_AGAIN = (0.25, 0.5, 1.0)  # pauses between connection attempts, for a server that is just restarting

logging.getLogger("mcp").addHandler(logging.NullHandler())  # errors report what it logs
_live: WeakSet[Session] = WeakSet()  # the open sessions


class Session:
    """The connection. `pinned` holds the approved tools; `None` approves the server's first offer. It is closed after
    so many `seconds` in which nobody called a tool (`None`: never)."""

    def __init__(self, server: Server, pinned: Mapping[str, Offer] | None, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._called = time.monotonic()
        self.server = server
        self.pinned = pinned
        self.offered = Offered({}, {})
        self._changed: set[str] = set()
        self._owner: asyncio.Task[None] | None = None
        self._begin_unconnected()
        call_in_forked_child(self._begin_unconnected)

    def _begin_unconnected(self) -> None:
        """Note that there is no connection. A forked child leaves its parent's alone, and makes its own."""
        if self._owner is not None:
            keep_from_parent(self._owner)
        self._owner = None
        self._opened: asyncio.Future[ClientSession]
        self._news = asyncio.Event()  # tells the owner to look
        self._lost = Disconnect()
        self._stopping = False
        self._checked = asyncio.Event()  # the tool list is up to date, as far as the server announces changes
        self._under_way = 0
        self._failures = 0
        self._not_before = 0.0

    # ── what others ask of it ────────────────────────────────────────────────────────────────────

    async def list_offers(self) -> Offered:
        """Return what the server offers now. Raises `ToolError`."""
        await self._connect()
        return self.offered

    async def call(self, tool: str, arguments: Mapping[str, Any], *, repeatable: bool) -> Mapping[str, Any]:
        """Call `tool` and return the server's result. Raises `ToolError`, and `NotDone` by the rule in
        `net/error_mapping.py`.

        If the connection or the server's session is lost during the call, a call that is `repeatable`, or that cannot
        have been executed, is repeated once.
        """
        again = True
        while True:
            session = await self._connect()
            if problem := self._describe_problem(tool):
                raise NotDone(problem)
            lost, owner, name = self._lost, self._owner, self.server.name
            try:
                return await self._send_call(session, tool, arguments)
            except MCPError as error:
                sent, reason = await self._judge_failure(session, lost, error)
                if not reason:
                    detail = f" ({lost.complaint})" if lost.complaint else ""
                    raise call_failure(f"{name}: {_read_error_text(error)}{detail}", sent=sent) from error
                lost.mark_lost(reason)
                if owner is not None:
                    await asyncio.wait({owner})  # until it has closed the connection
                if not again or (sent and not repeatable):
                    outcome = "; whether it took effect is not known" if sent else ""
                    raise call_failure(f"{name} was lost during the call: {lost}{outcome}", sent=sent) from error
                again = False

    def _describe_problem(self, tool: str) -> str:
        """Return why `tool` cannot be used now; empty if it can."""
        name = f"{self.server.name}'s tool {tool!r}"
        if tool in self._changed:
            approve = "until a person has looked at it and approved it: retinue pin FILE"
            return f"{name} is not what was approved: its description or arguments changed. It is disabled {approve}"
        return "" if tool in self.offered.offers else f"{name} is not offered any more"

    async def _send_call(self, session: ClientSession, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        # Not session.call_tool: it would also evaluate the server's output schema, with its regular expressions, here.
        self._under_way += 1
        self._called = time.monotonic()
        try:
            params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
            return await request_raw_result(session, types.CallToolRequest(params=params))
        except asyncio.CancelledError:  # timed out, perhaps because the server is gone
            self._news.set()
            raise
        finally:
            self._under_way -= 1

    async def _judge_failure(self, session: ClientSession, lost: Disconnect, error: MCPError) -> tuple[bool, str]:
        """Return whether a failed call may have been executed, and why the connection is lost, if it is.

        Neither a code nor a wording says whether it is: servers use the SDK's codes for errors of their own, and say of
        a session that they do not know what they like. So the server is asked for a sign of life in the same session.
        """
        own = error.error.data if error.code == OWN_FAILURE else {}
        sent, status = own.get("sent", True), own.get("status", 0)
        if lost.event.is_set():
            return sent, lost.reason or error.message
        if not (status in _NO_SESSION or error.code == types.CONNECTION_CLOSED or (own and not status)):
            return sent, ""
        try:
            with anyio.fail_after(min(_CHECK, self.server.seconds)):
                await session.send_request(types.PingRequest(), types.EmptyResult)
        except MCPError as refusal:
            if refusal.code not in (OWN_FAILURE, types.CONNECTION_CLOSED):
                return sent, ""  # it knows no ping, and is there
            if own and status and status == refusal.error.data.get("status"):
                return status != _NO_SESSION[0], "it does not know the session any more"
            return sent, error.message
        except Exception as silence:
            return sent, describe_first_error(silence, self.server)
        return sent, ""

    def approve(self, offers: Mapping[str, Offer]) -> None:
        """Replace the approved tools by `offers`."""
        self.pinned = offers
        self._changed.clear()
        self._compare_with_approved()

    async def stop(self) -> None:
        """Close the connection; a later call reopens it."""
        self._end()
        await self._wait_until_closed()

    @property
    def is_unused(self) -> bool:
        """Whether nobody called a tool for so long that the connection is closed."""
        return self._seconds is not None and not self._under_way and time.monotonic() - self._called >= self._seconds

    def let_go(self) -> None:
        """Close the connection, from any thread and without waiting."""
        if self._owner is not None and not self._owner.get_loop().is_closed():
            self._owner.get_loop().call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._owner is not None and not self._owner.done():
            self._stopping = True
            if self._opened.done():
                self._news.set()
            else:
                self._owner.cancel()

    # ── the task that owns it ────────────────────────────────────────────────────────────────────

    async def _connect(self) -> ClientSession:
        if self._owner is not None and self._opened.done() and self._lost.event.is_set():
            await self._wait_until_closed()
        loop = asyncio.get_running_loop()
        if self._owner is None or self._owner.done():
            if (pause := self._not_before - loop.time()) > 0:
                raise NotDone(f"{self.server.name}: {self._lost}; it is tried again in {pause:.1f} seconds")
            _live.add(self)
            self._stopping = False
            self._opened = loop.create_future()
            self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
            self._owner = loop.create_task(self._run_connection(self._opened))
        session = await asyncio.shield(self._opened)
        await self._checked.wait()
        return session

    async def _wait_until_closed(self) -> None:
        if self._owner is not None:
            await asyncio.wait({self._owner})

    async def _run_connection(self, opened: asyncio.Future[ClientSession]) -> None:
        now = asyncio.get_running_loop().time
        until = now() + self.server.seconds
        try:
            for pause in (*_AGAIN, math.inf):
                self._lost = Disconnect()
                self._checked.clear()
                try:
                    await self._hold_connection(opened)
                except Exception as error:
                    self._lost.mark_lost(describe_first_error(error, self.server))
                if opened.done() or not self._lost.unreachable or now() + pause > until:
                    break
                await asyncio.sleep(pause)
        finally:
            self._lost.mark_lost("it was stopped")
            self._checked.set()
            if not opened.done():
                if not self._stopping:
                    self._failures += 1
                    self._not_before = now() + min(MAX_PAUSE, 0.5 * 2**self._failures)
                opened.set_exception(NotDone(f"{self.server.name} cannot be used: {self._lost}"))

    async def _hold_connection(self, opened: asyncio.Future[ClientSession]) -> None:
        """Open the connection, watch it, and close it."""
        transport = connect_http if self.server.url else connect_stdio
        client = types.Implementation(name="retinue", version="")
        with anyio.CancelScope() as leaving:
            async with (
                transport(self.server, self._lost) as streams,
                ClientSession(
                    dispatcher=Dispatcher(*streams), message_handler=self._take_message, client_info=client
                ) as session,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(self._tell_when_lost)
                try:
                    await self._update_tools(session, self.server.seconds, first=True)
                    self._failures = 0
                    opened.set_result(session)
                    await self._watch(session)
                finally:
                    leaving.deadline = anyio.current_time() + _LEAVING
                    tasks.cancel_scope.cancel()

    async def _tell_when_lost(self) -> None:
        # A task of its own, so a call that was not sent is told so before the owner closes its session.
        await self._lost.event.wait()
        self._news.set()

    async def _watch(self, session: ClientSession) -> None:
        """Wait until the connection is lost or stopped. On news, or after idle time, check the tool list."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE if self._seconds is None else min(IDLE, self._seconds)):
                    await self._news.wait()
            if self._stopping or self._lost.event.is_set() or self.is_unused:
                return
            if self._news.is_set() or not self._under_way:
                self._news.clear()
                await self._update_tools(session, min(_CHECK, self.server.seconds))

    async def _take_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._checked.clear()  # calls wait until the change is known
            self._news.set()

    async def _update_tools(self, session: ClientSession, seconds: float, *, first: bool = False) -> None:
        """Update the tool list within `seconds`, at `first` after the handshake."""
        try:
            with anyio.fail_after(seconds):
                if first:
                    await shake_hands(session)
                self.offered = split_offers(self.server.name, await list_all(session))
        except Exception as error:  # recorded before waiting callers see the error
            self._lost.mark_lost(describe_first_error(error, self.server))
            raise
        if self.pinned is None:
            self.pinned = self.offered.offers
        self._compare_with_approved()
        self._checked.set()

    def _compare_with_approved(self) -> None:
        """Disable the tools that are no longer what was approved, until they are approved again."""
        now = self.offered
        for name, offer in (self.pinned or {}).items():
            if name in now.refused or (name in now.offers and now.offers[name].sha256 != offer.sha256):
                self._changed.add(name)


def _read_error_text(error: MCPError) -> str:
    """Return an error's message with its `data`, which often says more."""
    data = None if error.code == OWN_FAILURE else error.error.data
    said = data if isinstance(data, str) else "" if data is None else json.dumps(data, ensure_ascii=False, default=str)
    return f"{error.message:.500}{f' ({said:.500})' if said else ''}"


def _stop_all() -> None:
    async def stop() -> None:
        await asyncio.gather(*(session.stop() for session in _live))

    if _live:
        run_blocking(stop())


atexit.register(_stop_all)  # and so before the background loop ends, which was registered earlier
call_in_forked_child(_live.clear)
