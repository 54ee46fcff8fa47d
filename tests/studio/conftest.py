"""A browser for each module, and the runs that the studio's own views show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from fakes import studio_browser
from fakes.app_server import Serving
from fakes.studio_browser import Visitor
from fakes.studio_scenes import Scenes, Visit, agents, new_key, play

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with studio_browser.browser() as started:
        yield started


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served"), agents()) as server:
        yield server


@pytest.fixture(scope="module")
def operator(staged: Serving) -> str:
    """A key that sees prompts."""
    return new_key(staged, "all", "prompts")


@pytest.fixture(scope="module")
def scenes(staged: Serving, operator: str) -> Scenes:
    return play(staged, operator)


@pytest.fixture
def visit(chromium: Browser, staged: Serving, operator: str) -> Iterator[Visit]:
    """Makes visitors, whose pages must have done nothing wrong in the end."""
    visitors: list[Visitor] = []

    def come(key: str = "", **options: object) -> Visitor:
        visitors.append(Visitor(chromium, staged.url, key or operator, **options))
        return visitors[-1]

    yield come
    for one in visitors:
        one.context.close()
    assert [trouble for one in visitors for trouble in one.troubles] == []
