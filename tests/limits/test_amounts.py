"""Limits of quotas, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from retinue.errors import UsageError
from retinue.limits.amounts import parse_limit, parse_limits, shown_limit
from retinue.limits.quotas import KINDS, Limit, What, period_end
from retinue.store.usage_sums import DAY, NANOS, day_of, month_begin

WHATS = st.sampled_from(KINDS)


@given(WHATS, st.text(max_size=30))
def test_any_text_is_a_limit_or_a_usage_error_that_names_the_option(what: What, text: str) -> None:
    said, most = "", None
    try:
        most = parse_limit(what, text).most
    except UsageError as error:
        said = str(error)
    assert said.startswith(f"--{what}: ") if said else most is None or 0 <= most < 2**62


@given(st.integers(0, 10**18), st.sampled_from(["day", "month"]))
def test_a_shown_limit_is_read_as_the_same(number: int, period: str) -> None:
    limit = parse_limit("tokens", f"{number}/{period}")
    assert limit == Limit("tokens", period, number)  # type: ignore[arg-type]
    assert parse_limit("tokens", shown_limit(limit).replace(",", "")) == limit


@pytest.mark.parametrize(
    ("what", "text", "most"),
    [
        ("runs", "1000/day", 1000),
        ("runs", "0/day", 0),
        ("tokens", "5e6/month", 5_000_000),
        ("tokens", "1.5e3/MONTH", 1500),
        ("cost", "50/month", 50 * NANOS),
        ("cost", "0.000000001/day", 1),
        ("bytes", "10GB", 10**10),
        ("bytes", "1.5 KiB", 1536),
        ("bytes", "7", 7),
        ("bytes", "none", None),
    ],
)
def test_amounts(what: What, text: str, most: int | None) -> None:
    assert parse_limit(what, text).most == most


@pytest.mark.parametrize(
    ("what", "text"),
    [
        *[("runs", one) for one in ("1000", "1.5/day", "-1/day", "1/week", "1/day/month", "٣/day", "1e30/day", "")],
        *[("cost", one) for one in ("$5/day", "nan/day", "0.0000000001/day", "1,000/day")],
        *[("bytes", one) for one in ("10GB/day", "10XB", "1.5B", "1e19")],
    ],
)
def test_what_is_no_amount_is_refused(what: What, text: str) -> None:
    with pytest.raises(UsageError, match=f"--{what}: "):
        parse_limit(what, text)


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="two limits for each day"):
        parse_limits("runs", ["1/day", "2/day"])
    with pytest.raises(UsageError, match="none excludes other limits"):
        parse_limits("runs", ["1/day", "none"])
    assert len(parse_limits("runs", ["1/day", "2/month"])) == 2


@given(st.integers(0, 4_000_000_000))
def test_a_time_is_in_the_day_and_the_month_that_it_is_in(now: int) -> None:
    for period, begin_of, longest in (("day", day_of, 1), ("month", month_begin, 31)):
        begin, end = begin_of(now) * DAY, period_end(period, now)  # type: ignore[arg-type]
        assert end is not None
        assert begin <= now < end
        assert end - begin <= longest * DAY
        assert begin_of(end) == day_of(end)
