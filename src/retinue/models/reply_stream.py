"""Reads a streamed reply: the text that can be shown so far, and finally the complete reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.values import Reply
from ..errors import ModelRefused, ModelUnavailable
from ..net.error_mapping import error_in_stream
from .stop_sequences import StopCutter
from .wire_format import PartialReply, Wire

_MAX_REPLY = 1_000_000  # characters, of text and arguments: a quarter of a million tokens, more than engines allow


class ReplyReader:
    """Reads one reply. `in_json`: JSON was requested, so stop words do not apply if the reply is JSON."""

    __slots__ = ("_arriving", "_cutter", "_in_json", "_read", "_redacted", "_text")

    def __init__(self, wire: Wire, stop: Sequence[str], *, in_json: bool, redacted: Callable[[str], str]) -> None:
        self._read = wire.read
        self._cutter = StopCutter(stop)
        self._in_json = in_json
        self._redacted = redacted
        self._arriving = PartialReply()
        self._text = ""

    def take(self, bodies: Sequence[Any]) -> str:
        """Return the text that can be shown after these bodies or events. Raises `ModelError` for an invalid one."""
        arriving = self._arriving
        for body in bodies:
            if not isinstance(body, dict):
                shown = "an array" if isinstance(body, list) else f"{self._redacted(repr(body)):.80}"
                raise ModelUnavailable(f"the engine sent {shown} instead of an object")
            error = body.get("error")
            if not error:
                self._read(body, arriving)
            if error := error or arriving.failed:
                raise error_in_stream(error, self._redacted)
        arguments = sum(len(call.arguments) for call in arriving.calls.values())
        if len(self._text) + len(arriving.said) + arguments > _MAX_REPLY:
            raise ModelRefused(f"the engine's reply has more than {_MAX_REPLY:,} characters")
        if not arriving.said:
            return ""
        if self._in_json and not self._text and arriving.said.lstrip().startswith("{"):
            self._cutter = StopCutter(())
        piece, arriving.said = self._cutter.feed(arriving.said), ""
        self._text += piece
        return piece

    @property
    def is_enough(self) -> bool:
        """Whether everything needed has arrived, even if the engine sends more."""
        return self._cutter.stopped and self._arriving.counted

    def rest(self) -> str:
        """Return the text held back so far. Raises `ModelUnavailable` if the reply is incomplete."""
        if self._cutter.stopped:
            self._arriving.finish, self._arriving.calls = "stop", {}
        if not self._arriving.finish:
            raise ModelUnavailable("the engine disconnected in the middle of its reply")
        piece = self._cutter.flush()
        self._text += piece
        return piece

    def reply(self) -> Reply:
        """Return the complete reply."""
        arriving = self._arriving
        calls = arriving.actions() if arriving.calls else ()
        return Reply(self._text, arriving.usage, arriving.finish or "stop", calls=calls)
