"""Converts the citation marks in a model's text to OpenAI annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ...runs.citations import MARK, Source
from ..http.objects import Object

_MARKED = re.compile(rf" ?({MARK.pattern})")
_BEGUN = re.compile(r" ?(?:【[^【】]{0,90})?\Z")  # a possible start of a mark, with the space before it


class AnnotatedText(NamedTuple):
    """Text without its marks, and the annotations in their places."""

    text: str
    annotations: list[Object]


def annotate(text: str, sources: Mapping[str, Source], *, whole: bool) -> AnnotatedText:
    """Convert the marks of `sources` in `text` to annotations; marks that the model made up stay. Unless the text is
    `whole`, a possible start of a mark at its end is held back, so that the visible part of a growing text only ever
    grows."""
    if not sources:
        return AnnotatedText(text, [])
    told, begin, annotations = "", 0, list[Object]()
    for found in _MARKED.finditer(text):
        source = sources.get(found[1])
        if source is not None:
            told, begin = told + text[begin : found.start()], found.end()
            about = {"file_id": source.file_id, "filename": source.file_name}
            annotations.append({"type": "file_citation", "index": len(told), **about})
    rest = text[begin:]
    return AnnotatedText(told + (rest if whole else _BEGUN.sub("", rest, count=1)), annotations)
