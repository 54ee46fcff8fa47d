"""Freezes this process as SIGSTOP does, right after a statement: the one that the file `CHAOS_FREEZE` names.

Each statement that the process executes is noted beside it, so that a program can choose among them.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

_AT = Path(os.environ["CHAOS_FREEZE"])
_VALUES = re.compile(r"IN \([^()]*\)|VALUES \(.*\)", re.DOTALL)
_seen: set[str] = set()
_turn = threading.Lock()


@event.listens_for(Engine, "after_cursor_execute")
def _executed(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    shape = _VALUES.sub("…", " ".join(statement.split()))
    held = connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT"
    name = f"{hashlib.sha256(shape.encode()).hexdigest()[:8]}{' in a transaction' if held else ''}"
    with _turn:
        new = name not in _seen
        _seen.add(name)
        if new:
            with _AT.with_suffix(".seen").open("a") as file:
                file.write(f"{name}\t{shape[:200]}\n")
        with suppress(FileNotFoundError):
            if _AT.read_text() == name:
                _AT.unlink()
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread, before it does anything else
