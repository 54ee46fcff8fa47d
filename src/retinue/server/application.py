"""A server from Python: `serve` runs one until it is stopped, and `asgi` makes an application of it to be mounted.

This module is imported without the extra `server`, so what needs that is imported in the functions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

from ..config.agent_code import check_not_loading, gather
from ..errors import RetinueError, UsageError
from .login import UserOf

if TYPE_CHECKING:
    from fastapi import FastAPI

    from .agents.deployment import Deployment
    from .context import Options
    from .process import Serving

MISSING = "serving needs the extra 'server': pip install 'retinue[server]'"
_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def serve(  # noqa: PLR0913 -- what a server is started with
    agents: Any,
    *,
    db: str = "retinue.db",
    host: str = "127.0.0.1",
    port: int = 8000,
    user_of: UserOf | None = None,
    keys: Sequence[str] = (),
    origins: Sequence[str] = (),
    options: Options | None = None,
) -> None:
    """Serve agents over HTTP until the process is stopped, as `retinue serve` does.

    Args:
        agents: An agent, a team or a pipeline, a list or dict of these, or a function that makes them.
        db: Where the runs are: a file, or a PostgreSQL URL.
        port: 0 picks a free one.
        user_of: The application's own login, instead of API keys.
        keys: Accepted besides those in the database and in RETINUE_API_KEYS; if there are none at all, one is made and
            shown.
        origins: Whose browser pages may use the server.
        options: Time limits, quotas and so on: those of `retinue serve`.

    Raises `UsageError` for what cannot be served or listened on.
    """
    check_not_loading("retinue.serve")
    planned = _plan(agents, db, options, host=host, port=port, user_of=user_of, keys=keys, origins=origins)
    from .process import run_server  # after it was seen that the extra is there

    run_server(*planned)


def asgi(  # noqa: PLR0913 -- as above
    agents: Any,
    *,
    db: str = "retinue.db",
    user_of: UserOf | None = None,
    keys: Sequence[str] = (),
    origins: Sequence[str] = (),
    options: Options | None = None,
    grace: float = 10.0,
) -> Application:
    """Return an ASGI application that serves agents: run it with any ASGI server, or mount it in FastAPI or Starlette.

    The arguments are those of `serve`; `grace` is the seconds that runs get to finish when it ends. Without `user_of`,
    its keys are those of `retinue keys make`. Which names its host may have is left to the application around it.
    """
    return Application(*_plan(agents, db, options, user_of=user_of, keys=keys, origins=origins, grace=grace))


class Application:
    """Agents as an ASGI application, at any prefix: `app.mount("/ai", agents)`.

    Give the application around it its `lifespan`, `FastAPI(lifespan=agents.lifespan)`: then runs that a dead process
    left go on at once, and at the end, runs are parked. Without that, it opens at the first request.
    """

    def __init__(self, deployment: Deployment, how: Serving) -> None:
        self._deployment, self._how = deployment, how
        self._open: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[FastAPI]

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Handle a request, or the lifespan where this is the outermost application."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        await (await self._opened())(_without_prefix(scope), receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Be open while in the block. Raises `UsageError` if the database cannot be opened. `app` is not used."""
        await self._opened()
        try:
            yield
        finally:
            if self._open is not None:
                self._open.cancel()
                await asyncio.wait([self._open])

    async def _live(self, receive: _Receive, send: _Send) -> None:
        await receive()
        began = False
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                began = True
                await receive()
        except RetinueError as error:
            await send({"type": f"lifespan.{'shutdown' if began else 'startup'}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _opened(self) -> FastAPI:
        """Return what answers requests, on this event loop; open it unless it is."""
        if self._open is None or self._open.done():
            self._ready = asyncio.get_running_loop().create_future()
            work = self._stay_open(self._ready)
            self._open = asyncio.create_task(work, name="retinue", context=Context())  # not the first request's context
        return await asyncio.shield(self._ready)

    async def _stay_open(self, ready: asyncio.Future[FastAPI]) -> None:
        """Be open until cancelled, as the end of the event loop does, too."""
        from .background import background
        from .process import leave_out_prompt_states, make_app, open_server

        leave_out_prompt_states()
        how = self._how
        try:
            async with open_server(self._deployment, how) as server, background(server, how.grace, how.drive):
                app = make_app(server, how, None)
                ready.set_result(app)
                try:
                    await asyncio.Event().wait()
                finally:
                    app.state.stopping = True
        except (Exception, asyncio.CancelledError) as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else UsageError("the server is stopping"))
            elif isinstance(error, Exception):
                raise


def _without_prefix(scope: _Scope) -> _Scope:
    """Return the scope that the server gets of a request: without the prefix at which it is mounted, and with a state
    of its own. User-defined logins see the `OUTER` one."""
    from .http.authentication import OUTER

    prefix, path = scope.get("root_path", ""), scope["path"]
    if prefix and (path == prefix or path.startswith(f"{prefix}/")):  # of older frameworks, the path has none
        path = path[len(prefix) :] or "/"
    return {**scope, "path": path, "root_path": "", "app_root_path": prefix, "state": {}, OUTER: scope}


def _plan(agents: Any, db: str, options: Options | None, **how: Any) -> tuple[Deployment, Serving]:
    try:
        from ..store.engines import database_url
        from .agents.deployment import Deployment
        from .context import Options
        from .process import Serving, read_keys
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    how["keys"], how["origins"] = read_keys(how["keys"]), tuple(how["origins"])
    deployment = Deployment.of_parts(gather(agents), int(time.time()))
    return deployment, Serving(database_url(str(db)), options or Options(), **how)
