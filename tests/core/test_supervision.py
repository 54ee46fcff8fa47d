"""Work in the background that dies is begun again, and its death is said."""

from __future__ import annotations

import asyncio

import pytest

from retinue._internal.concurrency import supervise

pytestmark = pytest.mark.anyio


class Dying:
    """Raises these, one after the other, and then returns, or goes on for ever."""

    def __init__(self, *errors: BaseException, lasts: bool = False) -> None:
        self.begun = 0
        self._errors = errors
        self._lasts = lasts

    async def __call__(self) -> None:
        self.begun += 1
        if self.begun <= len(self._errors):
            raise self._errors[self.begun - 1]
        if self._lasts:
            await asyncio.Event().wait()


async def test_a_death_is_said_and_the_work_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    work = Dying(ValueError("one"), KeyError("two"), asyncio.CancelledError("by itself"))
    await supervise("the work", work, (0.0,))
    assert work.begun == 4
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "ValueError: one",
        "KeyError: 'two'",
        "CancelledError: by itself",
    ]
    assert all(record.getMessage().startswith("the work died and begins again in 0.0 s") for record in caplog.records)
    assert all(record.exc_info for record in caplog.records)


async def test_who_is_cancelled_ends(caplog: pytest.LogCaptureFixture) -> None:
    work = Dying(ValueError("one"), lasts=True)
    task = asyncio.create_task(supervise("the work", work, (0.0,)))
    while work.begun < 2:  # noqa: ASYNC110 - what is waited for is what a task does next
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(caplog.records) == 1


async def test_waits_grow_up_to_the_last(caplog: pytest.LogCaptureFixture) -> None:
    await supervise("the work", Dying(*[ValueError()] * 4), (0.0, 0.001, 0.002))
    waits = [str(record.args[1]) for record in caplog.records if isinstance(record.args, tuple)]
    assert waits == ["0.0", "0.001", "0.002", "0.002"]
