"""What a `Retry-After` header asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, strategies as st

from retinue.net.retry import parse_retry_after


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
