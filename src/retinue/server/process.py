"""The processes: a server, which opens its parts, serves and shuts down cleanly, and a worker, which drives the runs
that servers accept."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import click
import uvicorn
from fastapi import FastAPI
from sqlalchemy import Connection

from .._internal.sync_bridge import limit_exit, run_to_completion
from ..documents.passage_index import PassageIndex
from ..errors import UsageError
from ..limits.places import Room, RunLimits
from ..limits.rate import Bounds, KeyLimits
from ..limits.shares import TenantShares
from ..models.prompt_states import SWITCH
from ..runs import Runs
from ..runs.agent_versions import AgentVersions
from ..runs.due import DriveMode
from ..store.api_keys import DEFAULT_TENANT, Key, Keys, all_keys, count_keys, create_key, hash_key, key_id_of
from ..store.audit_log import record, system_user
from ..store.database import Database
from ..store.event_log import Entry
from ..store.run_belongings import SnapshotWriter
from ..store.run_queries import next_waiting_run
from ..store.run_row import RunRow
from .agent_resolver import AgentResolver
from .agents.call_circles import ServerId
from .agents.deployment import Deployment
from .app import create_app
from .background import background, begin_anew_when_frozen, only_shown, stop_on_signals
from .context import Options, Server
from .files.search import VectorSearch
from .http.connections import ACCEPTED, BACKLOG, HEADERS, SOCKETS, Connections, listen, url_of
from .indexing.indexer import Indexer, index_folder
from .log_output import LogOptions, log_workers, set_up_logging
from .login import UserOf
from .memories import ServedMemory
from .metrics.process_watch import MetricsPort, ProcessWatch, serve_metrics
from .responses.stored import concluding
from .tools.hosted import Hosted

if TYPE_CHECKING:
    from ..dispatch.temporal import TemporalDispatcher

_AFTER = 10_000  # new objects until garbage is collected: runs have thousands that live on, and few are cycles


@dataclass(frozen=True, slots=True)
class Serving:
    """How a server listens, and what it allows.

    `database` is a URL; port 0 picks a free one. `keys` are accepted besides those in the database, and `known_keys`
    with their data, under the host names `hosts`, and from browser pages of `origins`. Unless it `drives`, what is
    stored is only shown: no run goes on, and nothing is maintained. Otherwise `drive` says whether it drives runs:
    "auto" while no workers live. `grace` is the seconds that runs get at shutdown.
    `bounds` are the limits of keys without their own, `at_once` limits active runs, `connections` those per address;
    `header_seconds` is the timeout for headers. With `temporal`, its address (`HOST:PORT`), workers drive the runs.
    `tenant_runs`, `agent_runs` and `model_runs` limit the runs that all processes of the database drive at once.
    `metrics` says where metrics are served, if they are. A SQLite file may be `shared` with others that do so. With
    `user_of`, an application's own login says for whom requests are, and keys are not looked at.
    """

    database: str
    options: Options
    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    known_keys: Mapping[str, Key] = field(default_factory=dict)
    drives: bool = True
    drive: DriveMode = "auto"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    grace: float = 10.0
    bounds: Bounds = field(default_factory=Bounds)
    at_once: int = 200
    connections: int = 1_000
    logging: LogOptions = field(default_factory=LogOptions)
    header_seconds: float = HEADERS
    temporal: str = ""
    tenant_runs: int | None = None
    agent_runs: Mapping[str, int] = field(default_factory=dict)
    model_runs: Mapping[str, int] = field(default_factory=dict)
    metrics: MetricsPort | None = None
    shared: bool = False
    user_of: UserOf | None = None


def run_server(deployment: Deployment, how: Serving) -> None:
    """Serve until SIGTERM or SIGINT, and say where; for a process that does nothing else."""

    def ready(address: str) -> None:
        collect_seldom()
        click.echo(f"Retinue is ready on {address}")  # and flushes

    def made(key: str) -> None:
        said = f"the key of this server, which cannot be shown again: Authorization: Bearer {key}"
        click.echo(said, err=True)

    leave_out_prompt_states()
    run_to_completion(serve(deployment, how, ready, made))
    limit_exit()


def read_keys(given: Iterable[str]) -> tuple[str, ...]:
    """Return the given keys and those in the environment. Raises `UsageError` for one that cannot be sent."""
    keys = [key.strip() for key in (*given, *os.environ.get("RETINUE_API_KEYS", "").split(",")) if key.strip()]
    if any(not key.isascii() or not key.isprintable() or " " in key for key in keys):
        raise UsageError("an API key must consist of printable ASCII characters without spaces")
    return tuple(keys)


def collect_seldom() -> None:
    """Collect garbage seldom from now on, and never look at the objects that there are."""
    gc.freeze()
    gc.set_threshold(_AFTER)
    gc.enable()


def leave_out_prompt_states() -> None:
    """Keep no states of prompts in files, unless the environment says otherwise: what tenants write stays in the
    database."""
    os.environ.setdefault(SWITCH, "off")


async def serve(
    deployment: Deployment, how: Serving, ready: Callable[[str], None], told: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once. `ready` is called with the address,
    `told` with a new key if none existed. Raises `UsageError` if it cannot listen, and what `Database` raises."""
    with closing(listen(how.host, how.port)) as listening:
        async with open_process(deployment, how) as (server, watch, stop):
            database = server.database
            if not (how.keys or how.known_keys or how.user_of) and not await database.read(count_keys):
                told(await database.write(_first_key))
            app = make_app(server, how, (how.host, *how.hosts))
            if watch is not None:
                watch.add(server, app)

            def begins(address: str) -> None:
                if watch is not None:
                    watch.begins(lambda: app.state.stopping)
                ready(address)

            await serve_until(stop, app, server, listening, how, begins)


def make_app(server: Server, how: Serving, hosts: Sequence[str] | None) -> FastAPI:
    """Build the API of `server`, under the host names `hosts` (`None`: any)."""
    keys = Keys(server.database, how.keys, known=how.known_keys)
    return create_app(server, keys, hosts, how.origins, user_of=how.user_of)


async def work(deployment: Deployment, how: Serving, ready: Callable[[], None]) -> None:
    """Drive runs until SIGTERM or SIGINT; a second signal ends the process at once. `ready` is called once it does.
    It claims them in the database, and those that Temporal at `how.temporal` tells it of, if any. Raises `UsageError`
    if Temporal cannot be reached, and what `Database` raises."""
    async with open_process(deployment, how, worker=True) as (server, watch, stop), AsyncExitStack() as stack:
        if watch is not None:
            watch.add(server)
        waiting: set[asyncio.Task[object]] = {asyncio.create_task(stop.wait(), name="stop")}
        dispatcher = await dispatch_by_temporal(server, how.temporal) if how.temporal else None
        if dispatcher is not None:
            stack.push_async_callback(dispatcher.close)
        await stack.enter_async_context(background(server, how.grace))
        if dispatcher is not None:
            from ..dispatch.temporal import working

            ended = await stack.enter_async_context(working(server.runs, dispatcher))
            waiting.add(asyncio.create_task(ended()))
        if watch is not None:
            watch.begins(stop.is_set)
        ready()
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
    for task in done:
        task.result()


@asynccontextmanager
async def open_process(
    deployment: Deployment, how: Serving, *, worker: bool = False
) -> AsyncIterator[tuple[Server, ProcessWatch | None, asyncio.Event]]:
    """Open what a server or worker consists of while in the block: yields its parts, what watches it (if it has
    metrics), and what is set when it is to stop."""
    set_up_logging(how.logging)
    with log_workers():
        async with serve_metrics(how.metrics) as watch, open_server(deployment, how, worker=worker) as server:
            stop = asyncio.Event()
            stop_on_signals(stop)
            if server.database.is_shared:
                begin_anew_when_frozen(server.runs)
            yield server, watch, stop


@asynccontextmanager
async def open_server(deployment: Deployment, how: Serving, *, worker: bool = False) -> AsyncIterator[Server]:
    """Open the database and the parts of a server while in the block, and change nothing else of the process."""
    database = Database(how.database, worker=worker, shared=how.shared)
    try:
        limits = KeyLimits(how.bounds)
        for key in await database.read(all_keys):
            limits.know(key)
        yield assemble_server(deployment, database, how, limits)
    finally:
        await database.close_async()


def _first_key(connection: Connection) -> str:
    key = create_key(connection, scopes=("all", "prompts", "audit", "act-as"))
    record(connection, system_user(), DEFAULT_TENANT, "key.made", key_id_of(hash_key(key)))
    return key


def assemble_server(deployment: Deployment, database: Database, how: Serving, limits: KeyLimits) -> Server:
    """Wire the parts of a server."""
    awaited: set[str] = set()  # threads for which a run waited when they became free

    def ended(run: RunRow) -> None:
        limits.spent(run.key_id, run.usage.total_tokens if run.usage else 0)
        if memory.is_wanted(run):
            driven.beside("bringing a memory up to date", partial(memory.catch_up, run))
        if run.thread_id is not None and run.thread_id in awaited:
            awaited.discard(run.thread_id)
            driven.wake(looks=True)

    memory = ServedMemory(deployment, database, how.options.quota.memories)
    items = concluding(deployment)

    def conclude(connection: Connection, run: RunRow, log: Sequence[Entry]) -> None:
        items(connection, run, log)
        memory.conclude(connection, run, log)
        if run.thread_id is not None and not run.holds and next_waiting_run(connection, run.thread_id) is not None:
            awaited.add(run.thread_id)

    indexing = Indexer(database, PassageIndex(index_folder(database.engine.url)))
    hosted = Hosted.of(how.options.hosted_tools, VectorSearch(database, indexing))
    shares, versions = TenantShares(), AgentVersions(deployment.agents, database)
    most = RunLimits(how.tenant_runs, how.agent_runs, how.model_runs, limits.runs, versions.names_at)
    server_id = ServerId(database)
    assign = AgentResolver(versions, memory, hosted, shares, how.options, server_id).resolve
    driven = Runs(database, assign, ended, how.options.human_ttl, conclude, Room(how.at_once, most))
    driven.snapshots, driven.storage = SnapshotWriter(versions.snapshot_of), how.options.quota
    return Server(deployment, database, driven, how.options, indexing, server_id, limits, shares)


async def dispatch_by_temporal(server: Server, address: str) -> TemporalDispatcher:
    """Have the server's runs dispatched by Temporal at `HOST:PORT`, in a queue of the servers and workers that share
    its database. Raises `UsageError` if it cannot be reached, or without the extra."""
    try:
        from ..dispatch.temporal import TemporalDispatcher, connect
    except ModuleNotFoundError as error:
        raise UsageError("Temporal needs the extra 'temporal': pip install 'retinue[temporal]'") from error
    dispatcher = TemporalDispatcher(await connect(address), f"retinue-{await server.id.get()}")
    server.runs.dispatcher = dispatcher
    server.runs.beside("watching Temporal", dispatcher.watch)
    return dispatcher


async def serve_until(
    stop: asyncio.Event,
    app: FastAPI,
    server: Server,
    listening: socket.socket,
    how: Serving,
    ready: Callable[[str], None],
) -> None:
    """Serve `app` with its background tasks until `stop` is set."""
    connections = Connections(how.connections, how.header_seconds)
    http = _Http(
        uvicorn.Config(
            connections.watch(app),
            http=connections.protocol,  # type: ignore[arg-type]  # or what makes one
            **SOCKETS,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=ACCEPTED,
            timeout_keep_alive=75,  # longer than clients keep idle connections, so none is closed under a request
            timeout_graceful_shutdown=math.ceil(how.grace) + 1,
        ),
        lambda: ready(url_of(how.host, listening)),
    )
    if how.temporal:
        await dispatch_by_temporal(server, how.temporal)
    mode: DriveMode = "no" if how.temporal else how.drive
    async with background(server, how.grace, mode) if how.drives else only_shown(server):
        serving = asyncio.create_task(http.serve([listening]), name="serve")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            app.state.stopping = True
            http.should_exit = True
            stopping.cancel()
    await serving
    if left := set(http.server_state.tasks):  # streams of parked runs
        await asyncio.wait(left, timeout=2.0)


class _Http(uvicorn.Server):
    """uvicorn without its signal handlers; calls `ready` once it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # asyncio takes `ACCEPTED` for this, too
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to our handlers."""
        yield
