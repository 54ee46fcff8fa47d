"""Where functions without async run, so that none of them holds up the event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What `function` returns, called in a thread of its own, with the caller's context variables.

    There are as many threads as there are calls under way: one that waits for another (a function that
    runs a pipeline, say) never keeps that other from beginning.
    """
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads(), partial(context.run, function, *arguments))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1 << 30, thread_name_prefix="retinue-node")
