"""OpenAI's SDK as it comes, which repeats a request twice: one request has many `once` effects, and something goes
wrong after the first ones. Each effect happens once.

The clients connect through a balancer that waits for a server, so no repetition misses it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import openai

from fakes.postgres import postgres
from fakes.until import until_async

from .harness import ENDED, Client, Site, client_of, site, two_servers
from .orders import Order

_PAYMENTS = ", ".join(["pay"] * 20)
_FIRST = 3  # effects of each request before something goes wrong


@dataclass
class Repeated:
    """What came of it: the answers by status (0: no answer), and the effects that happened more than once."""

    requests: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    effects: int = 0
    doubled: list[str] = field(default_factory=list)


Break = Callable[[Site, Client, Sequence[Order]], Awaitable[None]]


async def _stop(at: Site, client: Client, orders: Sequence[Order]) -> None:
    """Stop the first server, and start it again."""
    await asyncio.to_thread(at.servers[0].stop)
    await asyncio.to_thread(at.servers[0].restart)


async def _lose(at: Site, client: Client, orders: Sequence[Order]) -> None:
    """Delete the database, and start again with an empty one."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{at.servers[0].db}{suffix}").unlink(missing_ok=True)  # noqa: ASYNC240
    await _stop(at, client, orders)


async def _cancel(at: Site, client: Client, orders: Sequence[Order]) -> None:
    """Cancel the runs, as their operator may."""
    for run in (await client.ask("GET", "/runs?limit=100&status=in_progress"))["data"]:
        await client.ask("POST", f"/runs/{run['id']}/cancel")


async def _wait(at: Site, client: Client, orders: Sequence[Order]) -> None:
    """Do nothing: the request fails by itself."""


@dataclass(frozen=True)
class Way:
    """A way to fail: the order's steps, what is broken after its first effects, and options of the server."""

    steps: str = _PAYMENTS
    broken: Break = _wait
    args: tuple[str, ...] = ()
    servers: int = 1
    delay: float = 0.005  # seconds before and after each effect


WAYS: Mapping[str, Way] = {
    "SIGTERM": Way(broken=_stop, args=("--grace", "0.1")),
    "SIGTERM, two servers on PostgreSQL": Way(broken=_stop, servers=2),
    "the database is lost": Way(broken=_lose, args=("--grace", "0.1")),
    "the run is cancelled": Way(broken=_cancel),
    "the run's time is up": Way(args=("--run-ttl", "3"), delay=0.2),
    "the model refuses": Way(f"{_PAYMENTS}, refused"),
    "the model's replies are empty": Way(f"{_PAYMENTS}, empty"),
    "out of steps": Way(", ".join(["pay"] * 30)),
}


def repeat(name: str, api: str, times: int, *, at_once: int = 5, url: str = "") -> Repeated:
    """Send `times` requests to `api` ("chat" or "responses"), `at_once` at a time, which fail as `WAYS` says under
    `name`. `url` is of a new database on PostgreSQL for two servers, which is made if empty."""
    way = WAYS[name]
    if way.servers == 2:
        if not url:
            with postgres() as server:
                return repeat(name, api, times, at_once=at_once, url=server.database())
        with two_servers(url, "--grace", "0.1", delay=way.delay) as at:
            return asyncio.run(_repeat(at, way, api, times, at_once))
    with site(*way.args, delay=way.delay) as at:
        return asyncio.run(_repeat(at, way, api, times, at_once))


async def _repeat(at: Site, way: Way, api: str, times: int, at_once: int) -> Repeated:
    seen = Repeated()
    async with client_of(at) as client, _balancer(at) as url:
        key = at.servers[0].key
        while seen.requests < times:
            orders = [Order(f"{api}{seen.requests + one}", way.steps) for one in range(min(at_once, times))]
            asked = [asyncio.create_task(asyncio.to_thread(_ask, url, key, api, order.question)) for order in orders]
            await until_async(partial(_begun, client, orders), seconds=60)
            await way.broken(at, client, orders)
            seen.answers.update(await asyncio.gather(*asked))
            seen.requests += len(orders)
            await until_async(partial(_all_rest, client), seconds=120)
        counted = Counter(f"{one['tool']} {one['what']}" for one in await client.effects())
    seen.effects = len(counted)
    seen.doubled = [effect for effect, number in counted.items() if number > 1]
    return seen


async def _begun(client: Client, orders: Sequence[Order]) -> bool:
    return all([len(await client.effects(order.number)) >= _FIRST for order in orders])


async def _all_rest(client: Client) -> bool:
    runs = (await client.ask("GET", "/runs?limit=100"))["data"]
    return all(run["status"] in (*ENDED, "requires_action") for run in runs)


def _ask(url: str, key: str, api: str, question: str) -> int:
    """Ask as a program does that sets nothing but the address and the key; return the status of the answer."""
    with openai.OpenAI(base_url=url, api_key=key) as client:
        try:
            if api == "chat":
                messages: Any = [{"role": "user", "content": question}]
                client.chat.completions.create(model="payer", messages=messages)
            else:
                client.responses.create(model="payer", input=question)
        except openai.APIStatusError as error:
            return error.status_code
        except openai.APIConnectionError:
            return 0
        return 200


@asynccontextmanager
async def _balancer(at: Site) -> AsyncIterator[str]:
    """Forward connections to the first server that accepts them, while in the block; the address."""
    ports = [int(server.root.rpartition(":")[2]) for server in at.servers]

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await _connected(ports)
        with suppress(OSError):
            await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def _connected(ports: Sequence[int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        for port in ports:
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.05)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(65_536):
            target.write(piece)
            await target.drain()
    finally:
        target.close()
