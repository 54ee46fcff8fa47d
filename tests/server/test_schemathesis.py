"""A few hundred of the requests that `make schemathesis` makes."""

from __future__ import annotations

import pytest


@pytest.mark.full
def test_every_operation_answers_as_it_is_documented() -> None:
    from fuzzing import running

    outcome = running.run(5, coverage=False)
    assert outcome.failed.total() == 0, "\n".join(outcome.said)
    assert outcome.cases.total() > 250
    assert outcome.good.total() > outcome.cases.total() // 3  # they are not all about what is not there
