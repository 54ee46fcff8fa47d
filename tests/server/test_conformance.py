"""The SDK's own generated tests of each method, by the blocking client that validates; `make conformance` has all."""

from __future__ import annotations

import pytest

from conformance import suite


@pytest.mark.full
def test_the_sdks_own_tests_pass() -> None:
    once = "strict and not Async and not raw and not streaming and not path_params"
    outcome = suite.run(suite.FILES, "-k", f"({once}) or live_sync")
    assert (outcome.total("failed"), outcome.total("skipped")) == (0, 0), outcome.said
    assert all(outcome.counts.values()), outcome.table()
