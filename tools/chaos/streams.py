"""Streams that are cut at places that nobody chose, by their readers and by the death of the server, and read on."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from fakes.streams import Streams, Told

from .harness import Site, again, client_of, site

_ORDERS = ("look, slowly", "look+note, note, slowly", "slowly", "look, differently", "note, look, differently")
_BYTES = (1, 9_000)  # after which a reader leaves
_BETWEEN = (0.3, 1.5)  # seconds from ready to the next kill


class Kind(NamedTuple):
    """A kind of stream. `begin`: where it is asked for a question, and with what; `find`: where it can be read on, if
    it was begun (and this was told of it); `texts`: by message, what is stored. `on`: with what query it goes on after
    an event, beside the header; `number` and `piece`: an event's number, and the message and text in it, if it has one.
    """

    begin: Callable[[Streams, str], Any]
    find: Callable[[Streams, str, Sequence[Told]], Any]
    texts: Callable[[Streams, str], Any]
    on: Callable[[int | None], str]
    number: Callable[[Told], int | None]
    piece: Callable[[Told], tuple[str, str] | None]


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────


async def _begin_run(client: Streams, question: str) -> tuple[str, Mapping[str, Any]]:
    assistant = await _asked(client, "POST", "/assistants", {"model": "worker"})
    thread = await _asked(client, "POST", "/threads", {"messages": [{"role": "user", "content": question}]})
    return f"/threads/{thread['id']}/runs", {"assistant_id": assistant["id"], "stream": True}


async def _find_run(client: Streams, runs: str, told: Sequence[Told]) -> str | None:
    found = (await _asked(client, "GET", runs))["data"]
    return f"{runs}/{found[0]['id']}" if found else None


async def _messages(client: Streams, run: str) -> dict[str, str]:
    thread = run.partition("/runs/")[0]
    said = await _asked(client, "GET", f"{thread}/messages?order=asc&limit=100")
    return {one["id"]: one["content"][0]["text"]["value"] for one in said["data"] if one["role"] == "assistant"}


def _piece_of_message(event: Told) -> tuple[str, str] | None:
    if event.name != "thread.message.delta":
        return None
    return event.data["id"], event.data["delta"]["content"][0]["text"]["value"]


async def _begin_response(client: Streams, question: str) -> tuple[str, Mapping[str, Any]]:
    return "/responses", {"model": "worker", "input": question, "background": True, "stream": True}


async def _find_response(client: Streams, responses: str, told: Sequence[Told]) -> str | None:
    return f"{responses}/{told[0].data['response']['id']}" if told else None


async def _output(client: Streams, response: str) -> dict[str, str]:
    items = (await _asked(client, "GET", response))["output"]
    return {one["id"]: one["content"][0]["text"] for one in items if one["type"] == "message"}


def _after(last: int | None) -> str:
    return "?stream=true" if last is None else f"?stream=true&starting_after={last}"


def _piece_of_output(event: Told) -> tuple[str, str] | None:
    if event.name != "response.output_text.delta":
        return None
    return event.data["item_id"], event.data["delta"]


ASSISTANTS = Kind(_begin_run, _find_run, _messages, lambda last: "", lambda event: event.number, _piece_of_message)
RESPONSES = Kind(
    _begin_response, _find_response, _output, _after, lambda event: int(event.data["sequence_number"]), _piece_of_output
)


# ── cutting ──────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Cuts:
    """What came of it: `left` and `killed` count connections that the reader or the server's death ended, `across`
    the streams that were cut by such a death."""

    streams: int = 0
    left: int = 0
    killed: int = 0
    across: int = 0
    kills: int = 0
    events: int = 0
    gaps: int = 0
    repeats: int = 0
    changed: int = 0  # streams that were not what is told of them later
    other_texts: int = 0  # streams whose text is not the stored one
    problems: list[str] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """Promises that were not kept."""
        return self.gaps + self.repeats + self.changed + self.other_texts


def cut(
    streams: int,
    across: int,
    *,
    kind: Kind,
    at_once: int = 8,
    seed: int = 0,
    told: Callable[[str], None],
) -> Cuts:
    """Read `streams` streams, each cut again and again, and kill the server until `across` of them were cut by that."""
    with site() as at:
        return asyncio.run(_cut(at, kind, Cuts(streams), across, at_once, random.Random(seed), told))


async def _cut(
    at: Site, kind: Kind, seen: Cuts, across: int, at_once: int, dice: random.Random, told: Callable[[str], None]
) -> Cuts:
    left = iter(range(seen.streams))

    async def work(client: Streams) -> None:
        for number in left:
            await _one(client, kind, f"Order {number}: {dice.choice(_ORDERS)}", seen, dice)
            if number % 50 == 49:
                told(f"{number + 1} streams")

    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        client = Streams(at.server.url, at.server.key, session)
        working = [asyncio.create_task(work(client)) for _ in range(at_once)]
        while seen.across < across and not all(task.done() for task in working):
            await asyncio.sleep(dice.uniform(*_BETWEEN))
            await asyncio.to_thread(again, at)
            seen.kills += 1
        await asyncio.gather(*working)
    return seen


async def _one(client: Streams, kind: Kind, question: str, seen: Cuts, dice: random.Random) -> None:
    """A stream from its beginning to its end."""
    path, body = await kind.begin(client, question)
    found: list[Told] = []
    deaths = 0
    deaths += await _connection(client, kind, found, path, dice, seen, body)
    while (where := await kind.find(client, path, found)) is None:
        deaths += await _connection(client, kind, found, path, dice, seen, body)
    while not found or not found[-1].last:
        deaths += await _connection(client, kind, found, where, dice, seen)
    seen.across += deaths > 0
    _count(seen, question, kind, found, await _whole(client, kind, where), await kind.texts(client, where))


async def _connection(
    client: Streams, kind: Kind, found: list[Told], path: str, dice: random.Random, seen: Cuts, body: Any = None
) -> bool:
    """One connection, which the reader leaves, or which is cut; whether it was, with something told by then."""
    last = kind.number(found[-1]) if found else None
    size = dice.randint(*_BYTES)
    try:
        end = await client.go_on(found, path if body else path + kind.on(last), last, size=size, body=body)
    except AssertionError:  # the server is about to go: 503
        end = "cut"
    seen.left += end == "left"
    seen.killed += end == "cut"
    if end == "cut":
        await asyncio.sleep(0.05)
    return end == "cut" and bool(found)


async def _whole(client: Streams, kind: Kind, where: str) -> list[Told]:
    found: list[Told] = []
    while await client.go_on(found, where + kind.on(None)) != "over":
        found.clear()
        await asyncio.sleep(0.05)
    return found


def _count(
    seen: Cuts, question: str, kind: Kind, found: list[Told], whole: list[Told], stored: Mapping[str, str]
) -> None:
    numbers = Counter(number for event in found if (number := kind.number(event)) is not None)
    wanted = {number for event in whole if (number := kind.number(event)) is not None}
    gaps, repeats = len(wanted - set(numbers)), sum(times - 1 for times in numbers.values())
    texts: dict[str, str] = {}
    for piece in filter(None, map(kind.piece, found)):
        texts[piece[0]] = texts.get(piece[0], "") + piece[1]
    seen.events += len(found)
    seen.gaps += gaps
    seen.repeats += repeats
    seen.changed += found != whole
    seen.other_texts += texts != stored
    if gaps or repeats or found != whole or texts != stored:
        seen.problems.append(f"{question}: gaps {gaps}, repeats {repeats}, {texts} instead of {stored}")


async def _asked(client: Streams, method: str, path: str, body: Any = None) -> Any:
    """An answer, whenever there is one."""
    while True:
        try:
            return await client.ask(method, path, body)
        except (aiohttp.ClientError, OSError, AssertionError, ValueError):
            await asyncio.sleep(0.05)


# ── slow readers ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class Slow:
    """Readers of a byte a second: kilobytes of the server's memory that one costs, and seconds that a run took
    without and with them."""

    readers: int
    kilobytes: float
    alone: float
    beside: float


def slow(readers: int, *, told: Callable[[str], None]) -> Slow:
    """What `readers` cost that read a byte a second, while runs go on that say much."""
    with site() as at:
        return asyncio.run(_slow(at, readers, told))


async def _slow(at: Site, readers: int, told: Callable[[str], None]) -> Slow:
    async with client_of(at) as other, aiohttp.ClientSession() as session:
        client = Streams(at.server.url, at.server.key, session)
        where = ""
        for _ in range(8):  # until the process has what it needs for such a run
            alone, where = await _timed(client)
        before = _memory(at)
        sockets = [await asyncio.to_thread(_open, at, where) for _ in range(readers)]
        for _ in range(5):
            await asyncio.sleep(1)
            for one in sockets:
                one.recv(1)
        after = _memory(at)
        beside, _ = await _timed(client)
        told(f"{before} kB before, {after} kB after")
        for one in sockets:
            one.close()
        assert await other.once("GET", "/models")
    return Slow(readers, (after - before) / readers, alone, beside)


async def _timed(client: Streams) -> tuple[float, str]:
    """A run that says much, to a quick reader: seconds, and where it is."""
    path, body = await _begin_run(client, "Order 1: at length")
    clock = asyncio.get_running_loop().time
    began = clock()
    events = await client.read(path, body=body)
    return clock() - began, f"{path}/{events[0].data['id']}"


def _open(at: Site, where: str) -> socket.socket:
    """A connection on which a stream was asked for, and as little as can be is taken in."""
    url = urlsplit(at.server.url)
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    one.connect((url.hostname, url.port))
    head = f"GET {url.path}{where}?stream=true HTTP/1.1\r\nHost: {url.netloc}\r\n"
    one.sendall(f"{head}Authorization: Bearer {at.server.key}\r\n\r\n".encode())
    assert one.recv(12) == b"HTTP/1.1 200"
    return one


def _memory(at: Site) -> int:
    """Kilobytes that the server's process has in memory."""
    lines = Path(f"/proc/{at.server.process.pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])
