"""`MCPTools`: an MCP server's tools in an agent."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._internal.sync_bridge import run_blocking, run_in_background
from ..core.signature import signature_of_schema
from ..core.tool import Tool
from ..errors import UsageError
from .schema_conversion import convert_schema
from .server_address import Server, problems
from .tool_pins import Offer, Offered, read_pins, usable_offers, write_pins

if TYPE_CHECKING:
    from .session import Session


class MCPTools:
    """The tools of an MCP server: `Agent(tools=[*MCPTools("files", command="uvx", args=["…"]).tools()])`.

    The server is a `command`, run with `args` in a process of its own, whose environment is PATH, HOME and the
    like and what is in `env`; or at a `url` (streamable HTTP), to which `headers` go along. It is started by the
    first use and lives until `stop`, or until this object or the program ends; if it dies, the next call starts it
    again. `seconds`: what connecting and listing may take; a call may take its tool's `timeout`.

    `pins` is the file of what was approved (`retinue.pins.json`): only its tools are there, described as they were
    approved, and one that the server describes otherwise by now is disabled. `pin` writes it. Without `pins` the
    server is taken at its word the first time, and held to it.

    A tool is called `name_tool`. `tools` is a choice of them (the server's names; all if there are none), `options`
    are those of `Tool` for some: `{"write": {"approval": True, "effects": "idempotent"}}`. Else `effects` are the
    server's hints.

    Raises `UsageError` for what cannot be.
    """

    def __init__(  # noqa: PLR0913 -- what a file may say of a server
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
    ) -> None:
        self.given: dict[str, Any] = {  # for a file
            "command": command, "args": list(args), "env": dict(env or {}), "url": url, "headers": dict(headers or {}),
            "tools": list(tools or ()), "options": {name: dict(one) for name, one in (options or {}).items()},
            "seconds": seconds,
        }  # fmt: skip
        for _, problem in problems(name, self.given):
            raise UsageError(f"{name}: {problem}")
        self.name = name
        self.pins = None if pins is None else Path(pins)
        given = {key: self.given[key] for key in ("command", "args", "env", "url", "headers", "seconds")}
        self._server = Server(name, cwd=None if cwd is None else Path(cwd), **given)
        self._session: Session | None = None

    async def tools_async(self) -> list[Tool]:
        """Its tools: the approved ones, without starting the server, or without `pins` those it offers.

        Raises `UsageError` if none is approved, or one is not there; `ToolError` if the server cannot be asked.
        """
        if self.pins is None:
            offers = (await self.offered_async()).offers
        else:
            offers = usable_offers(self.name, self._pinned().values()).offers
        wanted = self.given["tools"] or list(offers)
        for name in {*wanted, *self.given["options"]} - {*offers}:
            there_are = ", ".join(offers) or "none"
            raise UsageError(
                f"{self.name} has no approved tool {name!r}; there are: {there_are} (see: retinue pin FILE)"
            )
        return [self._tool(offers[name]) for name in wanted]

    def tools(self) -> list[Tool]:
        """`tools_async`, blocking."""
        return run_blocking(self.tools_async())

    async def offered_async(self) -> Offered:
        """What the server offers now (of the chosen `tools`), whatever was approved. Raises `ToolError`."""
        offered = await run_in_background(self._opened().listed())
        chosen = self.given["tools"] or [*offered.offers, *offered.refused]
        return Offered(
            {name: offered.offers[name] for name in chosen if name in offered.offers},
            {name: offered.refused[name] for name in chosen if name in offered.refused},
        )

    def offered(self) -> Offered:
        """`offered_async`, blocking."""
        return run_blocking(self.offered_async())

    def pin(self, offered: Offered) -> None:
        """Approve `offered`, in the file `pins`. Raises `UsageError` without such a file."""
        if self.pins is None:
            raise UsageError(f"{self.name}: say where what you approve is to be kept: pins='retinue.pins.json'")
        write_pins(self.pins, read_pins(self.pins) | {self.name: dict(offered.offers)})
        if self._session is not None:
            self._session.approve(offered.offers)

    async def stop_async(self) -> None:
        """End the server's process, or the session with it, and all that it started."""
        if self._session is not None:
            await run_in_background(self._session.stop())

    def stop(self) -> None:
        """`stop_async`, blocking."""
        run_blocking(self.stop_async())

    def _pinned(self) -> dict[str, Offer]:
        assert self.pins is not None
        pinned = read_pins(self.pins).get(self.name)
        if pinned is None:
            raise UsageError(
                f"the tools of the MCP server {self.name} are not approved yet; look at them with: retinue pin FILE"
            )
        return pinned

    def _opened(self) -> Session:
        if self._session is None:
            try:
                from .session import Session
            except ModuleNotFoundError as error:
                raise UsageError("MCP needs the extra 'mcp': pip install 'retinue[mcp]'") from error
            pinned = None if self.pins is None else read_pins(self.pins).get(self.name, {})
            self._session = Session(self._server, pinned)
            weakref.finalize(self, self._session.let_go).atexit = False  # then, nobody can call it any more
        return self._session

    def _tool(self, offer: Offer) -> Tool:
        given = {"effects": offer.effects} | self.given["options"].get(offer.name, {})
        takes = signature_of_schema(convert_schema(offer.schema))
        called = offer.called(self.name)
        remote = Remote(self, offer.name, repeatable=given["effects"] != "once")
        try:
            return Tool(called, remote, offer.description or offer.name, takes=takes, **given)
        except TypeError as error:
            raise UsageError(f"{self.name}: options of {offer.name}: {error}") from error


@dataclass(frozen=True)
class Remote:
    """A tool of a server. `repeatable`: it may be called again if the server dies meanwhile."""

    server: MCPTools
    name: str
    repeatable: bool

    async def __call__(self, **arguments: Any) -> str:
        """Call it. Raises `ToolError`."""
        session = self.server._opened()
        return await run_in_background(_said(session, self.name, arguments, self.repeatable))


async def _said(session: Session, name: str, arguments: Mapping[str, Any], repeatable: bool) -> str:
    from .call_result import result_text

    return result_text(await session.call(name, arguments, repeatable=repeatable))
