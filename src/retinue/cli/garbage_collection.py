"""How seldom a process that drives runs collects garbage."""

from __future__ import annotations

import gc

_AFTER = 10_000  # new objects: runs under way have thousands that live on, and few are cycles


def collect_seldom() -> None:
    """Collect garbage seldom from now on, and never look at the objects that there are."""
    gc.freeze()
    gc.set_threshold(_AFTER)
    gc.enable()
