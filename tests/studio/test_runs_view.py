"""The list of runs, signing in, and what another tenant sees, in a browser."""

from __future__ import annotations

import json
import re

import pytest

from fakes.app_server import Serving
from fakes.studio_browser import expect
from fakes.studio_scenes import Scenes, Visit, new_key, request


def test_runs_are_listed_filtered_and_searched(visit: Visit, scenes: Scenes) -> None:
    page = visit().see("/", "Is anybody there?")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(7)
    expect(rows.first).to_contain_text("waiting")
    expect(rows.nth(2)).to_contain_text("researcher")
    page.get_by_label("Status").select_option("failed")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("status=failed"))
    page.get_by_label("Status").select_option("")
    page.keyboard.press("/")
    page.keyboard.type("BERNHARDT")
    expect(rows).to_have_count(3)
    page.get_by_label("Search questions").fill("no such words")
    expect(page.get_by_text("No run fits")).to_be_visible()
    page.get_by_text("Show all runs").click()
    expect(rows).to_have_count(7)


@pytest.mark.full
def test_what_is_typed_into_the_search_outlasts_what_is_drawn_meanwhile(visit: Visit, scenes: Scenes) -> None:
    page = visit().see("/", "Is anybody there?")
    page.keyboard.press("/")
    page.keyboard.type("BERN")
    page.evaluate("window.dispatchEvent(new Event('retinue:moved'))")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    page.keyboard.type("HARDT")
    expect(page.get_by_label("Search questions")).to_have_value("BERNHARDT")
    expect(page.locator("tbody tr")).to_have_count(3)


@pytest.mark.full
def test_members_are_shown_on_demand_only(visit: Visit, scenes: Scenes) -> None:
    page = visit().see("/?kind=member", "critic")
    expect(page.locator("tbody tr")).to_have_count(2)


@pytest.mark.full
def test_the_list_is_used_by_keyboard(visit: Visit, scenes: Scenes) -> None:
    page = visit().see("/", "Is anybody there?")
    for key in "jjj":
        page.keyboard.press(key)
    page.keyboard.press("k")
    expect(page.locator("tr.at")).to_contain_text("Write a sentence")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/studio/runs/{scenes.team}")
    page.go_back()
    page.get_by_text("Is anybody there?").wait_for()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


@pytest.mark.full
def test_a_new_run_appears_by_itself(visit: Visit, staged: Serving) -> None:
    key = new_key(staged, tenant="live")
    page = visit(key).see("/", "No runs yet")
    said = {"model": "echo", "messages": [{"role": "user", "content": "Here I am."}], "store": True}
    assert request(staged, "POST", "/v1/chat/completions", said, key=key).status == 200
    page.get_by_text("Here I am.").wait_for()


@pytest.mark.full
def test_the_list_goes_on_page_by_page(visit: Visit, staged: Serving) -> None:
    key = new_key(staged, tenant="pages")
    for number in range(52):
        said = {"model": "echo", "messages": [{"role": "user", "content": f"Question {number}"}], "store": True}
        request(staged, "POST", "/v1/chat/completions", said, key=key)
    page = visit(key).see("/", "Question 51")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Older").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Newest").click()
    expect(page.locator("tbody tr")).to_have_count(50)


@pytest.mark.full
def test_another_tenant_sees_nothing(visit: Visit, staged: Serving, scenes: Scenes) -> None:
    stranger = visit(new_key(staged, "all", "prompts", tenant="stranger"))
    stranger.see("/", "No runs yet")
    for path in (f"/runs/{scenes.plain}", f"/threads/{scenes.thread}"):
        page = stranger.see(path)
        expect(page.get_by_role("alert")).to_contain_text(re.compile("No (run|thread) found"))
        assert "Bernhardt" not in page.content()
    stranger.troubles[:] = [one for one in stranger.troubles if "404" not in one]  # the browser tells of each


@pytest.mark.full
def test_a_key_is_asked_for_and_forgotten(visit: Visit, staged: Serving, operator: str, scenes: Scenes) -> None:
    who = visit()
    who.page.goto(f"{who.url}/studio/runs/{scenes.plain}")
    who.page.get_by_label("API key").fill("sk-wrong")
    who.page.get_by_role("button", name="Sign in").click()
    expect(who.page.get_by_role("alert")).to_contain_text("Incorrect API key")
    who.page.get_by_label("API key").fill(operator)
    who.page.keyboard.press("Enter")
    who.page.get_by_role("heading", name="How old did").wait_for()
    assert operator not in json.dumps(who.context.storage_state())
    assert who.page.evaluate("JSON.stringify([localStorage, location.href, document.cookie])").count(operator) == 0
    who.page.get_by_role("button", name="Sign out").click()
    expect(who.page.get_by_label("API key")).to_be_visible()
    assert who.page.evaluate("sessionStorage.length") == 0
    who.page.evaluate(f"location.hash = 'key={operator}'")  # a link that is opened in the page
    who.page.get_by_role("heading", name="How old did").wait_for()
    who.page.evaluate("location.hash = 'key=sk-of-somebody-else'")
    expect(who.page).to_have_url(re.compile("^[^#]*$"))
    assert who.page.evaluate("Object.values(sessionStorage).join()").count("somebody") == 0
    who.troubles[:] = [one for one in who.troubles if "401" not in one]


@pytest.mark.full
def test_a_key_in_the_address_is_taken_out_of_it(visit: Visit, scenes: Scenes) -> None:
    page = visit().see("/?status=failed", "Is anybody there?")
    assert page.url.endswith("/studio/?status=failed")
    assert page.evaluate("history.length") <= 2
    page.reload()
    page.get_by_text("Is anybody there?").wait_for()


@pytest.mark.full
def test_a_link_with_another_key_is_taken_only_if_its_user_says_so(visit: Visit, scenes: Scenes) -> None:
    who = visit()
    page = who.see("/", "Is anybody there?")
    who.expects = "401 (Unauthorized)"
    link = f"{who.url}/studio/#key=sk-of-somebody-else"
    for who.agrees, seen in ((False, "Is anybody there?"), (True, "Incorrect API key")):
        page.goto("about:blank")
        page.goto(link)
        expect(page.get_by_text(seen).first).to_be_visible()
        assert "with another key" in who.troubles.pop(0)
        assert "#key" not in page.url


@pytest.mark.full
def test_light_and_dark_are_chosen(visit: Visit, scenes: Scenes) -> None:
    page = visit(color_scheme="light").see("/", "Is anybody there?")

    def dark() -> bool:
        red = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
        return int(red) < 100

    assert not dark()
    page.keyboard.press("t")
    assert dark()
    page.reload()
    page.get_by_text("Is anybody there?").wait_for()
    assert dark()
