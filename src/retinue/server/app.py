"""The application: routes and middleware."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, WebSocketRoute

from .. import __version__
from ..errors import StoreConflict, StoreUnavailable
from ..limits.quotas import KINDS
from ..limits.rate import KeyThrottle
from ..store.api_keys import Keys
from . import account, health, memories, policies, secrets
from .a2a import routes as a2a
from .assistants import assistants, runs, threads
from .chat import routes as chat
from .context import Server
from .conversations import routes as conversations
from .files import routes as files, search, store_files, stores
from .http.api_errors import ApiError, answer_of, first_error
from .http.authentication import Authentication, KeyHolders, LoggedIn
from .http.common_schemas import Refused
from .http.idempotency import REPLAYED, Idempotency
from .http.limits import Limits
from .http.request_context import PATIENCE, RequestContext, TrustedHost
from .login import UserOf
from .models import audio, embeddings, listing as model_list
from .responses import routes as responses, websocket
from .runs import forks as run_forks, routes as tenant_runs, workspaces
from .studio import agents as studio_agents, evaluations as studio_evals, help as pages, page as studio_page
from .tools import registered as tools

# Routes are matched in order, so the most requested come first. Those of runs precede those of threads, because POST
# /threads/runs would match as a thread.
ROUTERS = (
    runs.router,
    chat.router,
    responses.router,
    threads.router,
    tenant_runs.router,
    run_forks.router,
    workspaces.router,
    conversations.router,
    assistants.router,
    files.router,
    stores.router,
    store_files.router,
    search.router,
    model_list.router,
    embeddings.router,
    audio.router,
    memories.router,
    policies.router,
    tools.router,
    studio_agents.router,
    studio_evals.router,
    account.router,
    secrets.router,
    health.opea,
)
_BEARER = Depends(HTTPBearer(auto_error=False))  # for the OpenAPI document only; `Authentication` does the check
_REFUSED: dict[str, Any] = {"model": Refused, "description": "What is wrong."}
_TOLD_HEADERS = (
    "x-request-id",
    "openai-processing-ms",
    "openai-version",
    "openai-poll-after-ms",
    "retry-after",
    "retry-after-ms",
    *(f"x-ratelimit-{what}-{kind}" for what in ("limit", "remaining", "reset") for kind in ("requests", "tokens")),
    *(f"x-quota-{what}-{kind}" for what in ("limit", "remaining", "reset") for kind in KINDS),
    REPLAYED,
)


@cache
def routes() -> Sequence[BaseRoute]:
    """The routes of every app: FastAPI takes a third of a second to build them, at the first request."""
    app = _plain_app()
    app.include_router(health.router)
    app.include_router(pages.router)
    app.include_router(studio_page.router)
    app.include_router(a2a.router)
    for router in ROUTERS:
        app.include_router(router, prefix="/v1", dependencies=[_BEARER])
    sockets = [WebSocketRoute(websocket.PATH, websocket.serve), WebSocketRoute("/{path:path}", websocket.refuse)]
    return [*app.router.routes, *sockets]


def _plain_app() -> FastAPI:
    return FastAPI(
        title="Retinue",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # served by `pages`
        redirect_slashes=False,
        strict_content_type=False,
        responses={"4XX": _REFUSED, "5XX": _REFUSED},
    )


def create_app(  # noqa: PLR0913 -- the edge of a server
    server: Server,
    keys: Keys,
    hosts: Sequence[str] | None = (),
    origins: Sequence[str] = (),
    patience: float = PATIENCE,
    wrong_keys: KeyThrottle | None = None,
    user_of: UserOf | None = None,
) -> FastAPI:
    """Build the API of `server`. `hosts` are its host names besides localhost (`None`: any), `origins` the origins of
    browser pages that may use it (CORS), `patience` the seconds in which a small body must arrive; `wrong_keys` counts
    wrong keys. `user_of` says for whom requests are, instead of `keys`."""
    app = _plain_app()
    app.state.server, app.state.stopping, app.state.own_login = server, False, user_of is not None
    callers = LoggedIn(user_of) if user_of else KeyHolders(keys, wrong_keys or KeyThrottle())
    app.router.routes.extend(routes())
    for kind in (ApiError, StoreConflict, StoreUnavailable):
        app.add_exception_handler(kind, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_middleware(Idempotency)
    app.add_middleware(Limits, limits=server.limits, places=server.runs.room, watch=server.runs.quotas)
    app.add_middleware(Authentication, callers=callers)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=list(_TOLD_HEADERS),
        )
    app.add_middleware(TrustedHost, hosts=hosts, origins=list(origins))
    app.add_middleware(RequestContext, patience=patience)
    return app


async def _known(_: Request, error: Exception) -> Response:
    return answer_of(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, bytes):
        message = "Unsupported content type: send the body of your request as 'application/json'."
        return answer_of(ApiError(400, message, code="unsupported_content_type"))
    return answer_of(first_error(error.errors()))


async def _refused(request: Request, error: Exception) -> Response:
    """Convert FastAPI's own refusals."""
    assert isinstance(error, HTTPException)
    instead = ""
    if request.url.path.startswith("/v1/uploads"):  # an address that OpenAI has
        instead = ": files are not uploaded in parts here. Send the whole file, of up to 20 MB, to /v1/files."
    said: dict[int, tuple[str, str | None]] = {
        404: (f"Invalid URL ({request.method} {request.url.path}){instead}", "unknown_url"),
        405: (f"Not allowed to {request.method} on {request.url.path}.", "method_not_supported"),
        408: ("The body of your request did not arrive in time.", "request_timeout"),
        413: (str(error.detail), "request_too_large"),
    }
    cause = error.__cause__  # which FastAPI takes for a fault of the body
    if isinstance(cause, MemoryError | OSError | RuntimeError) and not isinstance(cause, TimeoutError):
        logging.getLogger(__name__).error("a body could not be read: %s", cause)
        message = "The server has no memory, threads or disk space for your request at the moment."
        return answer_of(ApiError(503, message, kind="server_error", code="server_overloaded"))
    message, code = said.get(error.status_code, (str(error.detail), None))
    headers: Any = error.headers
    if error.status_code == 405:
        headers = {"Allow": ", ".join(_allowed(request.url.path))}
    return answer_of(ApiError(error.status_code, message, code=code, headers=headers))


def _allowed(path: str) -> list[str]:
    """Return the methods of all routes with this path; the route that FastAPI matched first knows only its own."""
    inner = path.removeprefix("/v1")
    routes = [
        route
        for router in (health.router, pages.router, studio_page.router, a2a.router, *ROUTERS)
        for route in router.routes
        if isinstance(route, APIRoute)
    ]
    fitting = [route for route in routes if route.path_regex.match(inner)]
    exact = [route for route in fitting if route.path == inner]  # /threads/runs is not a thread
    return sorted({method for route in exact or fitting for method in route.methods or ()})
