"""Separates a model's thoughts from its reply, where an engine leaves them in the text between tags.

- Thoughts at the beginning of a reply are dropped, even if they never end.
- Further on, a block is dropped if it ends. Its tag begins a line, or the reply has had thoughts before.
- A closing tag alone means that the chat template opened the thought: everything before it is dropped.
- Tags in code, between backticks, are text.
"""

from __future__ import annotations

import re
from typing import Literal

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
    """Passes on the text of one reply without the thoughts in it.

    `opened`: whether the chat template opens the thoughts; `None` if that is not known, and then the first words decide
    whether the text is held back. `retracts` is set by a closing tag after text that was passed on: it was a thought.
    `found_open`: the reply began within a thought.
    """

    __slots__ = (
        "_code",
        "_end",
        "_held",
        "_line",
        "_literal",
        "_maybe",
        "_mode",
        "_searched",
        "found_open",
        "retracts",
    )

    def __init__(self, *, opened: bool | None) -> None:
        self._mode: Literal["start", "text", "json", "thought", "block", "opened", "unsure"] = (
            "start" if opened is False else "opened" if opened else "unsure"
        )
        self._held = ""
        self._maybe = ""  # a block that is text unless it ends
        self._end = ""  # the tag that ends the thought
        self._code = ""  # the backticks that end the code
        self._line = ""  # what was passed on of the line
        self._literal = 0  # tags that were text
        self._searched = 0  # characters of a thought that may not be one
        self.found_open = False
        self.retracts = False

    def separates(self) -> None:
        """Note that the engine sends the thoughts apart from the text."""
        if self._mode in ("opened", "unsure"):
            self._mode = "start"

    def feed(self, text: str) -> str:
        """Return the text that can be passed on now."""
        self._held += text
        passed = ""
        while (more := self._step()) is not None:
            if self.retracts:
                passed = ""
            passed += more
        return passed

    def flush(self) -> str:
        """Return the rest at the end of the reply."""
        if self._mode in ("opened", "unsure"):  # it was no thought after all
            self._mode = "start"
            passed = self.feed("")
        else:
            passed = ""
        if self._mode == "thought":
            return passed
        rest, self._maybe, self._held = self._maybe + self._held, "", ""
        return passed + rest

    def _step(self) -> str | None:
        """Consume some of the held text and return what is passed on of it, or `None` if more is needed."""
        match self._mode:
            case "unsure":
                return self._decide()
            case "opened":
                return self._leave_opened()
            case "start":
                return self._begin()
            case "thought" | "block":
                return self._leave()
            case "json":
                return self._pass(len(self._held)) if self._held else None
        return self._read()

    def _decide(self) -> str | None:
        begun = self._held.lstrip()
        if len(begun) < _ENOUGH and not begun.startswith(("<", "[", "◁", "{", "`")):
            return None
        self._mode = "opened" if _FIRST_WORDS.match(begun) else "start"
        return ""

    def _leave_opened(self) -> str | None:
        """Hold everything until a closing tag, or an opening one before any text, says what it is."""
        begun = self._held.lstrip()
        if any(begun[: len(tag)].lower() == tag for tag in _PAIRS):
            self._mode = "start"
            return ""
        for found in _TOKEN.finditer(self._held, max(0, self._searched - _LONGEST)):
            if found.group().lower() in _CLOSING:
                self._held = self._held[found.end() :]
                self._mode, self._end, self.found_open = "start", found.group().lower(), True
                return ""
        self._searched = len(self._held)
        return None

    def _begin(self) -> str | None:
        """Look for a thought, where nothing but thoughts has come yet."""
        begun = self._held.lstrip()
        lower = begun[: _LONGEST + 1].lower()
        for tag in (*_PAIRS, *_AFTER):
            if lower.startswith(tag):
                self._held = begun[len(tag) :]
                if tag in _PAIRS:
                    self._mode, self._end = "thought", _PAIRS[tag]
                return ""
        if not begun or lower in _BEGUN:
            return None
        self._mode = "json" if begun.startswith("{") else "text"
        if self._end:
            self._held = begun
        return ""

    def _leave(self) -> str | None:
        """Drop a thought up to its end."""
        at = self._held.lower().find(self._end)
        if at >= 0:
            self._held = self._held[at + len(self._end) :]
            self._maybe = ""
            if self._mode == "thought":
                self._mode = "start"
            else:
                self._mode = "text"
                self._held = self._held if self._line.strip() else self._held.lstrip()
            return ""
        keep = min(len(self._held), len(self._end) - 1)
        if self._mode == "block":
            self._maybe += self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return None

    def _read(self) -> str | None:
        """Pass on text up to the next tag or code."""
        held = self._held
        found = _TOKEN.search(held)
        if found is None:
            return self._pass(len(held) - _maybe_begun(held)) if len(held) > _maybe_begun(held) else None
        if found.start():
            return self._pass(found.start())
        token = found.group().lower()
        if token[0] == "`":
            return self._read_code(token)
        if self._code:
            return self._pass(found.end())
        if token in _PAIRS:
            if self._end or not self._line.strip():
                self._held, self._maybe = held[found.end() :], held[: found.end()]
                self._mode, self._end = "block", _PAIRS[token]
                return ""
            self._literal += 1
        elif self._literal:
            self._literal -= 1
        elif not self._end:
            self._held = held[found.end() :]
            self._mode, self._end, self._line = "start", token, ""
            self.retracts = self.found_open = True
            return ""
        return self._pass(found.end())

    def _read_code(self, ticks: str) -> str | None:
        if len(ticks) == len(self._held):
            return None  # there may be more of them
        if not self._code:
            self._code = ticks
        elif ticks == self._code or (len(self._code) >= 3 and len(ticks) >= len(self._code)):
            self._code = ""
        return self._pass(len(ticks))

    def _pass(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        _, newline, line = text.rpartition("\n")
        self._line = line if newline else self._line + line
        if newline and len(self._code) < 3:
            self._code = ""  # code in a line ends with it
        return text


def _maybe_begun(text: str) -> int:
    """Return how many characters at the end of `text` may begin a tag."""
    lower = text[-_LONGEST:].lower()
    if not ("<" in lower or "[" in lower or "◁" in lower):
        return 0
    for size in range(len(lower), 0, -1):
        if lower[-size:] in _BEGUN:
            return size
    return 0
