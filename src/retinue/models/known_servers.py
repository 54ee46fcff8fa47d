"""What is known of models at other machines from one process to the next, so that it need not be found out again.

Little is kept, for a day: that native tool calls work, and what the server refuses. Of a server on this
machine nothing is kept, as another model may have its address a minute later; it is asked again by each process.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Whether its tool calls work; the parameters that requests go `without`; the `most` tokens of a reply; its `api`,
    if it refused another."""

    calls_tools: bool = False
    without: tuple[str, ...] = ()
    most: int | None = None
    api: Api | None = None


def recall(identity: Sequence[str]) -> KnownModel:
    """Return what is known of the model; `identity` begins with its address."""
    if not _is_kept(identity[0]):
        return KnownModel()
    values = _read().get(_digest(identity), {})
    without, most, api = values.get("without"), values.get("most"), values.get("api")
    return KnownModel(
        values.get("calls_tools") is True,
        tuple(name for name in without if isinstance(name, str)) if isinstance(without, list) else (),
        most if isinstance(most, int) and most > 0 else None,
        api if api in ("chat", "responses") else None,
    )


def remember(identity: Sequence[str], known: KnownModel) -> None:
    """Keep what is known of the model, if possible."""
    if not _is_kept(identity[0]):
        return
    kept = _read() | {_digest(identity): {**asdict(known), "at": time.time()}}
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


def _digest(identity: Sequence[str]) -> str:
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
