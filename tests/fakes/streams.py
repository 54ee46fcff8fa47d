"""A client of streams that takes them apart by the letter: it may go away in the middle, and come back."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, TypeAlias

import aiohttp

End: TypeAlias = Literal["over", "left", "cut"]
DONE = "event: done\ndata: [DONE]"
_LAST = ("response.completed", "response.failed", "response.incomplete")  # after which a response says nothing


class Told(NamedTuple):
    """An event, letter by letter, and the number that it has."""

    text: str
    number: int | None

    @property
    def name(self) -> str:
        """What it is called."""
        return next((line[7:] for line in self.text.split("\n") if line.startswith("event: ")), "")

    @property
    def last(self) -> bool:
        """Whether nothing follows it."""
        return self.text == DONE or self.name in _LAST

    @property
    def data(self) -> Any:
        """Its object."""
        return json.loads("\n".join(line[6:] for line in self.text.split("\n") if line.startswith("data: ")))


class Streams:
    """What clients of the server at `url` do."""

    def __init__(self, url: str, key: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self._session = session

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """An answer."""
        async with self._session.request(method, self.url + path, json=body, headers=self._headers) as response:
            said = await response.json()
            assert response.status == 200, said
            return said

    async def read(self, path: str, last: int | None = None, most: int | None = None, body: Any = None) -> list[Told]:
        """A stream's events, or the first `most`. `body`: of a POST."""
        found: list[Told] = []
        end = await self.go_on(found, path, last, most, body=body)
        assert end == "over" or (end == "left" and most is not None), (end, found[-1:])
        return found

    async def go_on(
        self,
        found: list[Told],
        path: str,
        last: int | None = None,
        most: int | None = None,
        size: int | None = None,
        body: Any = None,
    ) -> End:
        """Add to `found` what a stream says after the event `last`, without the signs that it is alive. It is left
        after `most` events or `size` bytes."""
        headers = {**self._headers, "Accept": "text/event-stream"}
        headers |= {} if last is None else {"Last-Event-ID": str(last)}
        method, begun, before = "GET" if body is None else "POST", b"", len(found)
        try:
            async with self._session.request(method, self.url + path, json=body, headers=headers) as response:
                assert response.status == 200, await response.text()
                async for chunk in response.content.iter_any():
                    *whole, begun = (begun + chunk[:size]).split(b"\n\n")
                    found += map(_told, whole)
                    if most is not None and len(found) - before >= most:
                        del found[before + most :]
                        return "over" if found[-1].last else "left"
                    if size is not None and (size := size - len(chunk)) <= 0:
                        return "over" if len(found) > before and found[-1].last else "left"
        except (aiohttp.ClientError, OSError):
            return "cut"
        return "over" if len(found) > before and found[-1].last else "cut"


def _told(said: bytes) -> Told:
    lines = [line for line in said.decode().split("\n") if not line.startswith((":", "retry: "))]
    number = lines[0].removeprefix("id: ") if lines[0].startswith("id: ") else None
    return Told("\n".join(lines), None if number is None else int(number))
