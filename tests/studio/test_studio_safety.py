"""What a page of the studio must never do, whatever text it shows; and what everybody may see of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import retinue
from fakes.app_server import Serving
from fakes.studio_browser import PHONE, Visitor, expect
from fakes.studio_corpus import CORPUS, add_hostile_run
from fakes.studio_scenes import Scenes, Visit, new_key, request

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STATIC = Path(retinue.__file__).parent / "studio" / "static"
OWN = [path for path in sorted(STATIC.rglob("*.js")) if path.parent.name != "vendor"]
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc|"
    r"setAttribute\(\s*[\"']on|javascript:"
)


def test_no_module_makes_markup_of_text() -> None:
    assert [path.name for path in OWN if FORBIDDEN.search(path.read_text("utf-8"))] == []


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\bsrc=)|https?://", page)


@pytest.fixture(scope="module")
def hostile(staged: Serving) -> list[str]:
    return [add_hostile_run(staged, text, number, "hostile") for number, text in enumerate(CORPUS, 1)]


@pytest.fixture(scope="module")
def victim(staged: Serving, hostile: list[str]) -> str:
    return new_key(staged, "all", "prompts", tenant="hostile")


@pytest.mark.full
def test_hostile_texts_are_shown_as_text_in_the_list(visit: Visit, victim: str) -> None:
    who = visit(victim)
    page = who.see("/", "<script>window.__pwned=1</script>")
    assert page.locator("tbody tr").count() == len(CORPUS)
    assert who.pwned() is None


@pytest.mark.full
def test_hostile_texts_are_shown_as_text_in_a_run(visit: Visit, victim: str) -> None:
    who = visit(victim)
    who.see("/", CORPUS[0])
    for number in range(1, len(CORPUS) + 1):
        look_through(who, f"run_{number:024x}")


def look_through(who: Visitor, run: str) -> None:
    """Look at everything that a run has, which is shown without loading the page anew."""
    page = who.page
    page.evaluate(
        "to => { history.pushState(null, '', to); dispatchEvent(new Event('retinue:moved')); }", f"/studio/runs/{run}"
    )
    page.get_by_text(run).wait_for()
    rows = page.locator(".span-row")
    expect(rows).to_have_count(7)
    for at in range(7):
        rows.nth(at).click()
        expect(rows.nth(at)).to_have_attribute("aria-selected", "true")
        for button in page.locator(".bench-detail button.more, .bench-detail .earlier").all():
            button.click()
    page.locator(".todos > summary").first.click()
    rows.nth(6).click()
    page.get_by_role("button", name="What changed").click()
    expect(page.locator(".diff")).to_be_visible()
    assert who.pwned() is None
    assert who.troubles == []
    assert page.locator("main :is(iframe, img, script, object, embed, base, link, meta, style, form)").count() == 0
    assert set(page.eval_on_selector_all("a", "all => all.map(a => a.protocol)")) <= {"http:"}


@pytest.mark.full
def test_hostile_messages_are_shown_as_text_in_a_thread(visit: Visit, staged: Serving, victim: str) -> None:
    said = [{"role": "user", "content": text.replace("\u2028", " ")} for text in CORPUS]
    thread = request(staged, "POST", "/v1/threads", {"messages": said}, key=victim).body["id"]
    who = visit(victim)
    page = who.see(f"/threads/{thread}", CORPUS[0])
    expect(page.locator(".entry")).to_have_count(len(CORPUS))
    assert who.pwned() is None
    assert page.locator("main :is(iframe, img, script, object, form)").count() == 0


@pytest.mark.full
def test_a_hostile_address_is_only_an_address(visit: Visit, victim: str) -> None:
    who = visit(victim)
    page = who.see("/%3Cimg%20src=x%20onerror=window.__pwned=1%3E?q=<script>window.__pwned=1</script>", "no such page")
    page.goto(f"{who.url}/studio/?q=%3Cscript%3Ewindow.__pwned=1%3C/script%3E&agent=<img src=x onerror=__pwned=1>")
    expect(page.get_by_text("No run fits")).to_be_visible()
    assert who.pwned() is None


def test_the_page_and_its_files_are_public_and_hold_nothing(staged: Serving, scenes: Scenes) -> None:
    page = request(staged, "GET", f"/studio/runs/{scenes.plain}", key=None)
    assert page.status == 200
    assert scenes.plain not in page.text
    assert page.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    for name, value in {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-cache",
    }.items():
        assert page.headers[name] == value
    assert request(staged, "GET", "/studio", key=None, headers={"if-none-match": page.headers["etag"]}).status == 304
    assert request(staged, "POST", "/studio/x", key=None).status == 401


@pytest.mark.parametrize(
    "path",
    ["x/main.js", "{}/nothing.js", "{}/../../../app.py", "{}/..%2f..%2f__init__.py", "{}//etc/passwd", "{}/", ""],
)
def test_only_the_studios_files_are_served(staged: Serving, path: str) -> None:
    version = re.search(r"static/(\w+)/", request(staged, "GET", "/studio", key=None).text)
    assert version is not None
    found = request(staged, "GET", f"/studio/static/{path.format(version[1])}", key=None)
    assert found.status in (404, 401)
    assert "def " not in found.text


def test_files_are_kept_by_browsers_for_ever(staged: Serving) -> None:
    page = request(staged, "GET", "/studio", key=None).text
    (main,) = re.findall(r'src="([^"]+main\.js)"', page)
    file = request(staged, "GET", main, key=None)
    assert (file.status, file.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"


def test_pages_of_other_origins_may_not_use_the_server(staged: Serving) -> None:
    own = {"origin": staged.url}
    assert request(staged, "GET", "/v1/runs", headers=own).status == 200
    for other in ("https://evil.example", staged.url + "0", "null", "http://localhost:1", "file://" + staged.url[7:]):
        assert request(staged, "GET", "/v1/runs", headers={"origin": other}).status == 403


@pytest.mark.full
def test_the_first_view_is_small(chromium: Browser, staged: Serving, operator: str, scenes: Scenes) -> None:
    who = Visitor(chromium, staged.url, operator)
    devtools = who.context.new_cdp_session(who.page)
    devtools.send("Network.enable")
    sizes: list[float] = []
    devtools.on("Network.loadingFinished", lambda one: sizes.append(one["encodedDataLength"]))
    who.see("/", "Is anybody there?")
    assert 0 < sum(sizes) < 300_000
    who.see(f"/runs/{scenes.plain}", "died at 78")
    assert sum(sizes) < 300_000
    who.context.close()


VIEWS = {
    "/": "Is anybody there?",
    "/runs/{0.plain}": "died at 78",
    "/runs/{0.failed}": "could not be reached",
    "/runs/{0.team}?as=tree": "half a year before",
    "/runs/{0.waiting}": "Waiting for you",
    "/runs/{0.long}": "All of them were read",
    "/threads/{0.thread}": "in days?",
}


@pytest.mark.full
def test_axe_finds_nothing_serious_in_light_or_dark(visit: Visit, scenes: Scenes) -> None:
    who = visit(color_scheme="light")
    found: dict[str, list[str]] = {}
    for path, text in VIEWS.items():
        page = who.see(path.format(scenes), text)
        if page.locator(".span-row").count() > 1:
            page.locator(".span-row").nth(1).click()
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            found[f"{path} {theme}"] = who.violations()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("API key").wait_for()
    found["sign in"] = who.violations()
    assert {path: told for path, told in found.items() if told} == {}


@pytest.mark.full
def test_each_view_fits_a_phone(visit: Visit, scenes: Scenes) -> None:
    who = visit(size=PHONE)
    for path, text in VIEWS.items():
        page = who.see(path.format(scenes), text)
        assert not who.overflows(), path
        if "/runs/" in path:
            page.locator(".span-row").last.click()
            expect(page.locator(".bench-detail")).to_be_in_viewport()
            assert not who.overflows(), path
            page.get_by_role("button", name="Back").click()
