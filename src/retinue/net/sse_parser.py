"""Incremental parsers of streamed JSON: server-sent events (WHATWG HTML, 9.2) and JSON lines."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_FIELD = re.compile(rb"(?:data|event|id|retry)?:")


class ServerSentEvents:
    """An incremental parser of events, each of which ends with a blank line."""

    def __init__(self) -> None:
        self._begun = False
        self._rest = bytearray()
        self._after_cr = False  # the last byte was a CR; a following LF belongs to it
        self._data: list[str] = []
        self._size = 0  # bytes of `_data`, without the ends of lines

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of the events that `chunk` completes."""
        events: list[str] = []
        new = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        self._rest += new
        if b"\n" not in new and b"\r" not in new:  # a long line is looked at once, however many chunks it comes in
            return events
        held = bytes(self._rest)
        if not self._begun:
            held, self._begun = held.removeprefix(_BOM), True
        *lines, rest = _LINE_END.split(held) if b"\r" in held else held.split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
                    self._size += len(line)
            elif self._data:
                events += self._take()
        return events

    def flush_rest(self) -> list[str]:
        """Return the data of an event that the stream ended without a blank line."""
        return [*self.feed(b"\n"), *self._take()] if self._rest else self._take()

    def _take(self) -> list[str]:
        events = ["\n".join(self._data)] if self._data else []
        self._data, self._size = [], 0
        return events

    @property
    def held(self) -> int:
        """Bytes of the event so far."""
        return len(self._rest) + self._size


class JsonLines:
    """An incremental parser of one text per line."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that `chunk` completes, except blank ones."""
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]

    @property
    def held(self) -> int:
        """Bytes of the line so far."""
        return len(self._rest)

    def flush_rest(self) -> list[str]:
        """Return a last line that the stream ended without a line break."""
        return self.feed(b"\n")


def is_event_stream(body: bytes) -> bool | None:
    """Return whether a body that begins so is a stream of server-sent events; `None` if more is needed to tell."""
    begun = body.removeprefix(_BOM).lstrip()
    if _FIELD.match(begun):
        return True
    return None if any(field.startswith(begun) for field in (b"data:", b"event:", b"id:", b"retry:", _BOM)) else False
