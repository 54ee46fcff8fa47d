"""A random order of tests: `--shuffle SEED`, by which CI sees that no test needs what another left.

Files are shuffled, and the tests of each. What pytest puts together for the sake of a fixture stays together.
"""

from __future__ import annotations

from random import Random

import pytest
from _pytest.fixtures import reorder_items  # public is only that pytest does it, and that is before the choice


def pytest_addoption(parser: pytest.Parser) -> None:
    """The seed, which each process gets."""
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in the order that any text as a seed gives")


def pytest_report_header(config: pytest.Config) -> str | None:
    """With what it can be repeated."""
    seed = config.getoption("--shuffle")
    return f"order: --shuffle {seed}" if seed else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After the choice of what runs."""
    if seed := config.getoption("--shuffle"):
        items[:] = reorder_items(shuffled(items, seed))


def shuffled(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """`items` in another order, file by file. The same seed gives the same order."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    random = Random(seed)
    groups = list(files.values())
    random.shuffle(groups)
    for group in groups:
        random.shuffle(group)
    return [item for group in groups for item in group]
