"""Reads a streamed reply: the text that can be shown so far, and finally the complete reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._internal.foreign_text import TextPieces
from ..core.events import Delta
from ..core.protocols import Retry
from ..core.values import Message, ProviderState, Reply, Usage
from ..errors import ModelRefused, ModelUnavailable
from ..net.error_mapping import error_in_stream
from ..net.http_client import DONE
from .stop_sequences import StopCutter
from .thought_filter import ThoughtFilter
from .wire_format import PartialReply, Wire

_MAX_STATE = 4_000_000  # characters
_MAX_REPLY = 1_000_000  # characters, of text and arguments: a quarter of a million tokens, more than engines allow


class ReplyReader:
    """Reads one reply.

    `in_json`: JSON was requested, so stop words do not apply if the reply is JSON. `thinks`: whether the reply begins
    within a thought (`None`: not known); `found_open` says whether it did.
    """

    __slots__ = (
        "_arriving", "_cutter", "_in_json", "_keep", "_pieces", "_read", "_reasoning", "_redacted", "_stop", "_text",
        "_thought_pieces", "_thoughts", "_used",
    )  # fmt: skip

    def __init__(
        self,
        wire: Wire,
        stop: Sequence[str],
        *,
        in_json: bool,
        redacted: Callable[[str], str],
        thinks: bool | None = False,
    ) -> None:
        self._read = wire.read
        self._stop = stop
        self._cutter = StopCutter(stop)
        self._in_json = in_json
        self._redacted = redacted
        self._arriving = PartialReply()
        self._pieces = TextPieces()
        self._thought_pieces = TextPieces()
        self._reasoning = ""
        self._keep = wire.keep
        self._thoughts = ThoughtFilter(opened=thinks)
        self._text = ""
        self._used = Usage()  # by the requests before, if the turn was paused

    def take(self, bodies: Sequence[Any]) -> Iterator[Delta | Retry]:
        """Yield what can be shown after these bodies or events. Raises `ModelError` for an invalid one."""
        arriving = self._arriving
        for body in bodies:
            self._read_body(body)
        arguments = sum(len(call.arguments) for call in arriving.calls.values())
        thoughts = len(self._reasoning) + len(arriving.reasoning)
        if len(self._text) + len(arriving.said) + thoughts + arguments > _MAX_REPLY:
            raise ModelRefused(f"the engine's reply has more than {_MAX_REPLY:,} characters")
        if arriving.separates:
            self._thoughts.separates()
        if thought := arriving.reasoning:
            arriving.reasoning = ""
            yield from self._show_thought(self._thought_pieces.feed(thought))
        if said := arriving.said:
            arriving.said = ""
            yield from self._pass(self._thoughts.feed(self._pieces.feed(said)))

    def _read_body(self, body: Any) -> None:
        if body is DONE:
            self._arriving.ended = True
            return
        if body is None:  # a sign of life
            return
        if isinstance(body, list) and len(body) == 1 and isinstance(body[0], dict) and "error" in body[0]:  # Gemini
            body = body[0]
        if not isinstance(body, dict):
            shown = "an array" if isinstance(body, list) else f"{self._redacted(repr(body)):.80}"
            raise ModelUnavailable(f"the engine sent {shown} instead of an object")
        error = body.get("error") or (body if body.get("object") == "error" else None)
        if not error:
            self._read(body, self._arriving)
        if error := error or self._arriving.failed:
            raise error_in_stream(error, self._redacted)

    def _pass(self, said: str) -> Iterator[Delta | Retry]:
        """Yield the next part of the text, up to a stop word."""
        thoughts = self._thoughts
        if thoughts.retracts:
            thoughts.retracts = False
            if self._text:
                yield Retry("what came so far was a thought, and not the reply", 0.0)
            thoughts.thought = self._text + thoughts.thought
            self._text, self._cutter = "", StopCutter(self._stop)
        thought, thoughts.thought = thoughts.thought, ""
        yield from self._show_thought(thought if self._reasoning else thought.lstrip())
        if self._in_json and not self._text and said.lstrip().startswith("{"):
            self._cutter = StopCutter(())
        yield from self._show(self._cutter.feed(said))

    def _show_thought(self, piece: str) -> Iterator[Delta]:
        if piece:
            self._reasoning += piece
            yield Delta("", reasoning=piece)

    def _show(self, piece: str) -> Iterator[Delta]:
        if piece:
            self._text += piece
            yield Delta(piece)

    def paused_turn(self, origin: str) -> Message | None:
        """Return the turn so far, if its vendor paused it and wants it back to go on; what follows is added to it."""
        arriving = self._arriving
        if not arriving.paused:
            return None
        turn = self._keep(arriving)
        self._used, arriving.usage = self._used + arriving.usage, Usage(requests=1)
        arriving.paused, arriving.finish, arriving.counted = False, "", False
        return Message("assistant", self._text, state=ProviderState(origin, json.dumps(turn)))

    @property
    def is_enough(self) -> bool:
        """Whether everything needed has arrived, even if the engine sends more."""
        return self._cutter.stopped and self._arriving.counted

    @property
    def found_open(self) -> bool:
        """Whether the reply began within a thought."""
        return self._thoughts.found_open

    def rest(self) -> Iterator[Delta | Retry]:
        """Yield the text held back so far. Raises `ModelUnavailable` if the reply is incomplete."""
        arriving = self._arriving
        yield from self._show_thought(self._thought_pieces.flush())
        yield from self._pass(self._thoughts.flush(self._pieces.flush()))
        if self._cutter.stopped:
            arriving.finish, arriving.calls = "stop", {}
        if not arriving.finish and arriving.ended and (self._text or arriving.calls):
            arriving.finish = "stop"
        if not arriving.finish:
            raise ModelUnavailable("the engine disconnected in the middle of its reply")
        yield from self._show(self._cutter.flush())

    def reply(self, origin: str, unsent: str = "") -> Reply:
        """Return the complete reply, with its vendor's state, if any, of this `origin`, and with `unsent`. Raises
        `ModelRefused` if the state is too long."""
        arriving = self._arriving
        calls = arriving.actions() if arriving.calls else ()
        turn = self._keep(arriving) if calls else None
        state = None if turn is None else ProviderState(origin, json.dumps(turn))
        if state and len(state.turn) > _MAX_STATE:
            raise ModelRefused(f"what the engine wants back with its reply has more than {_MAX_STATE:,} characters")
        finish = arriving.finish or "stop"
        thoughts, used = self._reasoning, self._used + arriving.usage
        return Reply(self._text, used, finish, calls=calls, reasoning=thoughts, state=state, unsent=unsent)
