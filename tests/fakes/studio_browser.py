"""A headless browser that looks at the studio, and notes what a page must never do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # takes half a second to import: only the processes that start a browser do
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page

_WHERE = ("chromium", "chromium-browser", "google-chrome")
PHONE, DESK = (360, 780), (1280, 800)
_LOUD = {"serious", "critical"}


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium. Without one the test is skipped, but fails where CI is set."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, _WHERE)), None)
    if path is None and os.environ.get("CI") != "true":
        pytest.skip("there is no Chromium: make screens installs it")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


def expect(part: Locator | Page) -> Any:
    """Playwright's `expect`: assertions that wait."""
    from playwright.sync_api import expect as expect_soon

    return expect_soon(part)


class Visitor:
    """A person with `key` at the studio at `url`. `troubles` is what their pages did wrong."""

    def __init__(self, at: Browser, url: str, key: str, **options: Any) -> None:
        width, height = options.pop("size", DESK)
        self.url, self.key = url, key
        self.troubles: list[str] = []
        self.context: BrowserContext = at.new_context(viewport={"width": width, "height": height}, **options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(8_000)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", self._told)
        self.agrees = False  # to whatever a dialog asks
        self.expects = ""  # in an error of the console, which is then no trouble
        self.page.on("request", self._asked)
        self._signed_in = False

    def _said(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning") and not (self.expects and self.expects in said.text):
            self.troubles.append(said.text)

    def _told(self, dialog: Dialog) -> None:
        self.troubles.append(dialog.message)
        if self.agrees:
            dialog.accept()
        else:
            dialog.dismiss()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self.url}/", "data:image/", "blob:")):
            self.troubles.append(f"asked for {request.url}")

    def see(self, path: str, *texts: str) -> Page:
        """Go to a path of the studio, and wait until `texts` are on the page."""
        key = "" if self._signed_in else f"#key={self.key}"
        self.page.goto(f"{self.url}/studio{path}{key}")
        self._signed_in = True
        for text in texts:
            self.page.get_by_text(text).filter(visible=True).first.wait_for()
        return self.page

    def api(self, path: str) -> Any:
        """What the API says to this key."""
        response = self.page.request.get(self.url + path, headers={"Authorization": f"Bearer {self.key}"})
        assert response.ok, response.text()
        return response.json()

    def violations(self) -> list[str]:
        """What axe finds that is serious or critical."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['help']} at {[node['target'] for node in one['nodes']][:4]}"
            for one in found
            if one["impact"] in _LOUD
        ]

    def overflows(self) -> bool:
        """Whether the page is wider than the window."""
        return bool(self.page.evaluate("document.scrollingElement.scrollWidth > window.innerWidth"))

    def pwned(self) -> Any:
        """What a script of somebody else's left behind."""
        return self.page.evaluate("window.__pwned ?? null")
