"""The examples of services run, offline, and come to their answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.test_docs import blocks
from fakes import fork_server
from retinue.config import check

pytestmark = pytest.mark.usefixtures("full")  # with which each program has an interpreter of its own

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "github_issues.py",
            ["(issue #4105).", "Two bugs are open", "https://github.com/deepset-ai/haystack/issues/new?"],
        ),
        ("wikipedia.py", ["(Result 1 / 1) Restoring it cost six million", "6,279,000.00 USD", "slight rain"]),
        (
            "remote_agents.py",
            ["waiter requires input: May book be called", "You have a table at Nopi", "2 runs of members"],
        ),
        ("services.py", ["2.4242784855673896", "104.65 USD", "Berlin", "Airbus"]),
    ],
)
def test_an_example_runs(name: str, said: list[str]) -> None:
    done = fork_server.python(["-W", "error", EXAMPLES / name])
    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in said if text not in done.stdout] == []


def test_the_pages_file_is_right(tmp_path: Path) -> None:
    page = (EXAMPLES.parent / "docs" / "services.md").read_text("utf-8")
    (text,) = blocks(page, "yaml")
    (tmp_path / "a.yml").write_text(text)
    assert check(tmp_path / "a.yml") == []
