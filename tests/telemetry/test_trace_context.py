"""The header `traceparent`, by W3C Trace Context, level 1: what is valid is kept, and all else is as if it were not
sent."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from retinue.core.run_context import TraceParent, read_stored_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"
VALID = {
    GOOD: True,
    f"00-{TRACE}-{SPAN}-00": False,
    f"00-{TRACE}-{SPAN}-03": True,  # flags that are not known
    f"00-{TRACE}-{SPAN}-ff": True,
    f"01-{TRACE}-{SPAN}-01": True,  # a later version
    f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like": True,
    f" {GOOD}\t": True,
}
MALFORMED = [
    "",
    "00",
    "garbage",
    TRACE,
    f"00-{TRACE}-{SPAN}",
    f"00-{TRACE}-{SPAN}-",
    f"00-{TRACE}-{SPAN}-1",
    f"00-{TRACE}-{SPAN}-001",
    f"00-{TRACE}-{SPAN}-0x",
    f"00-{TRACE}-{SPAN}-01-extra",  # version 00 has nothing more
    f"00-{TRACE}-{SPAN}-01-",
    f"cc-{TRACE}-{SPAN}-01.more",
    f"ff-{TRACE}-{SPAN}-01",
    f"0-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE.upper()}-{SPAN}-01",
    f"00-{TRACE}-{SPAN.upper()}-01",
    f"00-{TRACE[1:]}-{SPAN}-01",
    f"00-{TRACE}0-{SPAN}-01",
    f"00-{TRACE}-{SPAN[1:]}-01",
    f"00_{TRACE}_{SPAN}_01",
    f"00-{TRACE[:-1]}é-{SPAN}-01",
    f"00-{TRACE[:-1]}٣-{SPAN}-01",  # a digit, but none of ASCII
    f"{GOOD}\n",
    f"{GOOD},{GOOD}",
    "x" * 100_000,
]


@pytest.mark.parametrize(("text", "sampled"), VALID.items())
def test_what_is_valid(text: str, sampled: bool) -> None:
    parent = TraceParent.parse([text])
    assert parent is not None
    assert (parent.trace_id.hex(), parent.span_id.hex(), parent.sampled) == (TRACE, SPAN, sampled)
    assert TraceParent.parse([str(parent)]) == parent


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_malformed(text: str) -> None:
    assert TraceParent.parse([text]) is None
    assert read_stored_parent({"traceparent": text}) is None


def test_a_header_that_is_missing_or_sent_twice() -> None:
    assert TraceParent.parse([]) is None
    assert TraceParent.parse([GOOD, GOOD]) is None


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["a=b"], "a=b"),
        (["a=b", "c=d"], "a=b,c=d"),
        (["x" * 513], ""),
        (["a=ü"], ""),
        (["a=b\r\nX-Evil: 1"], ""),
        ([], ""),
    ],
)
def test_what_other_vendors_add_is_passed_on(sent: list[str], kept: str) -> None:
    parent = TraceParent.parse([GOOD], sent)
    assert parent is not None
    assert parent.state == kept
    assert read_stored_parent(parent.headers()) == parent


@given(st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[a-z]*)?", fullmatch=True))
def test_whatever_is_sent_no_error_follows(text: str) -> None:
    parent = TraceParent.parse([text])
    assert parent is None or TraceParent.parse([str(parent)]) == parent


@pytest.mark.parametrize("stored", [None, 1, ["a"], {"a": 1}, True])
def test_a_row_that_holds_something_else(stored: object) -> None:
    assert read_stored_parent({"traceparent": stored, "tracestate": stored}) is None
