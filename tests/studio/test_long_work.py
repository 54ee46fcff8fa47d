"""Long work in a browser: compactions, the list of what is to do, commands, files and helpers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.app_server import Serving
from fakes.long_work import PLAN, SUMMARY, add_log, long_work
from fakes.studio_browser import PHONE, expect
from fakes.studio_scenes import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def work(staged: Serving) -> str:
    return add_log(staged, "run_" + "f1" * 12, long_work())


def choose(page: Page, text: str, number: int = 0) -> None:
    """Choose a row of the list of spans."""
    page.locator(".span-row").filter(has_text=text).nth(number).click()


def test_a_compaction_shows_what_the_model_no_longer_saw(visit: Visit, work: str) -> None:
    page = visit().see(f"/runs/{work}", "counts words")
    detail = page.locator(".bench-detail")
    choose(page, "Earlier turns summarized")
    for said in ("12 messages, 17,950 → 4,210 tokens", "cost 0.0310", SUMMARY, "Wrote words.py.", "calls run_command"):
        expect(detail).to_contain_text(said)
    choose(page, "→ write_todos", 2)
    expect(detail).to_contain_text("5 messages, 2 new, 11 no longer sent")
    page.get_by_role("button", name="3 messages that it had seen").click()
    expect(detail.locator(".message-instead")).to_contain_text("Never use regular expressions")
    assert "Wrote words.py." not in detail.inner_text()


@pytest.mark.full
def test_a_run_is_forked_with_its_full_prompt(visit: Visit, work: str) -> None:
    page = visit().see(f"/runs/{work}", "counts words")
    choose(page, "→ write_file")
    page.get_by_role("button", name="Fork from here").click()
    expect(page.get_by_label("full prompt")).to_have_count(0)
    page.get_by_role("button", name="Cancel").click()
    choose(page, "→ run_command", 1)
    page.get_by_role("button", name="Fork from here").click()
    expect(page.get_by_label("full prompt")).not_to_be_checked()
    page.get_by_role("button", name="Cancel").click()
    choose(page, "Old results cleared")
    page.get_by_role("button", name="Fork with the full prompt").click()
    expect(page.get_by_label("full prompt")).to_be_checked()


def test_a_command_shows_its_line_its_exit_code_and_what_it_changed(visit: Visit, work: str) -> None:
    page = visit().see(f"/runs/{work}", "counts words")
    detail = page.locator(".bench-detail")
    choose(page, "exit 1")
    for said in ("$ python -m pytest -q", "exit code 1", "610 ms", "1 failed, 1 passed", "new, 302 B"):
        expect(detail).to_contain_text(said)


def test_what_is_to_do_stands_above_the_rows(visit: Visit, work: str) -> None:
    page = visit().see(f"/runs/{work}", "counts words")
    todos = page.locator(".todos").first
    expect(todos.locator("summary")).to_contain_text("3 of 4 done")
    todos.locator("summary").press("Enter")
    expect(todos.locator("li")).to_have_count(len(PLAN))
    expect(todos.locator(".todo-in_progress")).to_contain_text(PLAN[3])


@pytest.mark.full
def test_axe_finds_nothing_serious_in_long_work_and_it_fits_a_phone(visit: Visit, work: str) -> None:
    for size in ((1280, 800), PHONE):
        who = visit(size=size, color_scheme="light")
        page = who.see(f"/runs/{work}", "counts words")
        page.locator(".todos > summary").first.click()
        for row in ("Earlier turns summarized", "exit 1", "3 of 4 done"):
            choose(page, row)
            for theme in ("dark", "light"):
                page.emulate_media(color_scheme=theme)
                assert who.violations() == [], (row, size, theme)
            assert not who.overflows(), (row, size)
            if size == PHONE:
                page.get_by_role("button", name="Back").click()
