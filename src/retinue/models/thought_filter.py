"""Separates a model's thoughts from its reply, where an engine leaves them in the text between tags.

- What is in tags at the beginning of a reply is a thought, even if it never ends.
- Further on, a block is one if it ends. Its tag begins a line, or the reply has had thoughts before.
- A closing tag alone means that the chat template opened the thought: everything before it is one.
- Tags in code, between backticks, are text.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

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
_BEGUN = {tag[:size] for tag in (*_TAGS, *_AFTER) for size in range(1, len(tag))}
_LONGEST = max(map(len, _BEGUN))
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
        "_code", "_end", "_ended", "_held", "_is_apart", "_line", "_passed", "_reader", "found_open", "retracts",
        "thought",
    )  # fmt: skip

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

    def separates(self) -> None:
        """Note that the engine sends the thoughts apart from the text."""
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
        if opened is None:
            opened = yield from self._seems_opened()
        if opened:
            yield from self._leave_opened()
        while (yield from self._leave_thoughts()):
            is_over = yield from self._read_text()
            if is_over:
                return
        while not self._ended:  # JSON, in which there are no thoughts
            self._pass(len(self._held))
            yield
        self._pass(len(self._held))

    def _seems_opened(self) -> Generator[None, None, bool]:
        """Return whether the first words are like those of a thought."""
        while not (self._ended or self._is_apart):
            begun = self._held.lstrip()
            if len(begun) >= _ENOUGH or begun.startswith(("<", "[", "◁", "{", "`")):
                return _FIRST_WORDS.match(begun) is not None
            yield
        return False

    def _leave_opened(self) -> Iterator[None]:
        """Hold everything until a closing tag, or an opening one before any text, says what it is."""
        searched = 0
        while not (self._ended or self._is_apart):
            begun = self._held.lstrip()
            if any(begun[: len(tag)].lower() == tag for tag in _PAIRS):
                return
            for found in _TOKEN.finditer(self._held, max(0, searched - _LONGEST)):
                if found.group().lower() in _CLOSING:
                    self.thought = self._held[: found.start()]
                    self._held, self._end, self.found_open = self._held[found.end() :], found.group().lower(), True
                    return
            searched = len(self._held)
            yield

    def _leave_thoughts(self) -> Generator[None, None, bool]:
        """Read the thoughts before the text, and return whether the text may have more of them: JSON has none."""
        while True:
            begun = self._held.lstrip()
            lower = begun[: _LONGEST + 1].lower()
            tag = next((tag for tag in (*_PAIRS, *_AFTER) if lower.startswith(tag)), "")
            if tag:
                self._held = begun[len(tag) :]
                if tag in _PAIRS:
                    yield from self._leave_thought(_PAIRS[tag])
            elif begun and lower not in _BEGUN:
                self._held = begun if self._end else self._held
                break
            elif self._ended:
                break
            else:
                yield
        return not begun.startswith("{")

    def _leave_thought(self, end: str) -> Iterator[None]:
        self._end = end
        while (at := self._held.lower().find(end)) < 0 and not self._ended:
            self._think(max(0, len(self._held) - len(end) + 1))
            yield
        self._think(len(self._held) if at < 0 else at)
        self._held = self._held[len(end) :]

    def _read_text(self) -> Generator[None, None, bool]:
        """Pass on text and read the blocks in it. Return whether the reply is over, and not found to be a thought."""
        literal = 0  # tags that were text
        while True:
            found = _TOKEN.search(self._held)
            token = found.group().lower() if found else ""
            if found is None or (token == self._held and token[0] == "`"):  # of which there may be more
                self._pass(len(self._held) - (0 if self._ended else _maybe_begun(self._held) or len(token)))
                if self._ended:
                    return True
                yield
            elif found.start():
                self._pass(found.start())
            elif token[0] == "`" or self._code:
                self._pass(len(token))
                self._note_code(token)
            elif token in _PAIRS and (self._end or not self._line.strip()):
                yield from self._leave_block(found.group())
            elif token in _PAIRS or literal or self._end or self._is_apart:
                literal += 1 if token in _PAIRS else -1 if literal else 0
                self._pass(len(token))
            else:
                self.thought += self._passed
                self._held, self._passed, self._line, self._end = self._held[len(token) :], "", "", token
                self.retracts = self.found_open = True
                return False

    def _leave_block(self, tag: str) -> Iterator[None]:
        """Read a block, which is text unless it ends."""
        block, rest = "", self._held[len(tag) :]
        self._end = end = _PAIRS[tag.lower()]
        while (at := rest.lower().find(end)) < 0:
            keep = min(len(rest), len(end) - 1)
            block, self._held = block + rest[: len(rest) - keep], rest[len(rest) - keep :]
            if self._ended:
                self._held = tag + block + self._held
                self._pass(len(self._held))
                return
            yield
            rest = self._held
        self.thought += block + rest[:at]
        self._held = rest[at + len(end) :]
        self._held = self._held if self._line.strip() else self._held.lstrip()

    def _note_code(self, token: str) -> None:
        if token[0] == "`" and not self._code:
            self._code = token
        elif token == self._code or (token[0] == "`" and len(self._code) >= 3 and len(token) >= len(self._code)):
            self._code = ""

    def _think(self, length: int) -> None:
        self.thought, self._held = self.thought + self._held[:length], self._held[length:]

    def _pass(self, length: int) -> None:
        text, self._held = self._held[:length], self._held[length:]
        self._passed += text
        _, newline, line = text.rpartition("\n")
        self._line = line if newline else self._line + line
        if newline and len(self._code) < 3:
            self._code = ""  # code in a line ends with it


def _maybe_begun(text: str) -> int:
    """Return how many characters at the end of `text` may begin a tag."""
    lower = text[-_LONGEST:].lower()
    if not ("<" in lower or "[" in lower or "◁" in lower):
        return 0
    for size in range(len(lower), 0, -1):
        if lower[-size:] in _BEGUN:
            return size
    return 0
