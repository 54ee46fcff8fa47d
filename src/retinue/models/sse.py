"""Server-sent events (WHATWG HTML, 9.2): bytes in, `data` texts out."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class ServerSentEvents:
    """An incremental reader. A trailing CR waits for its LF; an event without its blank line is none."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of the events that `chunk` completes."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            elif self._data:
                yield "\n".join(self._data)
                self._data = []
