"""What the server says of itself: a line of JSON on standard error for each warning and error."""

from __future__ import annotations

import json
import logging
import time

from ..hiding import hidden

_MOST = 2_000  # characters of a message
_MOST_OF_TRACES = 20_000


class _Lines(logging.Formatter):
    """One line each, whatever a message holds: JSON has no line ends and no control characters."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": hidden(record.getMessage())[:_MOST],
        }
        if record.exc_info:
            said["error"] = hidden(self.formatException(record.exc_info))[-_MOST_OF_TRACES:]
        return json.dumps(said)


def set_up() -> None:
    """Log so, from now on, in this process."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what failed was said with the request's id
