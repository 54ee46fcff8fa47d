"""A worker of Temporal: its activity drives a run with the agents of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

from ..errors import StoreUnavailable, UsageError
from ..runs import Recovery, Runs
from ..runs.leases import standing
from ..store.run_queries import DRIVEN, find_run
from ..store.run_row import BY_MEMBERS, RunRow
from .drive_workflow import DRIVE, RunWorkflow
from .temporal_dispatcher import TemporalDispatcher

_BEATS = 2.0  # seconds between heartbeats
_LATER = timedelta(seconds=1)
_EVERY, _LOOKS = 0.5, 60  # seconds between looks at a run that another process has, and how many
_DELAYS = {"parked": timedelta(seconds=0.05), "fenced": _LATER}
_POLLS = PollerBehaviorSimpleMaximum(1)  # what is given to a frozen worker's polls is lost for seconds


class DriveActivity:
    """Drives runs. The drive itself goes on when Temporal gives an activity up (it was away, say): which process may
    drive a run is decided by the database alone."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._recovery = Recovery(runs)

    @activity.defn(name=DRIVE)
    async def drive(self, run_id: str) -> str:
        """Drive the run until it has ended, waits, or is suspended, and return which. Raises `ApplicationError`, upon
        which Temporal tries again, anywhere, if it is still to be driven: this process parked it, or another living one
        has it, or the database is unavailable."""
        beating = asyncio.create_task(_beat())
        try:
            end = await self._driven(run_id)
        except StoreUnavailable as error:
            raise _again(str(error), _LATER) from None
        except asyncio.CancelledError:
            raise _again(f"the run {run_id} is driven no longer for this activity", _LATER) from None
        finally:
            beating.cancel()
        if end in _DELAYS:
            raise _again(f"the run {run_id} was {end}", _DELAYS[end])
        return end

    async def _driven(self, run_id: str) -> str:
        """Drive the run. One for which there is no room is dispatched again once there is. While another living process
        has it, wait here for its death: to give the run back would cost seconds if it was given to a worker that is
        frozen next."""
        database = self._runs.database
        for _ in range(_LOOKS):
            run, tries = await database.read(partial(standing, run_id=run_id))
            task = await self._recovery.start(run, tries) if run is not None else self._runs.start(run_id)
            await asyncio.wait([task])
            end = _end(await database.read(partial(find_run, run_id=run_id)))
            if end == "parked" and self._runs.limits is not None and not activity.is_worker_shutdown():
                return "queued"
            if end != "fenced" or activity.is_worker_shutdown():
                break
            await asyncio.sleep(_EVERY)
        return end


def _again(problem: str, delay: timedelta) -> ApplicationError:
    return ApplicationError(problem, next_retry_delay=delay, category=ApplicationErrorCategory.BENIGN)


def _end(run: RunRow | None) -> str:
    """Return how a drive ended, from the row that it left."""
    if run is None or not run.active:
        return "ended"
    if run.suspended:
        return "suspended"
    if run.status not in DRIVEN or not run.holds or run.driver == BY_MEMBERS:
        return "waiting"
    return "parked" if run.driver is None else "fenced"


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(_BEATS)


@asynccontextmanager
async def working(
    runs: Runs, dispatcher: TemporalDispatcher, grace: float
) -> AsyncIterator[Callable[[], Coroutine[Any, Any, None]]]:
    """Drive the runs of the dispatcher's queue while in the block. What it gives waits for the worker's end, and raises
    `UsageError` if Temporal refuses it. At the end of the block no further run is taken; those under way get `grace`
    seconds, and are parked for other workers."""
    worker = Worker(
        dispatcher.client,
        task_queue=dispatcher.queue,
        workflows=[RunWorkflow],
        activities=[DriveActivity(runs).drive],
        max_cached_workflows=0,  # a dead worker's cache would delay its workflows; their histories are a few lines
        max_concurrent_activities=runs.turns.at_once,
        activity_task_poller_behavior=_POLLS,
        workflow_task_poller_behavior=_POLLS,
        graceful_shutdown_timeout=timedelta(seconds=grace + 5),
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
        stopping = asyncio.create_task(worker.shutdown())
        await runs.close(grace)
        await asyncio.gather(stopping, polling, return_exceptions=True)
