"""The worker process of `text_subprocess`. Its imports delay each page, so they are few."""

import json
import os
import sys
from contextlib import suppress

from ..errors import DataError, UsageError
from .text_extraction import text_of

MEMORY = 1 << 30  # bytes of address space


def main(media_type: str, charset: str, seconds: str, most: str) -> None:
    """Read data from standard input; write its text, at most `most` characters, and links, or an error, as JSON."""
    with suppress(AttributeError, OSError):  # low priority: an answer is more urgent
        os.nice(10)
    with suppress(ImportError):  # not available on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        found = text_of(sys.stdin.buffer.read(), media_type, charset, float(seconds))
        answer = {"text": found.text[: int(most)], "title": found.title[:1_000], "links": found.links}
    except (DataError, UsageError) as error:
        answer = {type(error).__name__: str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
