"""Long work in a browser: compactions, the list of what is to do, commands, files and helpers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes.app_server import Serving
from fakes.long_agents import OPEN, lead, librarian, reader
from fakes.long_work import FIRST, PLAN, SUMMARY, add_log, add_long_work, add_versions
from fakes.studio_browser import PHONE, Visitor, expect
from fakes.studio_corpus import CORPUS
from fakes.studio_scenes import Visit, ask, new_key
from retinue.core.events import Finished, Started
from retinue.core.workspace import normalize_path
from retinue.errors import RetinueError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def work(staged: Serving) -> str:
    return add_long_work(staged)


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
def test_a_command_shows_its_line_its_exit_code_and_what_it_changed(visit: Visit, work: str) -> None:
    page = visit().see(f"/runs/{work}", "counts words")
    detail = page.locator(".bench-detail")
    choose(page, "exit 1")
    for said in ("$ python -m pytest -q", "exit code 1", "610 ms", "1 failed, 1 passed", "new, 27 B"):
        expect(detail).to_contain_text(said)


def test_files_of_a_step_and_their_differences_from_another(visit: Visit, work: str, tmp_path: Path) -> None:
    page = visit().see(f"/runs/{work}", "counts words")
    choose(page, "edit_file", 1)
    page.locator(".bench-detail").get_by_role("link", name="words.py").click()
    code = page.locator(".code")
    expect(code.locator(".code-removed")).to_contain_text('return len(text.split(" "))')
    expect(code.locator(".code-added")).to_contain_text("return len(text.split())")
    expect(code.locator(".code-skipped")).to_have_count(1)
    expect(page.locator(".file-row")).to_have_count(1)
    page.get_by_label("Changes since").select_option(label="v0, the beginning")
    expect(page.locator(".file-row")).to_have_text(
        [re.compile(one) for one in (r"\.pytest", "chart", "test_", "bin", "words")]
    )
    expect(page.get_by_text("5 files changed")).to_be_visible()
    page.get_by_label("Changes since").select_option(label="–")
    page.locator(".versions select").first.select_option(label="v1, step 2: write_file")
    expect(page.locator(".file-row")).to_have_count(4)
    expect(code).to_contain_text('split(" ")')
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "words.py")
    assert download.value.suggested_filename == "words.py"
    assert (tmp_path / "words.py").read_bytes() == FIRST


@pytest.mark.full
def test_files_are_looked_through_by_keyboard(visit: Visit, work: str) -> None:
    page = visit().see(f"/runs/{work}?as=files&version=2&from=1", "test_words.py")
    detail = page.locator(".bench-detail")
    page.keyboard.press("j")
    expect(detail).to_contain_text("from words import count")
    page.get_by_label("Changes since").select_option(label="–")
    page.keyboard.press("Escape")
    for said in ("chart.png", "It is empty.", "from words", "It is no text, and no image", "Count words."):
        page.locator("body").press("j")
        expect(detail).to_contain_text(said)
    page.locator(".file-row").first.click()
    image = detail.get_by_role("img", name="docs/chart.png")
    expect(image).to_be_visible()
    assert image.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [240, 120]
    page.get_by_role("button", name="Timeline").click()
    expect(page.locator(".span-row").first).to_be_visible()
    assert "version" not in page.url


@pytest.mark.full
def test_hostile_files_are_shown_as_text(visit: Visit, staged: Serving) -> None:
    names = [path for text in CORPUS if is_path(path := f"a/{text.replace('/', '∕')}")]
    assert len(names) > 15
    texts = [f"{text}\n\x1b[31mred\x07\u202egnp.exe".encode() for text in CORPUS]
    row = add_log(
        staged, "run_" + "f2" * 12, iter([Started("q", "coder", "s", "m", ("list_files",)), Finished("a", {})])
    )
    before = dict(zip(names, reversed(texts), strict=False))
    after = {
        **dict(zip(names, texts, strict=False)),
        "a.html": texts[0],
        "a.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    }
    add_versions(staged, row, [before, after])
    who = visit()
    page = who.see(f"/runs/{row.id}?as=files", "a.html")
    for since in ("", "&from=1"):
        page = who.see(f"/runs/{row.id}?as=files&version=2{since}", "a.html")
        expect(page.locator(".file-row")).to_have_count(len(names) + 2)
        for at in range(len(names) + 2):
            page.locator("body").press("j")
            expect(page.locator(".file-row").nth(at)).to_have_attribute("aria-selected", "true")
            expect(page.locator(".code")).to_be_visible()
        page.locator(".file-row").filter(has_text="a.html").click()
        expect(page.locator(".code")).to_contain_text("␛[31mred␇⟨202e⟩gnp.exe")
    assert page.locator("main :is(iframe, img, script, object, embed, base, link, meta, style, form)").count() == 0
    assert who.pwned() is None


def is_path(text: str) -> bool:
    try:
        return normalize_path(text) == text
    except RetinueError:
        return False


@pytest.mark.full
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


@pytest.fixture(scope="module")
def leading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(
        tmp_path_factory.mktemp("leading"),
        {one.name: one for one in (lead(), reader(), librarian("narrow", 3_000), librarian("wide", 100_000))},
    ) as server:
        yield server


def test_a_helper_in_the_background_says_where_its_caller_was_told(chromium: Browser, leading: Serving) -> None:
    OPEN.clear()
    key = new_key(leading, "all", "prompts")
    run = ask(leading, "lead", "Begin.", key)
    who = Visitor(chromium, leading.url, key)
    page = who.see(f"/runs/{run}", "Hear the slow one")
    helper = page.locator(".span-member").filter(has_text="Wait at the door")
    expect(helper).to_contain_text("in the background")
    expect(page.locator(".todo-in_progress")).to_contain_text("Hear the slow one")
    helper.click()
    expect(page.locator(".bench-detail")).to_contain_text("its caller was not told yet that it has ended")
    OPEN.set()
    expect(page.locator(".outcome")).to_contain_text("the door is open")
    expect(page.locator(".bench-detail")).to_contain_text(
        "told that it has ended in step 4, with the result of task_result"
    )
    expect(page.locator(".bench-detail .status-good").first).to_be_visible()
    expect(helper).not_to_contain_text("in the background")
    assert who.troubles == []
    who.context.close()


@pytest.mark.full
def test_what_is_to_do_stands_beside_an_answer_in_the_playground(chromium: Browser, leading: Serving) -> None:
    OPEN.clear()
    who = Visitor(chromium, leading.url, new_key(leading, "all", "prompts"))
    page = who.see("/playground?agent=lead", "Say something")
    page.locator("#message").fill("Begin.")
    page.locator("#message").press("Enter")
    expect(page.locator(".steps .todo-in_progress")).to_contain_text("Hear the slow one")
    expect(page.locator(".steps .todos summary")).to_contain_text("1 of 3 done")
    assert who.violations() == []
    OPEN.set()
    expect(page.locator(".speech")).to_contain_text("the door is open")
    assert who.troubles == []
    who.context.close()


@pytest.mark.full
def test_all_of_a_large_result_is_loaded_when_it_is_asked_for(chromium: Browser, leading: Serving) -> None:
    key = new_key(leading, "all", "prompts")
    run = ask(leading, "reader", "Report.", key)
    who = Visitor(chromium, leading.url, key)
    page = who.see(f"/runs/{run}", "Read.")
    choose(page, "report", 1)
    detail = page.locator(".bench-detail")
    expect(detail).to_contain_text("The model was shown a part.")
    detail.get_by_role("button", name=re.compile("Show all .* characters")).last.click()
    expect(detail.get_by_label("All of it", exact=True)).to_contain_text("line 7:")
    detail.locator(".more").last.click()
    expect(detail.get_by_label("All of it", exact=True)).to_contain_text("THE END")
    assert who.troubles == []
    who.context.close()


@pytest.mark.full
def test_a_run_is_forked_with_its_full_prompt(chromium: Browser, leading: Serving) -> None:
    key = new_key(leading, "all", "prompts")
    run = ask(leading, "narrow", "Read all of it.", key)
    who = Visitor(chromium, leading.url, key)
    page = who.see(f"/runs/{run}", "volumes before me")
    assert "I have 12 volumes" not in page.locator(".outcome").inner_text()
    rows = page.locator(".span-compaction")
    choose(page, "→ volume")
    page.get_by_role("button", name="Fork from here").click()
    expect(page.get_by_label("full prompt")).to_have_count(0)
    page.get_by_role("button", name="Cancel").click()
    rows.last.click()
    expect(page.locator(".bench-detail")).to_contain_text("It is about much.")
    page.get_by_role("button", name="Fork with the full prompt").click()
    expect(page.get_by_label("full prompt")).to_be_checked()
    page.get_by_label("Agent that goes on").select_option("wide")
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page.get_by_text("Forked from")).to_be_visible()
    expect(page.locator(".outcome")).to_contain_text("I have 12 volumes before me.")
    expect(rows).to_have_count(0)
    assert who.troubles == []
    who.context.close()
