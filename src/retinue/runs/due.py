"""What ought to be driven and is not: one loop in each process finds it, whatever the database and whoever is to drive.

`store.due` has the query and the reasons. A run that waits for a place is claimed by the first process that has one.
The others are ended, admitted to their threads, settled or interrupted here.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Literal, TypeAlias, TypeVar

from sqlalchemy import Connection

from .._internal.concurrency import supervise
from ..core.events import Reported, Said
from ..errors import RetinueError, StoreConflict, StoreUnavailable, UsageError
from ..store.clock import CLOCK
from ..store.due import Due, Reason, due_runs
from ..store.event_log import Entry
from ..store.processes import (
    EVERY,
    begin_stop,
    database_time,
    end_sessions_of_the_dead,
    enter,
    forget_ended,
    has_workers,
    leave,
    show_life,
)
from ..store.run_queries import find_run
from ..store.run_row import UNREADABLE, RunRow
from .cancellation import cancel_run, discard_run, fail_run
from .driver import Runs
from .leases import SUSPECT, is_suspect, standing

logger = logging.getLogger(__name__)
T = TypeVar("T")
DriveMode: TypeAlias = Literal["auto", "yes", "no"]
_EVERY = 1.0  # seconds between two looks, unless there is news
_THOROUGH = 4  # one of so many of them also looks for callers that their members left
_CLOCK = 5  # and one of so many at the database's clock
_MOST, _ENOUGH = 1_000, 200  # runs that are known to wait; with so many, the query for more is asked seldom
_SPARES = 5.0  # seconds between two such queries


class DueRuns:
    """Has done what is due in a database, as a process of it: on PostgreSQL, it shows others that this one is alive.

    Runs whose last drives made no progress start one after the other, fewest attempts first, each once the one before
    it has made progress, or has not killed the process for a while. A run that kills the process is thereby
    identified, and the others are driven before it. If something else kills the process, all of them soon go on side
    by side.

    Args:
        admit: Lets a run have its thread, in a transaction. Return whether it still waited for it. It raises
            `RetinueError` if the run cannot begin.
        mode: Whether this process drives runs: "auto" if no workers live.
        patience: The seconds for which the first attempt of a suspect is watched; each further one is watched four
            times as long.
        serves: Whether this process is to let a run go on; runs that are late are ended in any case.
    """

    def __init__(
        self,
        runs: Runs,
        admit: Callable[[Connection, str], bool] = lambda connection, run_id: False,
        mode: DriveMode = "yes",
        patience: float = 0.5,
        serves: Callable[[Due], bool] = lambda due: True,
    ) -> None:
        self._runs = runs
        self._admit = admit
        self._mode = mode
        self._patience = patience
        self._serves = serves
        self._process = runs.database.process
        self._tasks: list[asyncio.Task[None]] = []
        self._left = threading.Event()
        self._suspects: set[str] = set()  # that wait for one another
        self._lost: dict[str, float] = {}  # acquired by this process and not driven, since when in monotonic time
        self._alone = asyncio.Lock()
        self._asked = 0.0  # when the runs to drive were asked for, in monotonic time
        self._problem = ""
        runs.drives = mode != "no"

    async def join(self) -> None:
        """Enter this process, have done what is due, and go on with that in the background."""
        dead = await self._runs.traces.find_dead()
        alone = not self._runs.database.is_shared
        await self._runs.database.write(partial(enter, process=self._process, alone=alone))
        self._send_spans(dead)
        await self._follow_clock()
        await self.look()
        works = {"runs that are due": self._keep_looking}
        if self._runs.database.is_shared:
            works["signs of life"] = self._keep_alive
        if self._runs.database.notifies:
            works["notifications of other processes"] = self._runs.notifier.keep_listening
            self._runs.notifier.announce_due()  # a worker that begins lets servers rest
        for name, work in works.items():
            self._tasks.append(asyncio.create_task(supervise(name, work), name=name))

    async def begin_stop(self) -> None:
        """Have others take the runs that wait. Call it before those that are driven here get time to finish."""
        if self._runs.database.is_shared:
            with suppress(StoreUnavailable):
                await self._runs.database.write(partial(begin_stop, process=self._process))
            self._runs.notifier.announce_due()

    async def leave(self) -> None:
        """Have others take over at once. Call it when no run is driven any more."""
        self._left.set()  # a heartbeat may still be under way in its thread
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(StoreUnavailable):
            await self._runs.database.write(partial(leave, process=self._process))

    async def look(self, *, thorough: bool = True) -> int:
        """Have done what is due. Return how many runs this process began to drive."""
        due = await self._read(thorough=thorough)
        by = {reason: [one for one in due if one.reason is reason] for reason in Reason}
        for one in by[Reason.INTERRUPT]:
            self._runs.interrupt(one.run_id)
        for one in by[Reason.LATE]:
            self._runs.halted(await self._try(one.run_id, partial(_expire, run_id=one.run_id)))
        for one in by[Reason.LEFT]:
            with suppress(StoreConflict):
                await self._runs.settle(one.run_id)
        admitted = [one for one in by[Reason.ADMIT] if await self._admitted(one.run_id)]
        begun = self._retry_suspended(by[Reason.SUSPENDED])
        self._note(by[Reason.DRIVE])
        begun += await self._begin_suspects()
        begun += await self._runs.claim()
        if admitted:
            self._runs.wake(looks=True)
        return begun

    async def start(self, run: RunRow, tries: int) -> asyncio.Task[None]:
        """Start a run that was driven `tries` times without progress. If it may be what kills processes, wait for the
        one before it, and then until it has made progress, or was watched for long enough. Return its task."""
        if not is_suspect(tries):
            return self._runs.start(run.id, run)
        async with self._alone:
            further = asyncio.create_task(self._make_progress(run))
            try:
                self._runs.room.take(run)  # in any case
                task = self._runs.start(run.id, run)
                watched = self._patience * 4 ** (tries - SUSPECT)
                await asyncio.wait([task, further], timeout=watched, return_when=asyncio.FIRST_COMPLETED)
                return task
            finally:
                further.cancel()

    async def _keep_alive(self) -> None:
        while True:
            with suppress(StoreUnavailable):  # which is said elsewhere
                await self._runs.database.write_apart(partial(show_life, process=self._process, left=self._left))
                self._runs.alive_at = time.monotonic()
            await asyncio.sleep(EVERY)

    async def _keep_looking(self) -> None:
        runs, looked, rounds = self._runs, time.monotonic(), count(1)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, looked + _EVERY - time.monotonic())):
                    await runs.news.wait()
            runs.news.clear()
            polls = time.monotonic() >= looked + _EVERY
            try:
                if polls:
                    looked = time.monotonic()
                    await self._see_to_the_dead(next(rounds))
                if polls or runs.is_to_look:
                    runs.is_to_look = False
                    await self.look(thorough=polls and next(rounds) % _THOROUGH == 0)
                else:
                    await runs.claim()
                self._problem = ""
            except (StoreUnavailable, StoreConflict) as error:
                if self._problem != str(error):
                    logger.info("what is due cannot be looked for at the moment: %s", error)
                self._problem = str(error)

    async def _read(self, *, thorough: bool) -> Sequence[Due]:
        runs, now = self._runs, time.monotonic()
        asks = len(runs.room.waiting) < _ENOUGH or now - self._asked > _SPARES
        self._asked = now if asks else self._asked
        work = partial(read_due, process=self._process, mode=self._mode, most=_MOST * asks, thorough=thorough)
        runs.drives, found = await runs.database.read(work)
        if not runs.drives or (asks and sum(one.reason is Reason.DRIVE for one in found) < _MOST):
            runs.room.waiting.clear()  # what is found is all there is
        return [one for one in found if one.reason in (Reason.INTERRUPT, Reason.LATE) or self._serves(one)]

    def _note(self, found: Iterable[Due]) -> None:
        """Note the runs that wait for somebody to drive them. One that this process has just acquired is about to
        start; if it is not after a while, the answer to that was lost."""
        now = time.monotonic()
        new = [one for one in found if one.run_id not in self._runs.here and one.run_id not in self._suspects]
        self._lost = {one.run_id: self._lost.get(one.run_id, now) for one in new if one.mine}
        for one in new:
            if not one.mine or now - self._lost[one.run_id] >= _EVERY:
                self._runs.room.waiting[one.run_id] = one

    async def _begin_suspects(self) -> int:
        waiting = self._runs.room.waiting
        tried = [one for one in waiting.values() if one.attempts >= SUSPECT]
        if not tried or not self._runs.drives:
            return 0
        found = await self._runs.database.read(
            lambda connection: [(one, *standing(connection, one.run_id)) for one in tried]
        )
        suspects = [(run, tries) for _, run, tries in found if run is not None and is_suspect(tries)]
        for run, _ in suspects:
            del waiting[run.id]
            self._suspects.add(run.id)
        if suspects:
            in_turn = sorted(suspects, key=itemgetter(1))
            self._runs.beside("starting the runs that may kill the process", partial(self._begin_one_by_one, in_turn))
        return len(suspects)

    async def _begin_one_by_one(self, suspects: Sequence[tuple[RunRow, int]]) -> None:
        for run, tries in suspects:
            try:
                await self.start(run, tries)
            finally:
                self._suspects.discard(run.id)

    async def _make_progress(self, run: RunRow) -> None:
        """Wait until the run has made progress."""
        async with aclosing(self._runs.followers.follow(run.id, run.progress or 0, listens=False)) as items:
            async for item in items:
                if isinstance(item, Entry) and not isinstance(item.event, Said | Reported):
                    return

    def _retry_suspended(self, found: Sequence[Due]) -> int:
        """Try each run once that another process suspended: this one may have the agent that it began with."""
        runs, ids = self._runs, {one.run_id for one in found}
        runs.set_aside &= ids | runs.here
        new = ids - runs.set_aside - runs.here if runs.drives else set()
        for run_id in new:
            runs.start(run_id)
        runs.set_aside |= new
        return len(new)

    async def _admitted(self, run_id: str) -> bool:
        begun = await self._try(run_id, lambda connection: self._admit(connection, run_id))
        if isinstance(begun, RunRow):  # it failed, and another one may be next
            self._runs.halted(begun)
        return bool(begun)

    async def _try(self, run_id: str, work: Callable[[Connection], T]) -> T | RunRow | None:
        """Return what `work`, which concerns one run, returns. If it raises, that run fails, without affecting others.
        If another process changes the run meanwhile, return `None`; the next look sees what is left to do."""
        try:
            return await self._runs.database.write(work)
        except StoreConflict:
            return None
        except StoreUnavailable:
            raise
        except Exception as error:
            known = isinstance(error, RetinueError)
            problem = str(error) if known else f"the stored data of this run cannot be read ({type(error).__name__})"
            logger.warning("the run %s failed: %s", run_id, problem, exc_info=not known)
            code = "invalid_prompt" if isinstance(error, UsageError) else "server_error"
            return await self._runs.database.write(partial(_fail, run_id=run_id, problem=problem, code=code))

    async def _see_to_the_dead(self, rounds: int) -> None:
        """See to what dead processes of a shared database left, besides their runs."""
        if self._runs.database.is_shared:
            self._send_spans(await self._runs.traces.find_dead())
            await self._runs.database.write_apart(_clear_up)
            if rounds % _CLOCK == 0:
                await self._follow_clock()

    def _send_spans(self, dead: Sequence[str]) -> None:
        if dead:
            self._runs.beside("spans of processes that have died", partial(self._runs.traces.send_of, dead))

    async def _follow_clock(self) -> None:
        """Let the time of runs be the database's: all servers have to agree on when a run is late."""
        if self._runs.database.is_shared and (by := CLOCK.follow(await self._runs.database.read(database_time))):
            logger.warning(
                "the clock of this server differs from the database's by %+.0f s, which counts for runs", -by
            )


def read_due(
    connection: Connection, process: str, mode: DriveMode, most: int, *, thorough: bool
) -> tuple[bool, Sequence[Due]]:
    """Return whether a process of this mode is to drive runs, and what is due for it."""
    drives = mode == "yes" or (mode == "auto" and not has_workers(connection, process))
    return drives, due_runs(connection, process, int(CLOCK.now()), most if drives else 0, thorough=thorough)


def _expire(connection: Connection, run_id: str) -> RunRow | None:
    run = find_run(connection, run_id, lock=True)
    late = run is not None and run.holds and run.expires_at is not None and run.expires_at <= int(CLOCK.now())
    return cancel_run(connection, run, "expired") if run is not None and late else None


def _fail(connection: Connection, run_id: str, problem: str, code: str) -> RunRow | None:
    try:
        run = find_run(connection, run_id, lock=True)
    except UNREADABLE:  # even the row is unreadable
        discard_run(connection, run_id, problem)
        return None
    return fail_run(connection, run, problem, code) if run is not None and run.active else None


def _clear_up(connection: Connection) -> None:
    end_sessions_of_the_dead(connection)
    forget_ended(connection)
