"""The SDK's own generated tests, each once: by the blocking client that validates. `make conformance` runs them all."""

from __future__ import annotations

from conformance import suite


def test_the_sdks_own_tests_pass() -> None:
    outcome = suite.run(suite.FILES, "-k", "strict and not Async")
    assert (outcome.total("failed"), outcome.total("skipped")) == (0, 0), outcome.said
    assert all(outcome.counts.values()), outcome.table()
