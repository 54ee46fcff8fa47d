"""A reply as it comes in: what can be shown of it now, and in the end the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.values import Reply
from ..errors import ModelUnavailable
from ..net.error_mapping import error_in_stream
from .stop_sequences import StopCutter
from .wire_format import PartialReply, Wire


class ReplyReader:
    """Reads one reply. `in_json`: it was asked for as JSON, in which, if it is that, no stop word counts."""

    def __init__(self, wire: Wire, stop: Sequence[str], *, in_json: bool, redacted: Callable[[str], str]) -> None:
        self._read = wire.read
        self._cutter = StopCutter(stop)
        self._in_json = in_json
        self._redacted = redacted
        self._arriving = PartialReply()
        self._text = ""

    def take(self, bodies: Sequence[Any]) -> str:
        """The text that can be shown after these bodies or events. Raises `ModelError` if one is none."""
        arriving = self._arriving
        for body in bodies:
            if not isinstance(body, dict):
                raise ModelUnavailable(f"the engine sent {self._redacted(repr(body)):.80} where an object belongs")
            error = body.get("error")
            if not error:
                self._read(body, arriving)
            if error := error or arriving.failed:
                raise error_in_stream(error, self._redacted)
        if not arriving.said:
            return ""
        if self._in_json and not self._text and arriving.said.lstrip().startswith("{"):
            self._cutter = StopCutter(())
        piece, arriving.said = self._cutter.feed(arriving.said), ""
        self._text += piece
        return piece

    @property
    def is_enough(self) -> bool:
        """Whether all that matters is here, whatever else the engine may say."""
        return self._cutter.stopped and self._arriving.counted

    def rest(self) -> str:
        """The text that was held back. Raises `ModelUnavailable` if the reply is not at its end."""
        if self._cutter.stopped:
            self._arriving.finish, self._arriving.calls = "stop", {}
        if not self._arriving.finish:
            raise ModelUnavailable("the engine broke off in the middle of its reply")
        piece = self._cutter.flush()
        self._text += piece
        return piece

    def reply(self) -> Reply:
        """All of it."""
        arriving = self._arriving
        calls = arriving.actions() if arriving.calls else ()
        return Reply(self._text, arriving.usage, arriving.finish or "stop", calls=calls)
