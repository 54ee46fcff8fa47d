"""Scores how much a page or document talks to the model that reads it: a heuristic, which a careful author gets past.

Phrases are looked for in the appearances of the text (`injection_guard.list_views`), so look-alikes, zero-width
characters and escapes hide none. The score of a passage is the sum of the weights of the different kinds of phrases in
it; an order to forget one's instructions is enough alone, and so are two lesser signs near each other. A text that asks
for something in plain words, as any e-mail may, is not found: only what the agent may do limits that."""

from __future__ import annotations

import re
from base64 import b32decode, b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import NamedTuple

from ..core.schema.json_schema import compile_pattern
from ..strategies.prompting.injection_guard import list_views
from .personal_data import make_readable

ENOUGH = 3
"""The score from which a passage counts as an injection."""
_NEAR = 500  # characters in which phrases belong to one passage
_SHORTEST = 24  # characters of base64 that is read, too
_PHRASES = [
    (kind, int(weight), f"(?i){pattern}")
    for kind, weight, pattern in (
        line.split(" ", 2)
        for line in files(__package__).joinpath("injection_phrases.txt").read_text(encoding="utf-8").splitlines()
    )
]
"""Kinds of phrases, their weights, and patterns."""
_TOKEN = re.compile(rf"[A-Za-z0-9+/]{{{_SHORTEST},}}={{0,6}}")
_SPACED = re.compile(r"\b(?:\w[ .*-]{1,3}){6,}\w\b")
_TAGS = re.compile("[\U000e0020-\U000e007e]{8,}")  # invisible, but tokenizers read them
_END = re.compile(r"[.!?]\s|\n")


class Passage(NamedTuple):
    """A passage that talks to the model: from `begin` up to `end`, its score, and the kinds of phrases in it."""

    begin: int
    end: int
    score: int
    signs: tuple[str, ...]


def find_injections(text: str) -> list[Passage]:
    """Return the passages of `text` that score `ENOUGH`, in order and apart from each other."""
    return [one for one in _join(sorted(set(_find_phrases(text)))) if one.score >= ENOUGH]


def _find_phrases(text: str, *, decode: bool = True) -> Iterator[tuple[int, int, str, int]]:
    """Yield the phrases: begin, end, kind and weight."""
    for view in list_views(text):
        looks = make_readable(view.text)
        for kind, weight, pattern in _PHRASES:
            for match in compile_pattern(pattern).finditer(looks):
                yield view.places[match.start()], view.places[match.end()], kind, weight
        if view.level:
            continue
        for spaced in _SPACED.finditer(looks):
            plain = re.sub(r"[ .*-]", "", spaced[0])
            if re.search("ignore|disregard|instruction|override|system", plain, re.I):
                yield view.places[spaced.start()], view.places[spaced.end()], "forget", 3
    for match in _TAGS.finditer(text):
        yield match.start(), match.end(), "invisible", 3
    for token in _TOKEN.finditer(text) if decode else ():
        if any(
            one.score >= ENOUGH
            for said in _decode(token[0])
            for one in _join(sorted(_find_phrases(said, decode=False)))
        ):
            yield token.start(), token.end(), "encoded", 3


def _decode(token: str) -> Iterator[str]:
    """Yield the texts that a token may be in base64, base32 or hexadecimal digits."""
    plain = token.rstrip("=")
    for decode, padding in ((b64decode, -len(plain) % 4), (b32decode, -len(plain) % 8), (bytes.fromhex, 0)):
        with suppress(ValueError):
            yield decode(plain + "=" * padding).decode("utf-8")


def _join(phrases: Sequence[tuple[int, int, str, int]]) -> Iterator[Passage]:
    """Yield passages: phrases that are near each other."""
    at = 0
    while at < len(phrases):
        begin, end, signs = phrases[at][0], phrases[at][1], dict[str, int]()
        while at < len(phrases) and phrases[at][0] < end + _NEAR and phrases[at][0] < begin + 4 * _NEAR:
            end = max(end, phrases[at][1])
            signs[phrases[at][2]] = max(signs.get(phrases[at][2], 0), phrases[at][3])
            at += 1
        yield Passage(begin, end, sum(signs.values()), tuple(signs))


def cut_passages(text: str, passages: Sequence[Passage], instead: str) -> str:
    """Return `text` with `instead` in place of the passages, each up to the ends of its sentences."""
    pieces, done = [], 0
    for one in passages:
        before = [match.end() for match in _END.finditer(text, done, one.begin)]
        after = _END.search(text, one.end)
        pieces += [text[done : before[-1] if before else done], instead]
        done = max(done, after.start() + 1 if after else len(text))
    return "".join([*pieces, text[done:]])
