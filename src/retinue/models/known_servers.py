"""What is known of each model at each server, by key, so that it need not be found out again.

All engines of a process share what they learn. From one process to the next two things are kept, for a day: that native
tool calls work, and what the server refuses. Of a server on this machine nothing is kept, as another model may have its
address a minute later; it is asked again by each process.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .._internal.cache import state_folder
from .settings import Api

SWITCH = "RETINUE_KNOWN_SERVERS"  # in the environment: `off` keeps nothing, `on` keeps it of all servers
_SECONDS = 86_400.0
_MOST = 200  # models


Identity = tuple[str, ...]  # the server's address, a digest of the key, the path, the model
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Adapted:
    """What a server was found to reject.

    Requests are sent `without` these parameters, for at most `most` tokens, with these tools described `in_words`, and
    to this `api` if the server refused the other.
    Of the fields of an assistant's turn, the server rejects those in `turns_without`, and misses those in
    `turns_want`.
    """

    without: frozenset[str] = frozenset()
    most: int | None = None
    in_words: frozenset[str] = frozenset()
    turns_without: frozenset[str] = frozenset()
    turns_want: frozenset[str] = frozenset()
    api: Api | None = None

    def __or__(self, other: Adapted) -> Adapted:
        most = [one.most for one in (self, other) if one.most is not None]
        sets = ("without", "in_words", "turns_without", "turns_want")
        merged = {name: getattr(self, name) | getattr(other, name) for name in sets}
        return Adapted(most=min(most, default=None), api=other.api or self.api, **merged)


_NOTHING = Adapted()
LEARNED: dict[Identity, Adapted] = {}


def adapted_to(identity: Identity) -> Adapted:
    """Return what this process has learned of the model."""
    return LEARNED.get(identity, _NOTHING)


def learn(identity: Identity, found: Adapted) -> None:
    """Add what was found out about the model."""
    with _lock:  # engines run in event loops of several threads
        LEARNED[identity] = adapted_to(identity) | found


def recall(identity: Identity) -> bool:
    """Learn what earlier processes knew of the model, and return whether its tool calls are known to work."""
    values = _read().get(_digest(identity), {}) if _is_kept(identity[0]) else {}
    most, api = values.get("most"), values.get("api")
    named = {name: values.get(name) for name in ("without", "turns_without", "turns_want")}
    sets = {
        name: frozenset(one for one in found if isinstance(one, str))
        for name, found in named.items()
        if isinstance(found, list)
    }
    most = most if isinstance(most, int) and most > 0 else None
    learn(identity, Adapted(most=most, api=api if api in ("chat", "responses") else None, **sets))
    return values.get("calls_tools") is True


def remember(identity: Identity, *, calls_tools: bool) -> None:
    """Keep what is known of the model for later processes, if possible."""
    if not _is_kept(identity[0]):
        return
    known = asdict(adapted_to(identity))
    del known["in_words"]  # which are of an agent's tools
    values = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in known.items()}
    kept = _read() | {_digest(identity): {"calls_tools": calls_tools, **values, "at": time.time()}}
    latest = sorted(kept.items(), key=lambda item: item[1]["at"])[-_MOST:]
    path = _path()
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            json.dump(dict(latest), file)
        partial.replace(path)


def _path() -> Path:
    return state_folder() / "servers.json"


def _read() -> dict[str, dict[str, Any]]:
    """Return what is kept and not too old. A damaged file counts as none."""
    try:
        kept = json.loads(_path().read_bytes())
        since = time.time() - _SECONDS
        return {key: values for key, values in kept.items() if values["at"] > since}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _digest(identity: Identity) -> str:
    return hashlib.sha256(json.dumps(list(identity)).encode()).hexdigest()[:32]


def _is_kept(address: str) -> bool:
    said = os.environ.get(SWITCH, "").strip().lower()
    if said in ("on", "off"):
        return said == "on"
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:  # no address
        return False
    with suppress(ValueError):
        return not ip_address(host).is_loopback
    return host != "localhost" and not host.endswith(".localhost")
