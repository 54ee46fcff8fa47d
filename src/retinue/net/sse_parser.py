"""Incremental parsers of streamed JSON: server-sent events (WHATWG HTML, 9.2) and JSON lines."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class ServerSentEvents:
    """An incremental parser. An event without its final blank line is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False  # the last byte was a CR; a following LF belongs to it
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of the events that `chunk` completes."""
        events = []
        new = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        held = self._rest + new
        *lines, self._rest = _LINE_END.split(held) if b"\r" in held else held.split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            elif self._data:
                events.append("\n".join(self._data))
                self._data = []
        return events


class JsonLines:
    """An incremental parser of one text per line. A line without its line break is dropped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that `chunk` completes, except blank ones."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]
