"""What a command writes: its begin and its end are kept, however much it is, and its last line is told now and then."""

from __future__ import annotations

import re
import time
from asyncio.subprocess import Process
from collections.abc import Callable

_PIECE, _FLOOD = 65_536, 50_000_000  # bytes
_BETWEEN_LINES = 3.0  # seconds
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CommandOutput:
    """The output of a command, of which `most` bytes are kept. `excess` says if it was far too much."""

    def __init__(self, most: int, tell: Callable[[str], None] | None) -> None:
        self.excess = ""
        self._most, self._tell, self._told = most // 2, tell, time.monotonic()
        self._begin, self._end, self._size = b"", b"", 0

    async def read(self, process: Process, kill: Callable[[], None]) -> None:
        """Read until there is no more, and `kill` what does not stop writing."""
        assert process.stdout is not None
        while piece := await process.stdout.read(_PIECE):
            self._size += len(piece)
            room = self._most - len(self._begin)
            self._begin += piece[:room]
            self._end = (self._end + piece[room:])[-self._most :]
            if self._size > _FLOOD:
                self.excess = f"it wrote more than {_FLOOD:,} bytes of output"
                kill()
            if self._tell is not None and time.monotonic() - self._told > _BETWEEN_LINES:
                lines = _make_plain(piece).strip().split("\n")
                self._tell(lines[-1])
                self._told = time.monotonic()

    @property
    def left_out(self) -> int:
        """Bytes in the middle that are not kept."""
        return self._size - len(self._begin) - len(self._end)

    @property
    def text(self) -> str:
        """What is kept, with a note where the rest was."""
        if not self.left_out:
            return _make_plain(self._begin + self._end)
        return f"\n… ({self.left_out:,} bytes are left out here) …\n".join(map(_make_plain, (self._begin, self._end)))


def _make_plain(data: bytes) -> str:
    """Return output as text without the controls of a terminal."""
    return _CONTROLS.sub("", re.sub(r"\r\n?", "\n", data.decode("utf-8", "replace")))
