"""docs/threats.md: every row of the threat model is there, and the tests it names are."""

from __future__ import annotations

import re

from docs.test_docs import ROOT

PAGE = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")


def test_every_row_has_tests_that_are_there() -> None:
    rows = re.findall(r"^\| (T\d+) \|.*\|(.*)\|$", PAGE, re.MULTILINE)
    assert [name for name, _ in rows] == [f"T{number}" for number in range(1, 24)]
    for name, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)`", tests)
        assert named, f"{name} has no test"
        assert [one for one in named if not (ROOT / one).is_file()] == []
