"""What happens side by side in a pipeline: branches, threads, errors, cancelling, batches."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from typing import Any

import pytest

from retinue import Pipeline
from retinue.extend import NodeFailed

TIME = 10.0  # seconds until a test that hangs fails


def test_independent_branches_run_at_the_same_time() -> None:
    meeting = threading.Barrier(40, timeout=TIME)

    def meets() -> int:
        return meeting.wait()

    pipeline = Pipeline()
    for number in range(40):
        pipeline.add_node(meets, f"n{number}", ["Query"])
    pipeline.run("x")
    assert not meeting.broken


def test_functions_that_wait_for_each_other_run_at_the_same_time_as_quick_ones() -> None:
    meeting = threading.Barrier(10, timeout=TIME)
    pipeline = Pipeline()
    for number in range(500):
        pipeline.add_node(meeting.wait if number % 50 == 0 else lambda query: query, f"n{number}", ["Query"])
    pipeline.run("x")
    assert not meeting.broken


def test_what_comes_after_a_quick_function_does_not_wait_for_a_slow_one_beside_it() -> None:
    reached = threading.Event()
    pipeline = Pipeline()
    for number in range(3):
        pipeline.add_node(lambda query: query, f"quick{number}", ["Query"])
        pipeline.add_node(lambda query: reached.wait(TIME), f"slow{number}", ["Query"])
    pipeline.add_node(lambda query: reached.set(), "after", [f"quick{number}" for number in range(3)])
    pipeline.add_node(lambda inputs: len(inputs), "end", ["after", *(f"slow{number}" for number in range(3))])
    assert pipeline.run("x")["results"] == 4
    assert reached.is_set()


def test_independent_async_branches_run_at_the_same_time() -> None:
    async def main() -> None:
        meeting = asyncio.Barrier(3)

        async def meets() -> None:
            async with asyncio.timeout(TIME):
                await meeting.wait()

        pipeline = Pipeline()
        pipeline.add_node(lambda query: query, "Start")
        for number in range(3):
            pipeline.add_node(meets, f"n{number}", ["Start"])
        pipeline.add_node(lambda inputs: len(inputs), "End", ["n0", "n1", "n2"])
        assert (await pipeline.run_async("x"))["results"] == 3

    asyncio.run(main())


def test_functions_that_run_pipelines_do_not_wait_for_each_others_threads() -> None:
    inner = Pipeline(name="inner")
    inner.add_node(lambda query: query, "Same")
    everybody = threading.Barrier(40, timeout=TIME)

    def runs_inner(query: str) -> Any:
        everybody.wait()
        return inner.run(query)["results"]

    pipeline = Pipeline()
    for number in range(40):
        pipeline.add_node(runs_inner, f"n{number}", ["Query"])
    assert pipeline.run("x")["results"] == "x"


def test_a_function_sees_the_callers_context() -> None:
    tenant = contextvars.ContextVar("tenant", default="nobody")

    async def main() -> Any:
        tenant.set("acme")
        pipeline = Pipeline()
        pipeline.add_node(lambda: tenant.get(), "Who")
        return await pipeline.run_async("x")

    assert asyncio.run(main())["results"] == "acme"


def test_the_first_error_cancels_what_runs_beside_it() -> None:
    async def main() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def waits() -> None:
            begun.set()
            try:
                await asyncio.sleep(TIME)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async def fails() -> None:
            await begun.wait()
            raise ValueError("boom")

        pipeline = Pipeline()
        pipeline.add_node(waits, "Waits", ["Query"])
        pipeline.add_node(fails, "Fails", ["Query"])
        with pytest.raises(NodeFailed, match="node 'Fails': ValueError: boom"):
            await pipeline.run_async("x")
        assert cancelled.is_set()

    asyncio.run(main())


def test_cancelling_a_run_cancels_all_its_nodes_and_begins_no_other() -> None:
    begun, go_on, second = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go_on.wait(TIME)

    async def main() -> None:
        cancelled: list[int] = []

        async def waits(number: int = 0) -> None:
            try:
                await asyncio.sleep(TIME)
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        pipeline = Pipeline()
        pipeline.add_node(first, inputs=["Query"])
        pipeline.add_node(lambda: second.set(), "Second")
        for number in range(3):
            pipeline.add_node(waits, f"w{number}", ["Query"])
        run = asyncio.create_task(pipeline.run_async("x", params={f"w{n}": {"number": n} for n in range(3)}))
        await asyncio.to_thread(begun.wait, TIME)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert sorted(cancelled) == [0, 1, 2]

    asyncio.run(main())
    go_on.set()
    assert not second.wait(0.1)


def test_batches_come_back_in_their_order_and_keep_nothing() -> None:
    turns = [threading.Event() for _ in range(6)]

    def late(query: str) -> str:
        number = int(query)
        if number % 3 < 2:
            assert turns[number + 1].wait(TIME)
        turns[number].set()
        return f"{query}!"

    pipeline = Pipeline()
    pipeline.add_node(late)
    queries = [str(number) for number in range(6)]
    results = pipeline.run_batch(queries, at_once=3)
    assert [result["results"] for result in results] == [f"{query}!" for query in queries]
    assert pipeline.run_batch([{"query": "5"}])[0] == {"query": "5", "results": "5!"}
    assert pipeline.run_batch([]) == []


def test_what_a_function_raises_comes_back_whatever_it_is() -> None:
    def stops() -> None:
        next(iter(()))

    pipeline = Pipeline()
    pipeline.add_node(stops, "Stops")
    with pytest.raises(NodeFailed, match="StopIteration"):
        pipeline.run("x")


def test_a_thread_that_never_ends_does_not_keep_the_process() -> None:
    code = """
import asyncio, threading
from retinue import Pipeline
pipeline = Pipeline()
pipeline.add_node(lambda query: threading.Event().wait(), "Hangs")
async def main():
    try:
        await asyncio.wait_for(pipeline.run_async("x"), 0.1)
    except TimeoutError:
        print("gone on")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("gone on\n", "")
