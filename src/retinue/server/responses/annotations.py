"""What a message says, and what it cites. A model cites by marks; readers are told of citations as annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ...runs.citations import MARK, Source
from ..wire.objects import Object

_MARKED = re.compile(rf" ?({MARK.pattern})")
_BEGUN = re.compile(r" ?(?:【[^【】]{0,90})?\Z")  # what may turn out to be a mark, with the blank before it


class AnnotatedText(NamedTuple):
    """A text without its marks, and OpenAI's annotations in their places."""

    text: str
    annotations: list[Object]


def annotate(text: str, sources: Mapping[str, Source], *, whole: bool) -> AnnotatedText:
    """`text` with the marks of `sources` as annotations; other marks the model has made up, and they stay. As long as
    it is not `whole`, its end is left out where that may be the beginning of a mark: so what is told of a text that
    grows only grows, too."""
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
