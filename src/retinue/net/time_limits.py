"""Time limits of a server's responses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds to connect, between two pieces of a reply (or before the first), and in total."""

    connect: float = 10.0
    idle: float = 120.0
    total: float = 600.0
