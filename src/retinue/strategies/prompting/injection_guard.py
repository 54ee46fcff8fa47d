"""Tool results as data: no tool output can look like a turn, an action or an answer.

For all strategies, three kinds of text are neutralized: special tokens of chat templates, which a tokenizer could read
as a change of speaker; the protocols' own markers and JSON keys, which a model could take for its own words; and lines
that imitate a turn. The words stay readable; only the punctuation that makes them protocol changes. Look-alikes,
zero-width characters and escapes hide nothing, because all `list_views` of a text are searched: its appearance (a
*skeleton*, UTS #39), also with escapes resolved. They cover more than any parser, which resolves JSON escapes at most
twice and folds no characters. So whatever a parser could take for protocol appears in one of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..parsing.actions import KEYS
from ..parsing.lenient_json import ESCAPE, resolve_escape

MARKERS = (
    "Thought", "Action", "Action Input", "Tool", "Tool Input", "Tool Call", "Observation", "Final Answer", "Question",
    "The Final Answer is", "Final Answer is", "Follow up", "Follow up question", "Follow up questions",
    "Are follow up questions needed here", "Intermediate answer", "Tool responses", "Your response", "Decision",
    "Scratchpad",
)  # fmt: skip
TURNS = (
    "system", "user", "assistant", "human", "ai", "developer", "model", "instruction", "instructions", "response",
    "function", "plan", "step", "user input", "assistant output", "tool output", "human message", "ai message",
)  # fmt: skip
TAGS = (  # the contents of <…>
    "s", "bos", "eos", "pad", "unk", "mask", "cls", "sep", "eot", "eod", "eoh", "eoa", "eop", "sop", "think",
    "thinking", "tool", "tools", "tool_?calls?", "tool_?responses?", "tool_?results?", "tool_?inputs?", "tool_use",
    "function", "functions", "function_?calls?", "function_?results?", "invoke", "parameter", "antml:\\w+",
    "system", "user", "assistant", "human", "ai", "role", "turn", "observation", "action", "answer", "final_?answer",
    "im_start", "im_end", "(?:start|begin|end)_of_\\w+", "startoftext", "endoftext", "end_of_plan", "fim_\\w+",
    "seed:\\w+", "mask:\\d+",
    "(?:tool_call|tool_response|image|audio|video|vision|jupyter|code)_(?:start|end|pad|sep|soft_token)",
    "unused\\d+", "[a-z][a-z_]*_\\d+", "(?-i:[A-Z_]+_TOKEN)",
)  # fmt: skip
BRACKETED = (  # the contents of […]
    "/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS?|TOOL_RESULTS?|TOOL_CONTENT|ARGS|CALL_ID|THINK)",
    "(?-i:/?(?:IMG(?:_BREAK|_END)?|PREFIX|SUFFIX|MIDDLE|(?:BEGIN_)?AUDIO|MODEL_SETTINGS|[gs]?MASK|CLS|SEP|PAD|UNK))",
    "(?-i:BOS|EOS|EOT|EOD)", "unused\\d+", "[a-z][a-z_]*_\\d+", "(?:start|end)_header_id", "\\|\\w+\\|",
)  # fmt: skip


def _build_alternatives(words: tuple[str, ...]) -> str:
    return "|".join(sorted((word.lower().replace(" ", r"[\s_-]*+") for word in words), key=len, reverse=True))


_QUOTES = "\"'`\u201c\u201d\u2018\u2019"
_DECORATION = rf"[\s\d*_\\\])}}>{_QUOTES}]*+"
_NAMED = r"(?:[\[(][^\[\]()\n]{1,80}+[\])])?+"
_MARKED = rf"(?:{_build_alternatives(MARKERS)}){_DECORATION}{_NAMED}{_DECORATION}(:)"
_MARKER = re.compile(rf"(?<!\w)_*+{_MARKED}")
_MARKER_ANYWHERE = re.compile(_MARKED)
_SQUEEZED_KEYS = frozenset(key.replace("_", "") for key in KEYS)
_FIRST = "".join(sorted({key[0] for key in KEYS}))
_KEY = re.compile(rf"[{_QUOTES}]\s*+([{_FIRST}][\w\s-]*+)\\*+[{_QUOTES}]\s*+(:)")
_NO_LETTER = re.compile(r"[\s_-]++")
_TURN = re.compile(
    rf"^[ \t>*_#`|<(\[-]*+(?:{_build_alternatives(TURNS)})(?:[ \t]*+\d++)?+[ \t*_`|>)\]]*+(?:(:)|(?=\n|\Z))",
    re.MULTILINE,
)
_TOKEN = re.compile(
    rf"(<)(?=\||<?/?SYS>|/?(?:{'|'.join(TAGS)})(?:>|=|[ \t]++\w++=))|(?<=\|)(>)|(\[)(?=(?:{'|'.join(BRACKETED)})\])"
    r"|(\])(?=~!?b[\[\]]|<\])|(\[)(?=e~\[|>\[)",
    re.IGNORECASE,
)
_INSTEAD = {":": " -", "<": "(", ">": ")", "[": "(", "]": ")"}


def neutralize(text: str) -> str:
    """Return `text` without anything that reads as protocol or as a chat template's token."""
    edits: dict[int, tuple[int, str]] = {}  # by start position: the end, and the replacement
    for view in list_views(text):
        for at in _find_protocol(view):
            begin = view.places[at]
            if text[begin] == "\\":  # escapes stay readable but are not escapes any more
                end = view.places[at + 1]
                edits[begin] = end, text[begin:end].replace("\\", "/")
            else:
                edits[begin] = begin + 1, _INSTEAD[view.text[at]]
        if not view.level:  # the ends of lines that contain only a role's name
            for role in _TURN.finditer(view.text.lower()):
                if not role.lastindex:
                    edits[view.places[role.end()]] = view.places[role.end()], " -"
    pieces, done = [], 0
    for begin, (end, instead) in sorted(edits.items()):
        pieces += [text[done:begin], instead]
        done = end
    return "".join([*pieces, text[done:]])


def _find_protocol(view: View) -> Iterator[int]:
    """Yield the positions of punctuation that turns the text around it into protocol."""
    looks = view.text
    if not {"<", ">", "[", "]"}.isdisjoint(looks):
        for match in _TOKEN.finditer(looks):
            yield match.start(match.lastindex or 0)
    if ":" not in looks:  # most tool output is plain words
        return
    lower = looks.lower()
    yield from _find_markers(view, lower)
    for match in _KEY.finditer(lower):
        if _NO_LETTER.sub("", match[1]) in _SQUEEZED_KEYS:
            yield match.start(2)
    if not view.level:
        yield from (match.start(1) for match in _TURN.finditer(lower) if match.lastindex)


def _find_markers(view: View, lower: str) -> Iterator[int]:
    """Yield the positions of colons of markers. A zero-width character may end the word before one."""
    if view.whole:
        yield from (match.start(1) for match in _MARKER.finditer(lower))
        return
    at, places = 0, view.places
    while match := _MARKER_ANYWHERE.search(lower, at):
        begin = before = match.start()
        while before and lower[before - 1] == "_":
            before -= 1
        apart = before and places[begin] - places[before - 1] > begin - before + 1  # by a zero-width character
        found = not before or not lower[before - 1].isalnum() or apart
        if found:
            yield match.start(1)
        at = match.end() if found else begin + 1


# ── how a text looks ─────────────────────────────────────────────────────────────────────────────

LEVELS = 3  # nested escapes; parsers resolve two: in a JSON string, and in a key within it

_PLAIN = re.compile(r"[\t\n -~]*+")
_LINE_BREAKS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_COLONS = "\u02d0\u0589\u05c3\u0703\u0704\u0903\u0a83\u16ec\u1803\u205a\u2236\u2254\u2a74\ua789\ufe30"
_ALIKE = (  # each word: a letter, then its look-alikes in Cyrillic, Greek, Armenian, Cherokee, Coptic, Lisu
    "aаαɑᴀ bᏏʙЬ cсϲςᴄⲥ dԁᏧᴅ eеҽᴇ fꜰ gɡցɢ hһհᏂʜ iіιıɩɪ jјϳյᴊ kкκᴋ lӏʟ mмᴍ nпոռηɴ oоοօσᴏⲟ pрρϱᴘⲣ qԛզ rгʀᴦ "
    "sѕꜱ tтτᴛ uυսᴜ vѵνᴠ wԝաωᴡ xхχ yуγүʏ zᴢ AАΑᎪꓮ BВΒᏴꓐⲂ CСϹᏟꓚⲤ DᎠꓓԀ EЕΕᎬꓰ FϜꓝҒ GԌᏀꓖ HНΗᎻꓧⲎ IІΙӀꓲİⲒ JЈͿᎫꓙ "
    "KКΚᏦꓗⲔ LᏞꓡ MМΜᎷꓟⲘ NΝꓠⲚ OОΟՕꓳⲞ PРΡᏢꓑⲢ QԚ RᎡꓣ SЅՏᏚꓢ TТΤᎢꓔⲦ UՍꓴՄ VѴᏙꓦ WԜᎳꓪ XХΧꓫⲬ YУΥҮꓬⲨ ZΖᏃꓜ "
)
_LETTERS = {alike: word[0] for word in _ALIKE.split() for alike in word[1:]}


class View(NamedTuple):
    """The appearance of a text at one level of its escapes.

    `places` maps each character to its position in the source, and finally to the end of the source. `whole`: no
    zero-width characters were removed.
    """

    text: str
    places: Sequence[int]
    whole: bool
    level: int


def list_views(source: str) -> Iterator[View]:
    """Yield the appearances of `source`: unchanged, and with escapes resolved once, twice and three times."""
    text = source
    places: Sequence[int] = range(len(source) + 1)
    for level in range(LEVELS + 1):
        looks = text if _PLAIN.fullmatch(text) else text.translate(_FOLDED)
        whole = len(looks) == len(text)
        seen = [place for place, letter in zip(places, text, strict=False) if _FOLDED[ord(letter)] is not None]
        yield View(looks, places if whole else [*seen, places[-1]], whole, level)
        if "\\" not in text:
            return
        resolved, places = _resolve_escapes(text, places)
        if resolved == text:
            return
        text = resolved


def _resolve_escapes(text: str, places: Sequence[int]) -> tuple[str, Sequence[int]]:
    pieces: list[str] = []
    kept: list[int] = []
    end = 0
    for escape in ESCAPE.finditer(text):
        pieces += [text[end : escape.start()], stands_for := resolve_escape(escape)]
        kept += places[end : escape.start()]
        kept += places[escape.start() : escape.start() + len(stands_for)]
        end = escape.end()
    return "".join([*pieces, text[end:]]), [*kept, *places[end:]]


class _Folded(dict[int, int | None]):
    """Maps a character to its appearance: look-alike and wide letters to plain ones, line breaks to one kind,
    zero-width characters to nothing.

    Letters map only to letters, and other characters only to others; otherwise word boundaries would move.
    """

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        folded: int | None
        if character in _LINE_BREAKS:
            folded = 10
        elif unicodedata.category(character) in ("Cf", "Mn", "Me") or (character < " " and character not in "\t\n"):
            folded = None
        elif character in _COLONS:
            folded = ord(":")
        elif character == "\uff3f":  # a wide underscore is not a letter, a plain one counts as one
            folded = ord(" ")
        else:
            plain = _LETTERS.get(character) or unicodedata.normalize("NFKC", character)
            plain = _LETTERS.get(plain, plain)
            words = [one.isalnum() or one == "_" for one in (plain, character)]
            folded = ord(plain) if len(plain) == 1 and plain != "\\" and words[0] == words[1] else code
        self[code] = folded
        return folded


_FOLDED = _Folded()
