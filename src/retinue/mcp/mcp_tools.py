"""`MCPTools`: an MCP server's tools in an agent."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._internal.sync_bridge import run_blocking, run_in_background
from ..core.component import Configurable
from ..core.context_templates import fill_headers, has_template
from ..core.run_context import current_run
from ..core.tools.signature import build_schema_signature
from ..core.tools.tool import Tool, ToolExample
from ..errors import UsageError
from ..net.ssrf_guard import SsrfGuard
from .schema_conversion import convert_schema
from .server_address import Server, find_server_problems
from .tool_pins import Offer, Offered, read_pins, split_offers, write_pins

if TYPE_CHECKING:
    from .session import Session


UNUSED = 300.0  # seconds after which a user's connection is closed


class MCPTools(Configurable):
    """The tools of an MCP server: `Agent(tools=[*MCPTools("files", command="uvx", args=["…"]).tools()])`.

    The server is started on first use and runs until `stop`, or until this object or the program ends. If it dies, the
    next call restarts it. If `headers` have templates (`${user.secret:NAME}`), each user has a connection of their own,
    which is closed when it was not used for a while; the tools are listed with what the environment has of these.
    Raises `UsageError` for invalid arguments.

    Args:
        name: The server's name; its tools are called `name_tool`.
        command: The program of a local server. Its environment is `env` plus PATH, HOME and the like.
        args: The command's arguments.
        env: Environment variables of the command.
        url: The address of a remote server (streamable HTTP); give this or `command`.
        headers: Headers sent to `url`.
        tools: The server's tools to use, by the server's names; empty for all.
        options: Options of `Tool` by tool: `{"write": {"approval": True, "effects": "idempotent"}}`. By default,
            `effects` are the server's hints.
        seconds: Time limit for connecting and listing, in seconds. A call is limited by its tool's `timeout`.
        pins: The file of approved tools (`retinue.pins.json`), written by `pin`. Only approved tools are offered, as
            approved; a tool whose definition has changed is disabled. Without it, the server's first definitions are
            trusted and enforced.
        cwd: The command's working directory.
        guard: Says where `url` may lead, if it does not come from the operator.
    """

    def __init__(  # noqa: PLR0913 -- the settings that a file has for a server
        self,
        name: str,
        *,
        command: str | None = None,
        args: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        tools: Iterable[str] = (),
        options: Mapping[str, Mapping[str, Any]] | None = None,
        seconds: float = 30.0,
        pins: str | Path | None = None,
        cwd: str | Path | None = None,
        guard: SsrfGuard | None = None,
    ) -> None:
        self.given |= {
            "args": list(args), "env": dict(env or {}), "headers": dict(headers or {}), "tools": list(tools or ()),
            "options": {name: dict(one) for name, one in (options or {}).items()},
        }  # fmt: skip
        for _, problem in find_server_problems(name, self.given):
            raise UsageError(f"{name}: {problem}")
        self.name = name
        self.pins = None if pins is None else Path(pins)
        given = {key: self.given[key] for key in ("command", "args", "env", "url", "headers", "seconds")}
        self._server = Server(name, cwd=None if cwd is None else Path(cwd), guard=guard, **given)
        self._approved: Mapping[str, Offer] | None = None
        self._personal = any(map(has_template, self.given["headers"].values()))
        self._sessions: dict[tuple[str, ...], Session] = {}  # by user, and by the values of the headers
        weakref.finalize(self, _let_go, self._sessions).atexit = False  # at exit, nobody can call it any more

    async def tools_async(self) -> list[Tool]:
        """Return the tools: the approved ones without starting the server, or without `pins` those the server offers.

        Raises `UsageError` if none is approved or a chosen one does not exist; `ToolError` if the server cannot be
        reached.
        """
        if self.pins is None:
            offers = (await self.offered_async()).offers
        elif (pinned := read_pins(self.pins).get(self.name)) is not None:
            offers = split_offers(self.name, pinned.values()).offers
        else:
            review = "review them with: retinue pin FILE"
            raise UsageError(f"the tools of the MCP server {self.name} are not approved yet; {review}")
        wanted = self.given["tools"] or list(offers)
        for name in {*wanted, *self.given["options"]} - {*offers}:
            there = f"there are: {', '.join(offers) or 'none'} (see: retinue pin FILE)"
            raise UsageError(f"{self.name} has no approved tool {name!r}; {there}")
        return [self._make_tool(offers[name]) for name in wanted]

    def approved(self, offers: Iterable[Offer]) -> list[Tool]:
        """Return the tools of these `offers`, without contacting the server: it may offer them as they are here, or not
        at all. Raises `UsageError`."""
        self._approved = {offer.name: offer for offer in offers}
        return [self._make_tool(offer) for offer in self._approved.values()]

    def tools(self) -> list[Tool]:
        """Blocking version of `tools_async`."""
        return run_blocking(self.tools_async())

    async def offered_async(self) -> Offered:
        """Return what the server offers now (of the chosen `tools`), approved or not. Raises `ToolError`."""
        headers = await fill_headers(self.given["headers"], leave_out=True) if self._personal else None
        offered = await run_in_background(self._open_session((), headers).list_offers())
        chosen = self.given["tools"] or [*offered.offers, *offered.refused]
        return Offered(
            {name: offered.offers[name] for name in chosen if name in offered.offers},
            {name: offered.refused[name] for name in chosen if name in offered.refused},
        )

    def offered(self) -> Offered:
        """Blocking version of `offered_async`."""
        return run_blocking(self.offered_async())

    def pin(self, offered: Offered) -> None:
        """Approve `offered` in the file `pins`. Raises `UsageError` if there is no such file."""
        if self.pins is None:
            raise UsageError(f"{self.name}: give a file for the approved tools: pins='retinue.pins.json'")
        write_pins(self.pins, read_pins(self.pins) | {self.name: dict(offered.offers)})
        for session in self._sessions.values():
            session.approve(offered.offers)

    async def stop_async(self) -> None:
        """End the server's process or session, and everything the server started."""
        for session in list(self._sessions.values()):
            await run_in_background(session.stop())

    def stop(self) -> None:
        """Blocking version of `stop_async`."""
        run_blocking(self.stop_async())

    async def find_session(self) -> Session:
        """Return the connection for the current run: if its user matters, that of its user. Raises `NotDone` if the run
        lacks what a header needs."""
        if not self._personal:
            return self._open_session()
        headers, here = await fill_headers(self.given["headers"]), current_run()
        for whose in [one for one, session in list(self._sessions.items()) if one and session.is_unused]:
            self._sessions.pop(whose).let_go()
        return self._open_session((here.tenant, here.user, *headers.values()), headers)

    def _open_session(self, whose: tuple[str, ...] = (), headers: Mapping[str, str] | None = None) -> Session:
        if whose not in self._sessions:
            try:
                from .session import Session
            except ModuleNotFoundError as error:
                raise UsageError("MCP needs the extra 'mcp': pip install 'retinue[mcp]'") from error
            pinned = self._approved if self.pins is None else read_pins(self.pins).get(self.name, {})
            if pinned is None and () in self._sessions:
                pinned = self._sessions[()].pinned
            server = replace(self._server, personal=headers)
            self._sessions[whose] = Session(server, pinned, UNUSED if whose else None)
        return self._sessions[whose]

    def _make_tool(self, offer: Offer) -> Tool:
        given = {"effects": offer.effects} | self.given["options"].get(offer.name, {})
        takes = build_schema_signature(convert_schema(offer.schema))
        remote = Remote(self, offer.name, repeatable=given["effects"] != "once")
        try:
            given["examples"] = tuple(ToolExample.of(one) for one in given.get("examples", ()))
            return Tool(offer.called(self.name), remote, offer.description or offer.name, takes=takes, **given)
        except TypeError as error:
            raise UsageError(f"{self.name}: options of {offer.name}: {error}") from error


def _let_go(sessions: Mapping[tuple[str, ...], Session]) -> None:
    for session in sessions.values():
        session.let_go()


@dataclass(frozen=True)
class Remote:
    """A tool on a server. `repeatable` means that a call may be repeated if the server dies during it."""

    server: MCPTools
    name: str
    repeatable: bool

    async def __call__(self, **arguments: Any) -> str:
        """Call the tool. Raises `ToolError`."""
        session = await self.server.find_session()
        from .messages import read_result_text

        called = session.call(self.name, arguments, repeatable=self.repeatable)
        return read_result_text(await run_in_background(called))
