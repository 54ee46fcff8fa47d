"""Reads a streamed reply: the text and the thoughts that can be shown so far, and finally the complete reply.

Stop words are applied here as well, for engines that do not support or honour them. Where an engine leaves a model's
thoughts in the text, between tags, they are separated from it:

- What is in tags at the beginning of a reply is a thought, even if it never ends.
- Further on, a block is one if it ends. Its tag begins a line, or the reply has had thoughts before.
- A closing tag alone means that the chat template opened the thought: everything before it is one.
- Tags in code, between backticks, are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from .._internal.foreign_text import TextPieces
from ..core.events import Delta
from ..core.protocols import Retry
from ..core.values import Message, ProviderState, Reply, Usage
from ..errors import ModelRefused, ModelUnavailable
from ..net.error_mapping import make_stream_error
from ..net.http_client import DONE
from .wire_format import PartialReply, Wire

_MAX_STATE = 4_000_000  # characters
_MAX_REPLY = 1_000_000  # characters, of text and arguments: a quarter of a million tokens, more than engines allow


class ReplyReader:
    """Reads one reply.

    `in_json`: JSON was requested, so stop words do not apply if the reply is JSON. `thinks`: whether the reply begins
    within a thought (`None`: not known); `found_open` says whether it did. Slots here and below, since each run that
    waits has a reader.
    """

    __slots__ = (
        "_arriving",
        "_cutter",
        "_in_json",
        "_pieces",
        "_reasoning",
        "_redacted",
        "_stop",
        "_text",
        "_thought_pieces",
        "_thoughts",
        "_used",
        "_wire",
    )

    def __init__(
        self,
        wire: Wire,
        stop: Sequence[str],
        *,
        in_json: bool,
        redacted: Callable[[str], str],
        thinks: bool | None = False,
    ) -> None:
        self._wire = wire
        self._stop = stop
        self._cutter = StopCutter(stop)
        self._in_json = in_json
        self._redacted = redacted
        self._arriving = PartialReply()
        self._pieces, self._thought_pieces = TextPieces(), TextPieces()
        self._thoughts = ThoughtFilter(opened=thinks)
        self._text = self._reasoning = ""
        self._used = Usage()  # by the requests before, if the turn was paused

    def take(self, bodies: Sequence[Any]) -> Iterator[Delta | Retry]:
        """Yield what can be shown after these bodies or events. Raises `ModelError` for an invalid one."""
        arriving = self._arriving
        for body in bodies:
            self._read_body(body)
        said, arriving.said = arriving.said, ""
        thought, arriving.reasoning = arriving.reasoning, ""
        arguments = sum(len(call.arguments) for call in arriving.calls.values())
        if len(self._text) + len(said) + len(self._reasoning) + len(thought) + arguments > _MAX_REPLY:
            raise ModelRefused(f"the engine's reply has more than {_MAX_REPLY:,} characters")
        if arriving.separates:
            self._thoughts.disable()
        if thought:
            yield from self._show(thought=self._thought_pieces.feed(thought))
        if said:
            yield from self._pass_text(self._thoughts.feed(self._pieces.feed(said)))

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
            self._wire.read_body(body, self._arriving)
        if error := error or self._arriving.failed:
            raise make_stream_error(error, self._redacted)

    def _pass_text(self, said: str) -> Iterator[Delta | Retry]:
        """Yield the next part of the text, up to a stop word."""
        thoughts = self._thoughts
        if thoughts.retracts:
            thoughts.retracts = False
            if self._text:
                yield Retry("what came so far was a thought, and not the reply", 0.0)
            thoughts.thought = self._text + thoughts.thought
            self._text, self._cutter = "", StopCutter(self._stop)
        thought, thoughts.thought = thoughts.thought, ""
        yield from self._show(thought=thought if self._reasoning else thought.lstrip())
        if self._in_json and not self._text and said.lstrip().startswith("{"):
            self._cutter = StopCutter(())
        yield from self._show(self._cutter.feed(said))

    def _show(self, text: str = "", thought: str = "") -> Iterator[Delta]:
        self._text += text
        self._reasoning += thought
        if text or thought:
            yield Delta(text, reasoning=thought)

    def find_paused_turn(self, origin: str) -> Message | None:
        """Return the turn so far, if its vendor paused it and wants it back to go on; what follows is added to it."""
        arriving = self._arriving
        if not arriving.paused:
            return None
        turn = self._wire.keep_turn(arriving)
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

    def flush_rest(self) -> Iterator[Delta | Retry]:
        """Yield the text held back so far. Raises `ModelUnavailable` if the reply is incomplete."""
        arriving = self._arriving
        yield from self._show(thought=self._thought_pieces.flush())
        yield from self._pass_text(self._thoughts.flush(self._pieces.flush()))
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
        calls = arriving.list_actions()
        turn = self._wire.keep_turn(arriving) if calls else None
        state = None if turn is None else ProviderState(origin, json.dumps(turn))
        if state and len(state.turn) > _MAX_STATE:
            raise ModelRefused(f"what the engine wants back with its reply has more than {_MAX_STATE:,} characters")
        used, finish = self._used + arriving.usage, arriving.finish or "stop"
        return Reply(self._text, used, finish, calls=calls, reasoning=self._reasoning, state=state, unsent=unsent)


def _measure_begun(text: str, words: Sequence[str]) -> int:
    """Return how many characters at the end of `text` may begin one of the words."""
    longest, firsts = max(map(len, words), default=1) - 1, {word[0] for word in words}
    for size in range(min(longest, len(text)), 0, -1):
        if text[-size] in firsts and any(word.startswith(text[-size:]) and len(word) > size for word in words):
            return size
    return 0


class StopCutter:
    """Passes text on up to the first stop word, and holds back text that may begin one.

    The stop word completed first wins, so the result does not depend on how the text is split.
    """

    __slots__ = ("_held", "_stop", "stopped")

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [word for word in stop if word]
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Return the text that can be passed on now."""
        if self.stopped:
            return ""
        self._held += text
        if found := [(at + len(word), at) for word in self._stop if (at := self._held.find(word)) >= 0]:
            self.stopped = True
            return self._held[: min(found)[1]]
        at = len(self._held) - _measure_begun(self._held, self._stop)
        text, self._held = self._held[:at], self._held[at:]
        return text

    def flush(self) -> str:
        """Return the rest at the end of the text."""
        return "" if self.stopped else self._held


# ── thoughts in the text ──────────────────────────────────────────────────────────────────────────

_PAIRS = {
    **{f"<{name}>": f"</{name}>" for name in ("think", "thinking", "thought", "reasoning", "seed:think", "mm:think")},
    "[think]": "[/think]",  # Magistral
    "◁think▷": "◁/think▷",  # Kimi
    "<|start_thinking|>": "<|end_thinking|>",  # Command A
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel|>analysis<|message|>": "<|end|>",  # gpt-oss
    "<unused94>": "<unused95>",  # MedGemma
}
_CLOSING = frozenset(_PAIRS.values()) - {"<|end|>"}  # those that mean a thought even if nothing opens it
_AFTER = (  # what some formats write between a thought and the reply
    *("<|start|>assistant", "<|channel|>final<|message|>", "<|start_response|>", "<|begin_of_solution|>"),
)
_TAGS = (*_PAIRS, *_CLOSING)
_TOKEN = re.compile(f"`+|{'|'.join(map(re.escape, _TAGS))}", re.IGNORECASE)
_ALL = (*_TAGS, *_AFTER)
_LONGEST = max(map(len, _ALL))
_FIRST_WORDS = re.compile(
    r"\W*(?:okay|ok|alright|hmm+|wait|so|well|let me|let's|first|the user|the question|we|i need|i should|i must|i have"
    r"|i'll|i will|to (?:solve|answer|find)|got it|thinking|now)\b",
    re.IGNORECASE,
)  # with which the thoughts of models begin
_ENOUGH = 16  # characters by which the first words are known
_THINKERS = re.compile(
    r"(?<![a-z0-9])r1(?![a-z0-9])|qwq|reasoner|think|magistral|nemotron|deepseek-v3\.[1-9]|glm-4\.[5-9]|gpt-oss",
    re.IGNORECASE,
)


def may_think(model: str) -> bool:
    """Return whether a model of this name may have a chat template that opens its thoughts."""
    return _THINKERS.search(model) is not None


class ThoughtFilter:
    """Passes on the text of one reply without the thoughts in it, which are in `thought` until they are taken.

    `opened`: whether the chat template opens the thoughts; `None` if that is not known, and then the first words decide
    whether the text is held back. `retracts` is set by a closing tag after text that was passed on: it was a thought.
    `found_open`: the reply began within a thought.

    The reply is read from its beginning to its end by one generator, which yields wherever it needs more text.
    """

    __slots__ = (
        "_code",
        "_end",
        "_ended",
        "_held",
        "_is_apart",
        "_line",
        "_passed",
        "_reader",
        "found_open",
        "retracts",
        "thought",
    )

    def __init__(self, *, opened: bool | None) -> None:
        self._held = ""  # what has arrived and was not yet read
        self._passed = ""  # text to be passed on
        self._end = ""  # the tag that ended the last thought
        self._code = ""  # the backticks that end the code
        self._line = ""  # what was passed on of the line
        self._ended = self._is_apart = False
        self.thought = ""
        self.found_open = self.retracts = False
        self._reader = self._read(opened)

    def disable(self) -> None:
        """Stop looking for thoughts in the text, as the engine sends them in a field of their own."""
        self._is_apart = True

    def feed(self, text: str) -> str:
        """Return the text that can be passed on now."""
        self._held += text
        next(self._reader, None)
        passed, self._passed = self._passed, ""
        return passed

    def flush(self, rest: str = "") -> str:
        """Return what can be passed on at the end of the reply, of which `rest` is the last."""
        self._ended = True
        return self.feed(rest)

    def _read(self, opened: bool | None) -> Iterator[None]:
        while opened is None and not (self._ended or self._is_apart):  # the first words tell
            begun = self._held.lstrip()
            if len(begun) >= _ENOUGH or begun.startswith(("<", "[", "◁", "{", "`")):
                opened = _FIRST_WORDS.match(begun) is not None
            else:
                yield
        if opened:
            yield from self._leave_opened()
        while (yield from self._leave_thoughts()):
            if (yield from self._read_text()):
                return
        while True:  # JSON, in which there are no thoughts
            self._pass_text(len(self._held))
            yield

    def _leave_opened(self) -> Iterator[None]:
        """Hold everything until a closing tag, or an opening one before any text, says what it is."""
        searched = 0
        while not (self._ended or self._is_apart):
            if self._held.lstrip()[:_LONGEST].lower().startswith(tuple(_PAIRS)):
                return
            for found in _TOKEN.finditer(self._held, max(0, searched - _LONGEST)):
                if found.group().lower() in _CLOSING:
                    self.thought, self._held = self._held[: found.start()], self._held[found.end() :]
                    self._end, self.found_open = found.group().lower(), True
                    return
            searched = len(self._held)
            yield

    def _leave_thoughts(self) -> Generator[None, None, bool]:
        """Read the thoughts before the text, and return whether the text may have more of them: JSON has none."""
        while True:
            begun = self._held.lstrip()
            lower = begun[:_LONGEST].lower()
            tag = next((tag for tag in (*_PAIRS, *_AFTER) if lower.startswith(tag)), "")
            if tag in _PAIRS:
                self._held = begun
                yield from self._leave_block(begun[: len(tag)], is_first=True)
            elif tag:
                self._held = begun[len(tag) :]
            elif begun and _measure_begun(lower, _ALL) < len(lower):
                self._held = begun if self._end else self._held
                break
            elif self._ended:
                break
            else:
                yield
        return not begun.startswith("{")

    def _read_text(self) -> Generator[None, None, bool]:
        """Pass on text and read the blocks in it. Return whether the reply is over, and not found to be a thought."""
        literal = 0  # tags that were text
        while True:
            found = _TOKEN.search(self._held)
            token = found.group().lower() if found else ""
            if found is None or (token == self._held and token[0] == "`"):  # of which there may be more
                kept = 0 if self._ended else _measure_begun(self._held[-_LONGEST:].lower(), _ALL) or len(token)
                self._pass_text(len(self._held) - kept)
                if self._ended:
                    return True
                yield
            elif found.start():
                self._pass_text(found.start())
            elif token[0] == "`" or self._code:
                self._pass_text(len(token))
                if token[0] == "`" and not self._code:
                    self._code = token
                elif token == self._code or (token[0] == "`" and 3 <= len(self._code) <= len(token)):
                    self._code = ""
            elif token in _PAIRS and (self._end or not self._line.strip()):
                yield from self._leave_block(found.group(), is_first=False)
            elif token in _PAIRS or literal or self._end or self._is_apart:
                literal += 1 if token in _PAIRS else -1 if literal else 0
                self._pass_text(len(token))
            else:
                self.thought += self._passed
                self._held, self._passed, self._line, self._end = self._held[len(token) :], "", "", token
                self.retracts = self.found_open = True
                return False

    def _leave_block(self, tag: str, *, is_first: bool) -> Iterator[None]:
        """Read a block, which is text unless it ends, or is the first of the reply."""
        block, self._held = "", self._held[len(tag) :]
        self._end = end = _PAIRS[tag.lower()]
        while (at := self._held.lower().find(end)) < 0 and not self._ended:
            size = max(0, len(self._held) - len(end) + 1)
            block, self._held = block + self._held[:size], self._held[size:]
            if is_first:
                self.thought, block = self.thought + block, ""
            yield
        if at < 0 and not is_first:
            self._held = tag + block + self._held
            self._pass_text(len(self._held))
            return
        at = len(self._held) if at < 0 else at
        self.thought += block + self._held[:at]
        self._held = self._held[at + len(end) :]
        self._held = self._held if is_first or self._line.strip() else self._held.lstrip()

    def _pass_text(self, length: int) -> None:
        text, self._held = self._held[:length], self._held[length:]
        self._passed += text
        _, newline, line = text.rpartition("\n")
        self._line = line if newline else self._line + line
        if newline and len(self._code) < 3:
            self._code = ""  # code in a line ends with it
