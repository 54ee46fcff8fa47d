"""The rules of a robots.txt, as RFC 9309 has them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from retinue.net.robots import FORBIDDEN, Robots


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("", "/a", True),
        ("Disallow:", "/a", True),
        ("Disallow: /", "/a", False),
        ("Disallow: /a", "/ab", False),
        ("Disallow: /a/", "/a", True),
        ("Disallow: /a\nAllow: /a/b", "/a/bc", True),
        ("Allow: /a/b\nDisallow: /a", "/a/bc", True),  # the longest, wherever it stands
        ("Allow: /a\nDisallow: /a", "/a", True),  # Allow, where both are as long
        ("Disallow: /*.pdf", "/x/y.pdf?z", False),
        ("Disallow: /*.pdf$", "/x/y.pdf?z", True),
        ("Disallow: /*.pdf$", "/x.pdf/y.pdf", False),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /a*b*c", "/a1c2b3", True),
        ("Disallow: /a*b*c", "/a1b2c3", False),
        ("Disallow: /*ab*ba$", "/aba", True),  # the pieces do not overlap
        ("Disallow: *", "/", False),
        ("Disallow: /%7ejoe", "/%7Ejoe", False),
        ("Disallow: /ü", "/%C3%BC", False),
        ("Disallow: /a # a comment", "/a", False),
        ("disallow : /a", "/a", False),
        ("Nonsense\n\x00\nDisallow: /a", "/a", False),
    ],
)
def test_the_longest_fitting_rule_decides(rules: str, path: str, allowed: bool) -> None:
    assert Robots.read(f"User-agent: *\n{rules}\n").is_allowed(path) is allowed


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("User-agent: *\nDisallow: /\n\nUser-agent: Retinue\nDisallow: /b", True),
        ("User-agent: retinue/2.0\nDisallow: /a\n\nUser-agent: *\nAllow: /", False),
        ("User-agent: other\nUser-agent: RETINUE\nDisallow: /a", False),
        ("User-agent: other\nDisallow: /a", True),
        ("User-agent: retinue\nDisallow: /b\nUser-agent: x\nDisallow: /\nUser-agent: retinue\nDisallow: /a", False),
        ("User-agent: retinues\nDisallow: /", True),
        ("User-agent: retinue\nSitemap: http://x/\nDisallow: /a", False),
        ("\ufeffUser-agent: retinue\r\nDisallow: /a\r\n", False),
        ("Disallow: /a", True),  # of nobody
    ],
)
def test_a_group_of_ones_own_counts_instead_of_everybodys(text: str, allowed: bool) -> None:
    assert Robots.read(text).is_allowed("/a") is allowed


def test_nothing_is_allowed_where_the_rules_cannot_be_had() -> None:
    assert not FORBIDDEN.is_allowed("/")


@given(st.text(alphabet="User-agent:*\n /ab$%41Disallow#", max_size=200), st.text(max_size=50))
def test_any_file_can_be_read(text: str, path: str) -> None:
    assert Robots.read(text).is_allowed(f"/{path}") in (True, False)
