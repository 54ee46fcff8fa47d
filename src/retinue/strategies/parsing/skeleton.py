"""Reduces a text to its appearance, also with escapes resolved: a *skeleton* (Unicode's UTS #39).

Quoting searches all `views` of a text for protocol. They cover more than any parser: parsers resolve JSON escapes at
most twice and fold no characters. So whatever a parser could take for protocol appears in one of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
LEVELS = 3  # nested escapes; parsers resolve two: in a JSON string, and in a key within it

_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
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


def views(source: str) -> Iterator[View]:
    """Yield the appearances of `source`: unchanged, and with escapes resolved once, twice and three times."""
    text = source
    places: Sequence[int] = range(len(source) + 1)
    for level in range(LEVELS + 1):
        yield _looks(text, places, level)
        if "\\" not in text:
            return
        resolved, places = _resolved(text, places)
        if resolved == text:
            return
        text = resolved


def character(escape: re.Match[str]) -> str:
    """Resolve an `ESCAPE`. One unknown to JSON stays unchanged."""
    code, letter = escape.groups()
    if code:
        return chr(int(code, 16))
    return _SIMPLE.get(letter) or (letter if letter in "\"'\\/" else escape.group())


def _resolved(text: str, places: Sequence[int]) -> tuple[str, Sequence[int]]:
    pieces: list[str] = []
    kept: list[int] = []
    end = 0
    for escape in ESCAPE.finditer(text):
        pieces += [text[end : escape.start()], stands_for := character(escape)]
        kept += places[end : escape.start()]
        kept += places[escape.start() : escape.start() + len(stands_for)]
        end = escape.end()
    pieces.append(text[end:])
    kept += places[end:]
    return "".join(pieces), kept


def _looks(text: str, places: Sequence[int], level: int) -> View:
    if _PLAIN.fullmatch(text):
        return View(text, places, True, level)
    looks = text.translate(_FOLDED)
    if len(looks) == len(text):
        return View(looks, places, True, level)
    seen = [places[at] for at, letter in enumerate(text) if _FOLDED[ord(letter)] is not None]
    return View(looks, [*seen, places[len(text)]], False, level)


class _Folded(dict[int, int | None]):
    """Maps a character to its appearance: look-alike and wide letters to plain ones, line breaks to one kind,
    zero-width characters to nothing.

    Letters map only to letters, and other characters only to others; otherwise word boundaries would move.
    """

    def __missing__(self, code: int) -> int | None:
        self[code] = folded = _folded(chr(code))
        return folded


def _folded(character: str) -> int | None:
    if character in _LINE_BREAKS:
        return 10
    if unicodedata.category(character) in ("Cf", "Mn", "Me") or (character < " " and character not in "\t\n"):
        return None
    if character in _COLONS:
        return ord(":")
    if character == "\uff3f":  # a wide underscore is not a letter, a plain one counts as one
        return ord(" ")
    plain = _LETTERS.get(character) or unicodedata.normalize("NFKC", character)
    plain = _LETTERS.get(plain, plain)
    same = len(plain) == 1 and plain != "\\" and _in_word(plain) == _in_word(character)
    return ord(plain if same else character)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_FOLDED = _Folded()
