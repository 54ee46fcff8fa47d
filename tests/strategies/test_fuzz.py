"""A small run of `bench/fuzz.py`, without the clock."""

from __future__ import annotations

from bench.fuzz import fuzz


def test_generated_and_mutated_replies_are_read_or_unreadable_and_nothing_quoted_is_protocol() -> None:
    tally = fuzz(5_000, seed=2026)
    assert tally.texts == 5_000
    assert tally.decided > 1_000
    assert tally.forged > 1_500
