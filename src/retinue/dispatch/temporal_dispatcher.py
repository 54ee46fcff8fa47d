"""The dispatcher that starts a workflow of Temporal for each run that is to be driven."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from datetime import timedelta
from functools import cache

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.common import Priority
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError

from ..errors import UsageError
from ..store.run_queries import TIERS, USUAL
from ..store.run_row import RunRow
from .drive_workflow import LOOK, RunWorkflow

logger = logging.getLogger(__name__)
_TIMEOUT = timedelta(seconds=5)
_DECIDES = timedelta(seconds=2)  # for a worker to say what follows in a workflow; a frozen one never does
_CONNECTS = 10.0  # seconds
_WATCHES = 5.0  # seconds
_AGAIN = 0.2  # seconds until one that is starting is asked again
_STARTING = "code: Unavailable"  # gRPC's status, which the client tells in words only; nobody listening has none
_HIGHEST = 2  # of Temporal's five priorities, the highest that we use; the lower, the sooner


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

    What Temporal does not accept in time is dropped and logged: `Redispatch` finds the run."""

    def __init__(self, client: Client, queue: str) -> None:
        self.client = client
        self.queue = queue
        self._sending: set[asyncio.Task[None]] = set()
        self._away = False

    def dispatch(self, run_id: str, run: RunRow | None = None) -> None:
        """Have a worker drive the run, and once more if one is at it."""
        task = asyncio.create_task(self._signal(run_id, run), name=f"dispatch {run_id}", context=Context())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def ensure(self, run_id: str) -> bool:
        """See to it that the run has a workflow. Return whether that is so, as far as Temporal can be reached."""
        try:
            await self._start(run_id)
        except WorkflowAlreadyStartedError:
            return True
        except RPCError as error:
            self._note(error)
            return False
        self._note(None)
        return True

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

    async def _signal(self, run_id: str, run: RunRow | None) -> None:
        try:
            await self._start(run_id, LOOK, _priority(run) if run is not None else Priority.default)
        except RPCError as error:
            self._note(error)
        else:
            self._note(None)

    async def _start(self, run_id: str, signal: str | None = None, priority: Priority = Priority.default) -> None:
        await self.client.start_workflow(
            RunWorkflow.run,
            run_id,
            id=run_id,
            task_queue=self.queue,
            task_timeout=_DECIDES,
            start_signal=signal,
            priority=priority,
            rpc_timeout=_TIMEOUT,
        )

    def _note(self, error: RPCError | None) -> None:
        """Log that Temporal is away, or back, once."""
        if error is not None and not self._away:
            logger.warning("Temporal does not take runs at the moment, so they wait: %s", error)
        if error is None and self._away:
            logger.warning("Temporal takes runs again")
        self._away = error is not None


def _priority(run: RunRow) -> Priority:
    """Return which of the runs in a queue comes first: tenants take turns, and OpenAI's `service_tier` counts."""
    return Priority(_HIGHEST + TIERS.get(str(run.request.get("service_tier")), USUAL), run.tenant[:64])
