"""Tool results as data: whatever a tool returns, it cannot look like a turn, an action or an answer.

Under whatever strategy, three kinds of text are defused: chat templates' special tokens, which a
tokenizer could read as a change of speaker; the protocols' own markers and JSON keys, which a model could
take for its own words; and lines that pretend to be somebody's turn. The words stay readable; only the
punctuation that makes them protocol changes. Full-width forms, and characters of no width in between,
do not hide anything: what is looked at is what such a text looks like.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MARKERS = (
    "Thought", "Action", "Action Input", "Tool", "Tool Input", "Tool Call", "Observation", "Final Answer", "Question",
    "The Final Answer is", "Final Answer is", "Follow up", "Follow up question", "Follow up questions",
    "Are follow up questions needed here", "Intermediate answer", "Tool responses", "Your response", "Decision",
    "Scratchpad",
)  # fmt: skip
KEYS = (
    "action", "actions", "action input", "action responses", "answer", "final answer", "args", "arguments", "decision",
    "function", "function call", "input", "observation", "parameters", "plan", "scratchpad", "step", "steps",
    "thought", "tool", "tool call", "tool calls", "tool input", "tool name",
)  # fmt: skip
TURNS = (
    "system", "user", "assistant", "human", "ai", "developer", "model", "instruction", "instructions", "response",
    "function", "plan", "step", "user input", "assistant output", "tool output", "human message", "ai message",
)  # fmt: skip


def _any_of(words: tuple[str, ...]) -> str:
    return "|".join(sorted((word.replace(" ", r"[\s_-]*+") for word in words), key=len, reverse=True))


_QUOTES = "\"'`\u201c\u201d\u2018\u2019"
_DECORATION = rf"[\s\d*_\\{_QUOTES}]*+"
_NAMED = r"(?:[\[(][\w .]{1,64}[\])])?+"
_MARKED = rf"_*+(?:{_any_of(MARKERS)}){_DECORATION}{_NAMED}{_DECORATION}(:)"
_MARKER = re.compile(rf"(?<!\w){_MARKED}", re.IGNORECASE)
_MARKER_ANYWHERE = re.compile(_MARKED, re.IGNORECASE)  # a character of no width may end the word before it
_KEY = re.compile(rf"[{_QUOTES}]\s*+(?:{_any_of(KEYS)})\s*+\\*+[{_QUOTES}]\s*+(:)", re.IGNORECASE)
_ESCAPED_LETTER = re.compile(r"(\\)u00(?:4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])", re.IGNORECASE)
_TURN = re.compile(
    rf"^[ \t>*_#`|<(\[-]*+(?:{_any_of(TURNS)})(?:[ \t]*+\d++)?+[ \t*_`|>)\]]*+(?:(:)|(?=\n|\Z))",
    re.IGNORECASE | re.MULTILINE,
)
_TAGS = (
    r"/?s|/?(?:bos|eos|pad|unk|mask|cls|sep|think|thinking|tool|tools|tool_?calls?|tool_?responses?|tool_?results?"
    r"|function|functions|function_?calls?|function_?results?|invoke|parameter|antml:\w+|system|user|assistant|human|ai"
    r"|start_of_turn|end_of_turn|start_of_image|begin_of_text|end_of_text|turn|im_start|im_end|final_?answer|action"
    r"|end_of_plan|observation|tool_use|answer)"
)
_TOKEN = re.compile(
    rf"(<)(?=\||<?/?SYS>|(?:{_TAGS})(?:>|=|[ \t]++\w++=))|(?<=\|)(>)|"
    r"(\[)(?=/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS?|TOOL_RESULTS?|TOOL_CONTENT|ARGS|CALL_ID|THINK)\])",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[\t\n -~]*+")
_INSTEAD = {":": " -", "<": "(", ">": ")", "[": "(", "\\": "/"}


_COLONS = "\u02d0\u05c3\u2236\ua789\u2254\u2a74"  # what looks like a colon, beside what Unicode says is one


class _Folded(dict[int, int | None]):
    """What a character looks like: full-width forms as plain ones, all line breaks as one, no width as nothing."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        folded: int | None = code
        if character in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029":
            folded = 10
        elif unicodedata.category(character) in ("Cf", "Mn", "Me") or (code < 32 and character not in "\t\n"):
            folded = None
        elif character in _COLONS:
            folded = ord(":")
        elif len(plain := unicodedata.normalize("NFKC", character)) == 1:
            folded = ord(plain)
        self[code] = folded
        return folded


_FOLDED = _Folded()


def quoted(text: str) -> str:
    """`text` without anything that reads as protocol or as a chat template's token."""
    looks = text if _PLAIN.fullmatch(text) else text.translate(_FOLDED)
    edits: dict[int, str] = {}
    marker = _MARKER if len(looks) == len(text) else _MARKER_ANYWHERE
    patterns = []
    if "<" in looks or ">" in looks or "[" in looks:
        patterns.append(_TOKEN)
    if ":" in looks:  # most of what tools return is plain words
        patterns += [marker, _KEY]
    if "\\" in looks:
        patterns.append(_ESCAPED_LETTER)
    patterns.append(_TURN)  # the last: it adds to what another puts at the same place
    for pattern in patterns:
        for match in pattern.finditer(looks):
            group = match.lastindex
            if group is None:
                edits[match.end()] = " -" + edits.get(match.end(), "")  # a line that is nothing but a role's name
            else:
                edits[match.start(group)] = _INSTEAD[match.group(group)]
    return _edited(text, looks, edits) if edits else text


def _edited(text: str, looks: str, edits: dict[int, str]) -> str:
    """`text` with the `edits` made to what it looks like."""
    places: Sequence[int] = range(len(text) + 1)
    if len(looks) != len(text):
        places = [at for at, character in enumerate(text) if _FOLDED[ord(character)] is not None] + [len(text)]
    pieces, end = [], 0
    for at in sorted(edits):
        inserted = edits[at].startswith(" -") and (at == len(looks) or looks[at] == "\n")
        place = places[at]
        pieces += [text[end:place], edits[at]]
        end = place if inserted else place + 1
    return "".join([*pieces, text[end:]])
