"""A server as a process: it opens what it needs, says when it is ready, and lets go of everything when told to."""

from __future__ import annotations

import asyncio
import errno
import math
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import uvicorn
from fastapi import FastAPI

from .._internal.supervision import supervise
from ..documents.passage_index import PassageIndex
from ..errors import StoreUnavailable, UsageError
from ..runs import FairScheduler, Runs, recover_runs
from ..store.api_keys import Keys, all_keys, count_keys, create_key
from ..store.database import Database
from ..store.run_row import RunRow
from .agent_resolver import make_resolver
from .app import create_app
from .context import Options, Server
from .database_watch import watch
from .deployment import Deployment
from .files.vector_search import VectorSearch
from .hosted_tools import Hosted
from .idle_connections import HEADERS, SOCKETS, connections
from .indexer import Indexer, index_folder
from .log_output import LogOptions, set_up, workers_logged
from .maintenance import begin_next, run_maintenance
from .middleware.usage_limits import Bounds, UsageLimits
from .responses.response_lookup import concluding
from .tenant_shares import Shares

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Serving:
    """Where a server listens (port 0: any that is free) and what it keeps its runs in, a URL; who may ask it: `keys`
    beside those of the database, by the names `hosts`, from pages of `origins`; and for how many seconds runs may go
    on once it is told to stop. `bounds` are what each key may use that has none of its own, `at_once` the number of
    runs under way at a time, `connections` that from one address, `header_seconds` what headers may take; `logging` is
    what is logged, and how."""

    database: str
    options: Options
    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    grace: float = 10.0
    bounds: Bounds = field(default_factory=Bounds)
    at_once: int = 200
    connections: int = 1_000
    logging: LogOptions = field(default_factory=LogOptions)
    header_seconds: float = HEADERS


async def serve(
    deployment: Deployment, how: Serving, ready: Callable[[str], None], told: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once. `ready` is given the address, `told` a key
    if one had to be made. Raises `UsageError` where it cannot listen, and what `Database` raises."""
    set_up(how.logging)
    with workers_logged():
        await _open(deployment, how, ready, told)


async def _open(
    deployment: Deployment, how: Serving, ready: Callable[[str], None], told: Callable[[str], None]
) -> None:
    listening = listen(how.host, how.port)
    try:
        database = Database(how.database)
    except BaseException:
        listening.close()
        raise
    try:
        if not how.keys and not await database.read(count_keys):
            told(await database.write(create_key))
        limits = UsageLimits(how.bounds)
        for key in await database.read(all_keys):
            limits.know(key)
        server = assembled(deployment, database, how, limits)
        app = create_app(server, Keys(database, how.keys), (how.host, *how.hosts), how.origins)
        stop = asyncio.Event()
        _on_signals(stop)
        await until(stop, app, server, listening, how, ready)
    finally:
        listening.close()
        await database.close_async()


def assembled(deployment: Deployment, database: Database, how: Serving, limits: UsageLimits) -> Server:
    """The parts of a server, wired."""
    begun: set[asyncio.Task[None]] = set()

    def ended(run: RunRow) -> None:
        limits.spent(run.key_id, run.state.get("usage", {}).get("total_tokens", 0))
        if run.thread_id is not None:
            work = partial(_begin_next, server, run.thread_id)
            task = asyncio.create_task(supervise("the beginning of a thread's next run", work))
            begun.add(task)
            task.add_done_callback(begun.discard)

    indexing = Indexer(database, PassageIndex(index_folder(database.engine.url)))
    hosted = Hosted.of(how.options.hosted_tools, VectorSearch(database, indexing))
    large, turns = Shares(1), FairScheduler(how.at_once, limits.runs)
    assign = make_resolver(deployment, database, hosted, large)
    driven = Runs(database, assign, ended, how.options.human_ttl, concluding(deployment), turns)
    server = Server(deployment, database, driven, how.options, indexing, limits, large)
    return server


async def _begin_next(server: Server, thread_id: str) -> None:
    with suppress(StoreUnavailable):  # it is looked for again, and again
        await begin_next(server, thread_id)


async def until(
    stop: asyncio.Event,
    app: FastAPI,
    server: Server,
    listening: socket.socket,
    how: Serving,
    ready: Callable[[str], None],
) -> None:
    """Serve `app`, and do what goes on beside it, until `stop` is set."""
    http = _Http(
        uvicorn.Config(
            app,
            http=connections(how.connections, how.header_seconds),
            **SOCKETS,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,  # more than clients keep an idle connection, so that none is closed under a request
            timeout_graceful_shutdown=math.ceil(how.grace) + 1,
        ),
        lambda: ready(_address(how.host, listening)),
    )
    server.indexing.wake()
    await recover_runs(server.runs)
    keeping = asyncio.create_task(supervise("the keeping of runs", partial(run_maintenance, server)), name="keep")
    looking = partial(watch, server.database, server.runs)
    watching = asyncio.create_task(supervise("the watch of the database", looking), name="watch")
    serving = asyncio.create_task(http.serve([listening]), name="serve")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        app.state.stopping = True
        http.should_exit = True
        for task in (keeping, watching, stopping):
            task.cancel()
        await asyncio.gather(keeping, watching, stopping, return_exceptions=True)
        await server.runs.close(how.grace)
        await server.indexing.close()
        await serving
        if left := set(http.server_state.tasks):  # streams of runs that are parked
            await asyncio.wait(left, timeout=2.0)


class _Http(uvicorn.Server):
    """Says when it listens, and leaves signals to us."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours are set."""
        yield


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def stopped() -> None:
        stop.set()
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)  # a second one ends the process, which the log survives

    for one in _SIGNALS:
        loop.add_signal_handler(one, stopped)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there (port 0: any that is free). Raises `UsageError` where that cannot be."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=2048)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it on sockets it made itself
        return listening
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "the port is in use; give another with --port (0: any that is free)"
        raise UsageError(f"cannot listen on {host}:{port}: {reason}") from error


def _address(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"
