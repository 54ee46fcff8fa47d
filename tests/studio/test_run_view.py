"""One run in a browser: what happened, live, and what a person does with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes.app_server import Serving
from fakes.studio_browser import expect
from fakes.studio_scenes import INSTRUCTIONS, Scenes, Visit, ask, new_key, request, rests

if TYPE_CHECKING:
    from playwright.sync_api import Page


def choose(page: Page, text: str, number: int = 0) -> None:
    """Choose a row of the list of spans."""
    page.locator(".span-row").filter(has_text=text).nth(number).click()


def test_a_run_shows_every_prompt_reply_input_and_output(visit: Visit, scenes: Scenes) -> None:
    page = visit().see(f"/runs/{scenes.plain}", "Sarah Bernhardt died at 78")
    facts = page.locator(".run-facts")
    for said in ("completed", "researcher", "tool_calling", "scripted", "238 in, 16 out", "0.0010"):
        expect(facts).to_contain_text(said)
    detail = page.locator(".bench-detail")
    choose(page, "→ search")
    expect(detail).to_contain_text(INSTRUCTIONS)
    choose(page, "→ calculate", 1)
    expect(detail).to_contain_text("6 messages, 2 new")
    expect(detail.locator(".message-new")).to_have_count(2)
    assert INSTRUCTIONS not in detail.inner_text()
    page.get_by_role("button", name="4 messages that it had seen").click()
    expect(detail).to_contain_text(INSTRUCTIONS)
    choose(page, "1923 minus 1844")
    expect(detail).to_contain_text("cannot read '1923 minus 1844'")
    expect(detail.locator(".status-bad")).to_have_text("failed")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(detail.get_by_role("heading", name="calculate")).to_be_visible()
    expect(detail).to_contain_text("79")


def test_prompts_are_hidden_from_keys_without_the_scope(visit: Visit, staged: Serving, scenes: Scenes) -> None:
    page = visit(new_key(staged)).see(f"/runs/{scenes.plain}", "Sarah Bernhardt died at 78")
    choose(page, "→ search")
    expect(page.locator(".hidden-note")).to_contain_text("retinue keys make --scope all --scope prompts")
    assert INSTRUCTIONS not in page.content()


def test_a_failed_run_says_why(visit: Visit, scenes: Scenes) -> None:
    page = visit().see(f"/runs/{scenes.failed}", "the script answers 500")
    expect(page.locator(".outcome")).to_contain_text("could not be reached, or failed")
    expect(page.locator(".span-row")).to_have_count(1)


def test_a_team_is_a_tree(visit: Visit, scenes: Scenes) -> None:
    page = visit().see(f"/runs/{scenes.team}?as=tree", "half a year before")
    choose(page, "researcher", 1)
    expect(page.locator(".bench-detail")).to_contain_text("A run of its own: newsroom/researcher")
    page.keyboard.press("Enter")
    expect(page.locator(".span-row").filter(has_text="1923 minus 1844")).to_be_visible()
    choose(page, "1923 minus 1844")
    expect(page.locator(".bench-detail")).to_contain_text("cannot read")
    choose(page, "researcher", 1)
    page.locator(".bench-detail").get_by_role("link", name="newsroom/researcher").click()
    page.get_by_role("link", name="The run that called it").click()
    page.wait_for_url(f"**/runs/{scenes.team}")


@pytest.mark.full
def test_a_run_of_a_thousand_steps_is_all_there_and_scrolls(visit: Visit, scenes: Scenes) -> None:
    page = visit().see(f"/runs/{scenes.long}", "All of them were read")
    expect(page.get_by_text("2,000 spans")).to_be_visible()
    assert 0 < most_rows(page) < 80  # `make studio` measures how long they take
    page.keyboard.press("End")
    expect(page.locator(".span-row[aria-selected=true]")).to_contain_text("volume 1000")
    page.keyboard.press("k")
    expect(page.locator(".bench-detail")).to_contain_text("1,000 messages, 1 new")
    page.get_by_role("button", name="Tree").click()
    expect(page.get_by_text("Step 1000", exact=True)).to_be_visible()


def most_rows(page: Page) -> int:
    """Scroll through the list; the most rows that were drawn at once."""
    most: int = page.evaluate(
        """async () => {
            let most = 0;
            const box = document.querySelector(".virtual");
            for (let at = 0; at <= 60; at++) {
                box.scrollTop = (box.scrollHeight * at) / 60;
                await new Promise((done) => requestAnimationFrame(done));
                most = Math.max(most, document.querySelectorAll(".span-row").length);
            }
            return most;
        }"""
    )
    return most


COUNTING = """
    const read = JSON.parse;
    window.looks = [];  // at each event that was streamed
    JSON.parse = (text, ...more) => {
        const found = read(text, ...more);
        if (found?.created_at && found.data) {
            const [at, type] = [looks.push(0) - 1, found.type];
            Object.defineProperty(found, "type", { get: () => (looks[at]++, type) });
        }
        return found;
    };
"""

SEVERAL = """async () => {
    while (looks.length < 10) await new Promise((done) => requestAnimationFrame(done));
    return looks;
}"""


def test_a_live_run_looks_at_each_event_once(visit: Visit, staged: Serving, operator: str) -> None:
    visitor = visit()
    visitor.page.add_init_script(COUNTING)
    run = ask(staged, "slow", "Count.", operator)
    page = visitor.see(f"/runs/{run}", "word1 word2")
    expect(page.locator(".span-says")).to_contain_text("word25")
    looks = page.evaluate(SEVERAL)
    assert set(looks) == {1}
    request(staged, "POST", f"/v1/runs/{run}/cancel", {}, key=operator)


@pytest.fixture
def waiting(staged: Serving, operator: str) -> str:
    run = ask(staged, "clerk", "Tell Ada that her order leaves today.", operator)
    assert rests(staged, run, operator) == "requires_action"
    return run


def test_a_waiting_run_is_approved(visit: Visit, waiting: str) -> None:
    page = visit().see(f"/runs/{waiting}", "Waiting for you")
    expect(page.locator(".decisions")).to_contain_text("send_mail runs only with a person's approval")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".run-facts")).to_contain_text("completed")
    expect(page.locator(".outcome")).to_contain_text("Ada was told.")
    choose(page, "Person: send_mail")
    expect(page.locator(".bench-detail")).to_contain_text("Decision: approve")
    choose(page, "send_mail", 2)
    expect(page.locator(".bench-detail")).to_contain_text("Sent to ada@example.org.")


@pytest.mark.full
def test_a_waiting_call_is_edited(visit: Visit, waiting: str) -> None:
    page = visit().see(f"/runs/{waiting}", "Waiting for you")
    page.get_by_role("button", name="Edit…").click()
    field = page.get_by_label("Arguments, as JSON")
    field.fill("{")
    page.get_by_role("button", name="Approve with these arguments").click()
    expect(page.get_by_role("alert")).to_contain_text("JSON object")
    field.fill(json.dumps({"to": "eve@example.org", "subject": "s", "body": "b"}))
    page.get_by_role("button", name="Approve with these arguments").click()
    expect(page.locator(".run-facts")).to_contain_text("completed")
    choose(page, "send_mail", 2)
    expect(page.locator(".bench-detail")).to_contain_text("Sent to eve@example.org.")


@pytest.mark.full
def test_arguments_that_do_not_fit_are_refused(visit: Visit, waiting: str) -> None:
    visitor = visit()
    page = visitor.see(f"/runs/{waiting}", "Waiting for you")
    for given, problem in (({"to": 7, "subject": "s", "body": "b"}, "to: "), ({"to": "eve@example.org"}, "subject")):
        page.get_by_role("button", name="Edit…").click()
        page.get_by_label("Arguments, as JSON").fill(json.dumps(given))
        page.get_by_role("button", name="Approve with these arguments").click()
        expect(page.get_by_role("alert")).to_contain_text("The edited arguments of send_mail are not valid")
        expect(page.get_by_role("alert")).to_contain_text(problem)
        page.reload()
    expect(page.locator(".run-facts")).to_contain_text("waiting")
    assert {"400" in trouble for trouble in visitor.troubles} == {True}
    visitor.troubles.clear()


@pytest.mark.full
def test_a_decision_on_one_of_two_calls_outlives_a_reload(visit: Visit, staged: Serving, operator: str) -> None:
    run = ask(staged, "clerk", "Tell them all.", operator)
    assert rests(staged, run, operator) == "requires_action"
    page = visit().see(f"/runs/{run}", "Waiting for you")
    page.get_by_role("button", name="Approve").first.click()
    said = "You approved send_mail. This is sent once the others are decided, too."
    expect(page.locator(".decisions")).to_contain_text(said)
    page.reload()
    expect(page.locator(".decisions")).to_contain_text(said)
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".run-facts")).to_contain_text("completed")


@pytest.mark.full
@pytest.mark.parametrize(("way", "said"), [("Reject", "She knows already."), ("Answer", "It was sent by hand.")])
def test_a_waiting_call_is_rejected_or_answered(visit: Visit, waiting: str, way: str, said: str) -> None:
    page = visit().see(f"/runs/{waiting}", "Waiting for you")
    page.get_by_role("button", name=f"{way}…").click()
    page.locator(".decisions textarea").fill(said)
    page.get_by_role("button", name={"Reject": "Reject", "Answer": "Send this answer"}[way], exact=True).click()
    expect(page.locator(".run-facts")).to_contain_text("completed")
    choose(page, "send_mail", 2)
    expect(page.locator(".bench-detail")).to_contain_text(said)


@pytest.mark.full
def test_a_key_that_only_reads_decides_nothing(visit: Visit, staged: Serving, waiting: str) -> None:
    page = visit(new_key(staged, "read")).see(f"/runs/{waiting}", "This key may not decide")
    for name in ("Approve", "Cancel"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


@pytest.mark.full
def test_a_run_is_watched_live_and_cancelled(visit: Visit, staged: Serving, operator: str) -> None:
    run = ask(staged, "slow", "Speak.", operator)
    page = visit().see(f"/runs/{run}", "running")
    expect(page.locator(".span-row.is-live")).to_contain_text("word1 word2")
    page.locator(".span-row.is-live").click()
    expect(page.locator(".bench-detail")).to_contain_text("word10")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".run-facts")).to_contain_text("cancelled")


@pytest.mark.full
def test_a_run_is_replayed_with_its_grammar_and_forked(visit: Visit, scenes: Scenes) -> None:
    who = visit()
    page = who.see(f"/runs/{scenes.plain}", "Sarah Bernhardt died at 78")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("decides alike at each step")).to_be_visible()
    choose(page, "→ search")
    expect(page.locator(".bench-detail")).to_contain_text("What the reply could be")
    choose(page, "1923 - 1844")
    page.get_by_role("button", name="Fork from here").click()
    page.get_by_label("Output of calculate").fill("78")
    expect(page.get_by_label("Agent that goes on").get_by_role("option", name="echo")).to_be_attached()
    assert who.violations() == []
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page.get_by_text("Forked from")).to_be_visible()
    expect(page.locator(".outcome")).to_contain_text("I do not know.")
    page.get_by_role("link", name="step 3").click()
    expect(page.get_by_text("Forks:")).to_be_visible()


@pytest.mark.full
def test_a_run_is_exported_and_imported(visit: Visit, scenes: Scenes, tmp_path: Path) -> None:
    page = visit().see(f"/runs/{scenes.team}", "half a year before")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    file = tmp_path / "run.json"
    download.value.save_as(file)
    assert download.value.suggested_filename == f"{scenes.team}.json"
    page.get_by_role("link", name="Runs").first.click()
    page.locator("input[type=file]").set_input_files(file)
    page.wait_for_url(re.compile(r"/studio/runs/run_"))
    page.get_by_text("half a year before").first.wait_for()
    assert scenes.team not in page.url


@pytest.mark.full
def test_a_file_that_holds_no_run_is_refused(visit: Visit, scenes: Scenes, tmp_path: Path) -> None:
    who = visit()
    page = who.see("/", "Is anybody there?")
    (tmp_path / "a.json").write_text("nothing")
    page.locator("input[type=file]").set_input_files(tmp_path / "a.json")
    expect(page.get_by_role("alert")).to_contain_text("a.json holds no JSON")
    (tmp_path / "b.json").write_text("{}")
    page.locator("input[type=file]").set_input_files(tmp_path / "b.json")
    expect(page.get_by_role("alert")).to_contain_text("cannot be imported")
    who.troubles[:] = [one for one in who.troubles if "400" not in one]


@pytest.mark.full
def test_a_thread_is_a_conversation(visit: Visit, scenes: Scenes) -> None:
    page = visit().see(f"/threads/{scenes.thread}", "And how old is that in days?")
    expect(page.locator(".entry")).to_have_count(4)
    page.get_by_role("link", name="run", exact=True).first.click()
    page.get_by_role("link", name="Thread").click()
    page.get_by_role("link", name="Its runs").click()
    expect(page.locator("tbody tr")).to_have_count(2)


@pytest.mark.full
def test_a_conversation_is_shown_like_a_thread(visit: Visit, staged: Serving, operator: str) -> None:
    made = request(staged, "POST", "/v1/conversations", {}, key=operator).body["id"]
    said = {"model": "researcher", "input": "How old did Sarah Bernhardt get?", "conversation": made}
    assert request(staged, "POST", "/v1/responses", said, key=operator).status == 200
    page = visit().see(f"/threads/{made}", "died at 78")
    expect(page.locator("aside .run-list li")).to_have_count(1)
