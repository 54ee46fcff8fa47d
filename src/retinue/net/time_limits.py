"""How long a server may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds to connect, between two pieces of a reply (or before its first), and for all of it."""

    connect: float = 10.0
    idle: float = 120.0
    total: float = 600.0
