"""A small run of `bench/fuzz.py`, without the clock."""

from __future__ import annotations

import pytest
from bench.fuzz import fuzz


@pytest.mark.full
def test_generated_and_mutated_replies_are_read_or_unreadable_and_nothing_quoted_is_protocol(full: bool) -> None:
    texts = 5_000 if full else 1_500
    tally = fuzz(texts, seed=2026)
    assert tally.texts == texts
    assert tally.decided > texts // 5
    assert tally.forged > texts * 3 // 10
