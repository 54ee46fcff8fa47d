"""Splits long texts into documents of about a paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..core.values import Document

_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


def split_document(documents: Iterable[Document], size: int = 1_000) -> list[Document]:
    """Split `documents` into pieces of at most `size` characters: at paragraphs if possible, otherwise at sentences,
    and otherwise anywhere. Each piece has its document's `meta` and its index from 0 in `part`."""
    return [
        replace(document, id=f"{document.id}#{part}" if document.id else "", content=piece,
                meta={**document.meta, "part": part})
        for document in documents
        for part, piece in enumerate(_pack_pieces(_split_pieces(document.content, size), size))
    ]  # fmt: skip


def cut_windows(text: str, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of overlapping pieces that cover `text`, each of at most `size` characters.

    About `overlap` characters (at most half of `size`) repeat the end of the previous piece. Cuts are between
    paragraphs or words if possible.
    """
    start = 0
    while (end := start + size) < len(text):
        for gap in ("\n\n", "\n", " "):
            at = text.rfind(gap, start + 3 * size // 4, end)
            if at >= 0:
                end = at + len(gap)
                break
        yield start, end
        start = max(end - overlap, start + 1)
        near = range(start, min(start + 40, end))  # the beginning of the next word, if it is near
        start = next((at for at in near if text[at - 1].isspace()), start)
    yield start, len(text)


def _pack_pieces(pieces: Iterable[tuple[str, str]], size: int) -> Iterator[str]:
    """Merge neighboring pieces up to `size`; each comes with its preceding separator."""
    whole = ""
    for gap, piece in pieces:
        if whole and len(whole) + len(gap) + len(piece) > size:
            yield whole
            whole = piece
        else:
            whole = f"{whole}{gap}{piece}" if whole else piece
    if whole:
        yield whole


def _split_pieces(text: str, size: int) -> Iterator[tuple[str, str]]:
    for paragraph in filter(None, map(str.strip, _PARAGRAPH.split(text))):
        gap = "\n\n"
        for sentence in [paragraph] if len(paragraph) <= size else _SENTENCE_END.split(paragraph):
            for start in range(0, len(sentence), size):
                yield "" if start else gap, sentence[start : start + size]
            gap = " "
