"""Events that a coroutine tells: in their order, one at a time, and whoever reads may leave."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from contextvars import copy_context

import pytest

from retinue import Delta
from retinue.core.events import Event, Retried
from retinue.core.loop.event_stream import stream_events, tell


def event(number: int) -> Retried:
    return Retried(number, "", 0.0)


async def read(work: object) -> list[Event | Delta]:
    async with aclosing(stream_events(work, copy_context())) as events:  # type: ignore[arg-type]
        return [one async for one in events]


def test_what_functions_tell_that_call_each_other_comes_in_order_and_they_get_what_is_returned() -> None:
    async def inner(number: int) -> str:
        await asyncio.sleep(0)
        await tell(event(number))
        return f"inner {number}"

    async def work() -> None:
        await tell(Delta(await inner(1)))
        await tell(Delta(await inner(2)))

    assert asyncio.run(read(work)) == [event(1), Delta("inner 1"), event(2), Delta("inner 2")]


def test_nothing_is_done_until_the_reader_wants_the_next() -> None:
    done: list[int] = []

    async def work() -> None:
        for number in range(3):
            done.append(number)
            await tell(event(number))

    async def main() -> None:
        async with aclosing(stream_events(work, copy_context())) as events:
            assert done == []
            async for one in events:
                assert isinstance(one, Retried)
                await asyncio.sleep(0)
                assert done == list(range(one.step + 1))

    asyncio.run(main())


def test_what_it_raises_comes_out_and_what_was_told_before_stays() -> None:
    seen: list[Event | Delta] = []

    async def work() -> None:
        await tell(event(1))
        raise ValueError("later")

    async def main() -> None:
        async for one in stream_events(work, copy_context()):
            seen.append(one)  # noqa: PERF401 -- kept, whatever comes after it

    with pytest.raises(ValueError, match="later"):
        asyncio.run(main())
    assert seen == [event(1)]


def test_when_its_reader_leaves_it_cleans_up_and_may_take_its_time() -> None:
    did: list[str] = []

    async def work() -> None:
        try:
            await tell(event(1))
            did.append("went on")
        except Exception:
            did.append("took it for an error")
        finally:
            await asyncio.sleep(0)
            did.append("cleaned up")

    async def main() -> None:
        async with aclosing(stream_events(work, copy_context())) as events:
            async for _ in events:
                break

    asyncio.run(main())
    assert did == ["cleaned up"]


def test_a_cancel_of_the_reader_comes_to_what_it_waits_for() -> None:
    did: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await tell(Delta("cancelled"))
            did.append("was read")
            raise

    async def reader(seen: list[Event | Delta]) -> None:
        async with aclosing(stream_events(work, copy_context())) as events:
            async for one in events:
                seen.append(one)  # noqa: PERF401 -- kept, whatever comes after it

    async def main() -> list[Event | Delta]:
        seen: list[Event | Delta] = []
        task = asyncio.create_task(reader(seen))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    assert asyncio.run(main()) == [Delta("cancelled")]
    assert did == ["was read"]


def test_one_run_within_another_tells_its_own_reader() -> None:
    async def inner() -> None:
        await tell(Delta("inner"))

    async def outer() -> None:
        await tell(Delta("outer"))
        assert await read(inner) == [Delta("inner")]

    assert asyncio.run(read(outer)) == [Delta("outer")]
