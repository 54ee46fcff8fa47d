"""`extract_text` in a subprocess, for data from the web.

A small page can keep a parser busy for minutes (nested tags, endless attributes, a PDF's streams) and would block
everything else. The subprocess has limits on time and memory, and an empty environment. It costs some 50 ms a page, and
pages are read concurrently.
"""

from __future__ import annotations

import json

from .._internal.processes import read_output
from ..errors import DataError, UsageError
from .text_extraction import Text

MAX_TEXT = 2_000_000  # characters
_PROGRAM = f"{__package__}.text_extraction"


async def extract_text_apart(data: bytes, media_type: str, charset: str = "", seconds: float = 10.0) -> Text:
    """Return `extract_text(data, media_type, charset)`, at most 2,000,000 characters.

    Of a PDF, it is what can be read in time. Raises `DataError` for data that cannot be read, at all or within
    `seconds`, and `UsageError` as `extract_text` does.
    """
    arguments = (media_type[:100], charset[:100], str(0.7 * seconds), str(MAX_TEXT))
    try:
        said = await read_output(_PROGRAM, arguments, data, seconds)
    except TimeoutError:
        raise DataError(f"its text could not be read within {seconds:g} seconds") from None
    return _read_answer(said)


def _read_answer(said: bytes) -> Text:
    try:
        answer = json.loads(said)
    except ValueError:
        raise DataError("its text could not be read: that exceeded the memory limit") from None
    for kind in (DataError, UsageError):
        if kind.__name__ in answer:
            raise kind(answer[kind.__name__])
    return Text(answer["text"], answer["title"], tuple(answer["links"]))
