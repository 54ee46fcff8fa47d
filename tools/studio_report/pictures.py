"""Pictures of each view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page

from fakes.studio_browser import Visitor
from fakes.studio_scenes import Scenes

_MOST = 150_000  # bytes of a picture
_PHONE = (390, 844)


def take(browser: Browser, url: str, key: str, scenes: Scenes, work: str, helpers: str, folder: Path) -> Iterator[str]:
    """Write the pictures, `work` and `helpers` being runs of long work, and yield their names."""
    folder.mkdir(exist_ok=True)
    for name, theme, size in (("", "light", (1280, 800)), ("-dark", "dark", (1280, 800)), ("-phone", "light", _PHONE)):
        who = Visitor(browser, url, key, color_scheme=theme, size=size)
        for view, page in _views(who, scenes, work, helpers):
            if view in _WANTED[name]:
                page.wait_for_timeout(200)
                picture = page.screenshot(path=folder / f"{view}{name}.png")
                assert len(picture) < _MOST, f"{view}{name}.png has {len(picture)} bytes"
                yield f"{view}{name}.png"
        assert who.troubles == []
        who.context.close()


_WANTED = {
    "": ("runs", "run", "team", "waiting", "failed", "long", "thread", "command", "files", "compacted", "helpers"),
    "-dark": ("runs", "run", "waiting"),
    "-phone": ("runs", "run", "team", "files"),
}


def _views(who: Visitor, scenes: Scenes, work: str, helpers: str) -> Iterator[tuple[str, Page]]:
    yield "runs", who.see("/", "Is anybody there?")
    page = who.see(f"/runs/{scenes.team}?as=tree", "half a year before")
    page.locator(".span-member").first.locator(".twist").click()
    page.locator(".span-row").filter(has_text="1923 minus").wait_for()
    yield "team", page
    page = who.see(f"/runs/{scenes.waiting}", "Waiting for you")
    page.get_by_role("button", name="Edit…").click()
    yield "waiting", page
    yield "failed", who.see(f"/runs/{scenes.failed}", "could not be reached")
    page = who.see(f"/runs/{scenes.long}", "2,000 spans")
    page.locator(".span-row").nth(5).click()
    yield "long", page
    yield "thread", who.see(f"/threads/{scenes.thread}", "in days?")
    page = who.see(f"/runs/{scenes.plain}", "died at 78")
    page.locator(".span-row").nth(4).click()
    yield "run", page
    yield from _long_work(who, work, helpers)


def _long_work(who: Visitor, work: str, helpers: str) -> Iterator[tuple[str, Page]]:
    page = who.see(f"/runs/{work}", "counts words")
    page.locator(".todos > summary").click()
    page.locator(".span-row").filter(has_text="exit 1").click()
    page.mouse.wheel(0, -180)
    yield "command", page
    page = who.see(f"/runs/{helpers}", "the door is open")
    helper = page.locator(".span-member").last
    helper.locator(".twist").click()
    helper.click()
    yield "helpers", page
    page = who.see(f"/runs/{work}", "counts words")
    page.locator(".span-row").filter(has_text="summarized").click()
    yield "compacted", page
    page = who.see(f"/runs/{work}?as=files&version=4&from=1&path=words.py", "words.py")
    page.locator(".code-added").first.wait_for()
    yield "files", page
