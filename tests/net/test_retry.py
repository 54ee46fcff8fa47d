"""When something is tried again, and what a `Retry-After` header asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, strategies as st

from retinue import ModelUnavailable
from retinue.net.retry import Attempts, Retries, parse_retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (" 7 ", 7.0),
        ("1000000000", 1e9),
        ("5s", 5.0),
        ("250ms", 0.25),
        ("2 minutes", 120.0),
    ],
)
def test_a_number_is_seconds(header: str, seconds: float) -> None:
    assert parse_retry_after(header) == seconds


def test_a_date_is_the_seconds_until_then() -> None:
    seconds = parse_retry_after(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    assert seconds is not None
    assert 3000 < seconds <= 3600


def test_a_date_that_is_past_is_now() -> None:
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00") == 0


@pytest.mark.parametrize("header", [None, "", "soon", "-1", "inf", "-inf", "nan", "1e999", "Wed, 99 Foo"])
def test_what_cannot_be_read_asks_for_nothing(header: str | None) -> None:
    assert parse_retry_after(header) is None


@given(st.one_of(st.text(), st.text("0123456789:-+, OctGMTed")))
def test_no_header_is_too_odd_to_be_read(header: str) -> None:
    seconds = parse_retry_after(header)
    assert seconds is None or seconds >= 0


def test_waits_double_up_to_the_longest_and_the_tries_end() -> None:
    attempts = Attempts(Retries(tries=5, first_wait=1.0, longest_wait=3.0))
    waits = [attempts.count_failure() for _ in range(5)]
    for wait, most in zip(waits, (1.0, 2.0, 3.0, 3.0), strict=False):
        assert wait is not None
        assert most / 2 <= wait <= most
    assert waits[4] is None


def test_what_the_server_asks_for_is_waited_for_if_there_is_time() -> None:
    assert Attempts(Retries(longest_wait=60.0)).count_failure(45.0) == 45.0
    assert Attempts(Retries(longest_wait=60.0)).count_failure(61.0) is None
    assert Attempts(Retries(longest_wait=60.0), seconds=10.0).count_failure(11.0) is None
    assert Attempts(Retries(), seconds=0.0).count_failure() is None


def test_an_error_that_asks_for_too_long_a_wait_says_so() -> None:
    asked = ModelUnavailable("busy", 90.0)
    asked.code = "rate_limit_exceeded"
    with pytest.raises(
        ModelUnavailable, match=r"busy \(it asks to wait 90 s, longer than the 60 s allowed\)"
    ) as raised:
        Attempts(Retries()).plan_retry(asked)
    assert (raised.value.code, raised.value.retry_after) == ("rate_limit_exceeded", 90.0)
    with pytest.raises(ModelUnavailable, match=r"^busy$"):
        Attempts(Retries(tries=1)).plan_retry(asked)
