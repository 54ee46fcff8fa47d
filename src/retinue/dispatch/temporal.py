"""Temporal as a way of runs to workers: a workflow of its for each run that is to be driven carries the run's id.

The worker that gets it claims the run as it claims those that it finds in the database. So whatever Temporal loses,
repeats or delays is made up for, and nothing depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context
from datetime import timedelta
from functools import cache, partial
from typing import Any

from temporalio import activity
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

from ..errors import UsageError
from ..runs import Runs
from ..store.run_queries import find_run
from .drive_workflow import DRIVE, LOOK, RunWorkflow

logger = logging.getLogger(__name__)
_TIMEOUT = timedelta(seconds=5)
_DECIDES = timedelta(seconds=2)  # for a worker to say what follows in a workflow; a frozen one never does
_CONNECTS = 10.0  # seconds
_WATCHES = 5.0  # seconds
_AGAIN = 0.2  # seconds until one that is starting is asked again
_STARTING = "code: Unavailable"  # gRPC's status, which the client tells in words only; nobody listening has none
_BEATS = 2.0  # seconds between heartbeats
_POLLS = PollerBehaviorSimpleMaximum(1)  # what is given to a frozen worker's polls is lost for seconds


async def connect(address: str) -> Client:
    """Connect to Temporal at `HOST:PORT`; one that is just starting is waited for. Temporal's own environment
    variables (`TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_…`) say how. Raises `UsageError` if it cannot
    be reached, is not ready in time or has no such namespace."""
    try:
        how = ClientConfig.load_client_connect_config(disable_file=True) | {"target_host": address}
        async with asyncio.timeout(_CONNECTS):
            client = await _connected(how)
            asked = DescribeNamespaceRequest(namespace=client.namespace)
            await client.workflow_service.describe_namespace(asked, retry=True)
            return client
    except (RuntimeError, RPCError, ValueError, TimeoutError) as error:
        problem = str(error).partition("\n")[0] or "it does not answer in time"
        raise UsageError(f"Temporal cannot be used at {address}: {problem[:200]}") from error


async def _connected(how: ClientConnectConfig) -> Client:
    while True:
        try:
            return await Client.connect(**how, runtime=_runtime())
        except RuntimeError as error:
            if _STARTING not in str(error):
                raise
        await asyncio.sleep(_AGAIN)


@cache
def _runtime() -> Runtime:
    """Return what runs Temporal's client. Its log goes where ours goes, and not to standard error in its own form."""
    forwarding = LogForwardingConfig(logging.getLogger("retinue.temporal"), append_target_to_name=False)
    log = LoggingConfig(filter=TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)
    return Runtime(telemetry=TelemetryConfig(logging=log))


class TemporalDispatcher:
    """Starts the workflows of runs, or signals those that are under way. `queue` names the task queue of the workers.

    What Temporal does not accept in time is dropped and logged: the workers find the run."""

    def __init__(self, client: Client, queue: str) -> None:
        self.client = client
        self.queue = queue
        self._sending: set[asyncio.Task[None]] = set()
        self._away = False

    def dispatch(self, run_id: str) -> None:
        """Have a worker drive the run, and once more if one is at it."""
        task = asyncio.create_task(self._signal(run_id), name=f"dispatch {run_id}", context=Context())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    @property
    def is_up(self) -> bool:
        """Whether Temporal answered when it was asked last."""
        return not self._away

    async def watch(self) -> None:
        """Ask Temporal every few seconds whether it answers, also while there is nothing to dispatch."""
        while True:
            try:
                await self.client.service_client.check_health(timeout=_TIMEOUT)
            except RPCError as error:
                self._note(error)
            else:
                self._note(None)
            await asyncio.sleep(_WATCHES)

    async def close(self) -> None:
        """Wait for what is being sent."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=_TIMEOUT.total_seconds())

    async def _signal(self, run_id: str) -> None:
        try:
            await self.client.start_workflow(
                RunWorkflow.run,
                run_id,
                id=run_id,
                task_queue=self.queue,
                task_timeout=_DECIDES,
                start_signal=LOOK,
                rpc_timeout=_TIMEOUT,
            )
        except RPCError as error:
            self._note(error)
        else:
            self._note(None)

    def _note(self, error: RPCError | None) -> None:
        """Log that Temporal is away, or back, once."""
        if error is not None and not self._away:
            logger.warning("Temporal does not take runs at the moment: %s", error)
        if error is None and self._away:
            logger.warning("Temporal takes runs again")
        self._away = error is not None


class DriveActivity:
    """Drives the runs of workflows, if nobody else does."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    @activity.defn(name=DRIVE)
    async def drive(self, run_id: str) -> str:
        """Drive the run if it is free. Return whether it has "ended", is "waiting", or is "left" to whoever has it, or
        has a place for it first. The drive goes on when Temporal gives the activity up."""
        beating = asyncio.create_task(_beat())
        try:
            await asyncio.wait([self._runs.start(run_id)])
            run = await self._runs.database.read(partial(find_run, run_id=run_id))
        finally:
            beating.cancel()
        if run is None or not run.active:
            return "ended"
        return "waiting" if run.rests else "left"


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(_BEATS)


@asynccontextmanager
async def working(runs: Runs, dispatcher: TemporalDispatcher) -> AsyncIterator[Callable[[], Coroutine[Any, Any, None]]]:
    """Drive the runs of the dispatcher's queue while in the block. What it gives waits for the worker's end, and raises
    `UsageError` if Temporal refuses it."""
    worker = Worker(
        dispatcher.client,
        task_queue=dispatcher.queue,
        workflows=[RunWorkflow],
        activities=[DriveActivity(runs).drive],
        max_cached_workflows=0,  # a dead worker's cache would delay its workflows; their histories are a few lines
        max_concurrent_activities=runs.room.at_once,
        activity_task_poller_behavior=_POLLS,
        workflow_task_poller_behavior=_POLLS,
    )
    polling = asyncio.create_task(worker.run())

    async def ended() -> None:
        try:
            await asyncio.shield(polling)
        except RuntimeError as error:  # while it is away, it is asked again
            raise UsageError(f"Temporal refuses this worker: {str(error).partition(chr(10))[0][:300]}") from error

    try:
        yield ended
    finally:
        await asyncio.gather(worker.shutdown(), polling, return_exceptions=True)
