"""The two splits. Neither a seed nor a name is in both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

Split = Literal["dev", "test"]

SEEDS: Mapping[Split, tuple[int, ...]] = {"dev": (2000, 2002, 2004, 2006, 2008), "test": (7001, 7003, 7005, 7007, 7009)}
WORLDS = 5  # successive worlds of a split whose names differ by construction


def split_of_seed(seed: int) -> Split:
    """Return the split that may use the seed: even ones are dev's, odd ones test's."""
    return "test" if seed % 2 else "dev"


def split_of_name(name: str) -> Split:
    """Return the split that may use the name, which a hash of the name decides."""
    return "test" if _digest(name) % 2 else "dev"


def may_use(seed: int, name: str) -> bool:
    """Return whether the world of `seed` may use the name; five successive seeds of a split share none."""
    return split_of_name(name) == split_of_seed(seed) and _digest(name) // 2 % WORLDS == seed // 2 % WORLDS


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.lower().encode()).digest()[:8], "big")
