"""The SDK's own generated tests of each method, by the blocking client that validates; `make conformance` has all."""

from __future__ import annotations

from conformance import suite


def test_the_sdks_own_tests_pass() -> None:
    outcome = suite.run(suite.FILES, "-k", "strict and not Async and not raw and not streaming and not path_params")
    assert (outcome.total("failed"), outcome.total("skipped")) == (0, 0), outcome.said
    assert all(outcome.counts.values()), outcome.table()
