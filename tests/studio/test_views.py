"""The studio's playground, comparisons, agents and evaluations in a real browser, on a real server's runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from fakes.app_server import Serving
from fakes.pictures import png
from fakes.shown_agents import HOSTILE, MARKED_UP, evaluated, shown_agents
from fakes.studio_browser import PHONE, Visitor, browser, expect
from fakes.until import until
from retinue import Agent, PromptModel, tool
from retinue.server.context import Options
from retinue.store.api_keys import create_key

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload

BEGUN = threading.Event()


@tool(effects="read")
async def dawdle(reason: str) -> str:
    """Take for ever."""
    BEGUN.set()
    await asyncio.sleep(600)
    return reason


def sloth() -> Agent:
    script = [{"when": "", "call": {"tool": "dawdle", "input": {"reason": "none"}}}]
    return Agent(PromptModel(script=script), [dawdle], name="sloth", strategy="tool_calling")


class Site:
    """A server with runs of each kind; `runs` has their ids by name."""

    def __init__(self, served: Serving) -> None:
        self.url = served.url
        with served.database.engine.begin() as connection:
            self.operator = create_key(connection, scopes=("all", "prompts"))
            self.plain = create_key(connection, scopes=("all",))
            self.stranger = create_key(connection, tenant="other", scopes=("all",))
        self._served = served
        self.runs: dict[str, str] = {
            "review": self._run("review", "Paris"),
            "boss": self._run("boss", "How is Rome?"),
            "wet": self._run("waiter", "How is the weather in Paris?"),
            "polite": self._run("waiter", "Hello"),
            "hostile": self._run("waiter", f"Give me the report. {HOSTILE}"),
        }

        self.runs["fork"] = self._fork(self.runs["wet"], "In Paris the sun shines, at 14 °C.")

    def _fork(self, run: str, seen: str) -> str:
        """A fork that saw something else in its first step, once it has ended."""
        given = {"step": 1, "observations": {"call_1_0": seen}}
        answer = self._served.ask("POST", f"/v1/runs/{run}/fork", given, key=self.operator)
        assert answer.status == 200, answer.text
        path = f"/v1/runs/{answer.body['id']}"
        until(lambda: self._served.ask("GET", path, key=self.operator).body["status"] == "completed")
        return str(answer.body["id"])

    def _run(self, model: str, text: str) -> str:
        answer = self._served.ask("POST", "/v1/responses", {"model": model, "input": text}, key=self.operator)
        assert answer.status == 200, answer.text
        return f"run_{answer.body['id'].partition('_')[2]}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    evals = tmp_path_factory.mktemp("evals")
    evaluated(evals / "lakes")
    agents = {**shown_agents(), "sloth": sloth()}
    with Serving(tmp_path_factory.mktemp("served"), agents, options=Options(evals=evals)) as served:
        yield Site(served)


@pytest.fixture(scope="module")
def chromium(site: Site) -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.fixture
def visitor(site: Site, chromium: Browser) -> Iterator[Visitor]:
    """The operator, whose pages must do nothing wrong."""
    one = Visitor(chromium, site.url, site.operator)
    yield one
    assert one.troubles == []
    assert one.pwned() is None
    one.context.close()


# ── the playground ───────────────────────────────────────────────────────────────────────────────


def say(page: Any, text: str) -> None:
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")


def opened_run(page: Any) -> str:
    """The run that the newest answer leads to."""
    href = page.get_by_role("link", name="Open the run").last.get_attribute("href") or ""
    return str(href.rpartition("/")[2])


def test_an_answer_is_streamed_with_its_steps_and_leads_to_its_run(visitor: Visitor) -> None:
    page = visitor.see("/playground?agent=waiter", "Say something to waiter")
    say(page, "How is the weather in Paris?")
    expect(page.locator(".answer .speech")).to_have_text(
        "It rains in Paris. Take an umbrella, and a coat: it is 14 °C."
    )
    step = page.locator(".step-row")
    expect(step).to_contain_text("look")
    step.locator("summary").click()
    expect(step).to_contain_text("In Paris it rains, at 14 °C.")
    run = visitor.api(f"/v1/runs/{opened_run(page)}")
    assert (run["model"], run["status"]) == ("waiter", "completed")


@pytest.mark.full
def test_a_suggested_question_is_asked_by_a_click_and_only_first(visitor: Visitor) -> None:
    page = visitor.see("/playground?agent=waiter", "Say something")
    suggested = page.get_by_role("list", name="What you may ask").get_by_role("button")
    expect(suggested).to_have_text(["How is the weather in Paris?", MARKED_UP])
    page.locator("#message").fill("half a thought")
    suggested.first.click()
    expect(page.locator(".asked p")).to_have_text("How is the weather in Paris?")
    expect(page.locator(".ended")).to_have_count(1)
    expect(page.locator("#message")).to_have_value("half a thought")
    expect(suggested).to_have_count(0)
    run = visitor.api(f"/v1/runs/{opened_run(page)}/events")["data"][0]["data"]
    assert run["question"] == "How is the weather in Paris?"
    page.get_by_role("button", name="New conversation").click()
    expect(suggested).to_have_count(2)
    page.locator("#agent").select_option("sloth")
    expect(page.get_by_text("Say something to sloth")).to_be_visible()
    expect(suggested).to_have_count(0)


@pytest.mark.full
def test_shift_enter_begins_a_line_and_the_conversation_goes_on(visitor: Visitor) -> None:
    page = visitor.see("/playground?agent=waiter", "Say something")
    box = page.locator("#message")
    box.fill("one")
    box.press("Shift+Enter")
    box.type("two")
    box.press("Enter")
    expect(page.locator(".asked p")).to_have_text("one\ntwo")
    expect(page.locator(".ended")).to_have_count(1)
    say(page, "and again")
    expect(page.locator(".ended")).to_have_count(2)
    first, second = visitor.api("/v1/runs?model=waiter&limit=2")["data"][::-1]
    history = visitor.api(f"/v1/runs/{second['id']}/events")["data"][0]["data"]["history"]
    assert history[0]["content"] == "one\ntwo", first


DECIDED = {
    "approve": "You approved book.",
    "edit": "You edited and approved book.",
    "reject": "You rejected book.",
    "answer": "You answered in place of book.",
}


@pytest.mark.parametrize(
    ("decision", "answer", "output"),
    [
        ("approve", "your table is booked", "A table for 2 at Nopi is booked"),
        ("edit", "your table is booked", "A table for 5 at Nopi is booked"),
        ("reject", "", "too late"),
        ("answer", "your table is booked", "It is booked for eight"),
    ],
)
def test_what_waits_is_decided_inline(visitor: Visitor, decision: str, answer: str, output: str) -> None:
    page = visitor.see("/playground?agent=waiter", "Say something")
    say(page, "A table, please.")
    card = page.get_by_role("region", name="book waits for a decision")
    expect(card).to_contain_text('"place": "Nopi"')
    expect(card).to_contain_text("only with a person's approval")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    if decision == "approve":
        card.get_by_role("button", name="Approve").click()
    else:
        card.get_by_role("button", name=f"{decision.capitalize()}…").click()
    if decision == "edit":
        card.get_by_role("textbox").fill('{"place": ')
        card.get_by_role("button", name="Approve with these arguments").click()
        expect(card.get_by_role("alert")).to_contain_text("JSON object")
        card.get_by_role("textbox").fill('{"place": "Nopi", "people": 5}')
        card.get_by_role("button", name="Approve with these arguments").click()
    elif decision == "reject":
        card.get_by_role("textbox").fill("It is too late.")
        card.get_by_role("button", name="Reject").click()
    elif decision == "answer":
        card.get_by_role("textbox").fill("It is booked for eight.")
        card.get_by_role("button", name="Send this answer").click()
    expect(page.locator(".answer")).to_contain_text(DECIDED[decision])
    if answer:
        expect(page.locator(".speech").last).to_contain_text(answer)
    expect(page.locator(".ended")).to_contain_text("Open the run")
    events = visitor.api(f"/v1/runs/{opened_run(page)}/events?limit=100")["data"]
    seen = [one["data"]["observation"]["text"] for one in events if one["type"] == "observed"]
    assert any(output in text for text in seen), seen


def test_a_run_is_stopped(visitor: Visitor) -> None:
    page = visitor.see("/playground?agent=sloth", "Say something")
    say(page, "Do it.")
    expect(page.locator(".progress")).to_contain_text("dawdle is running")
    assert BEGUN.wait(10)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".ended")).to_contain_text("cancelled")
    assert visitor.api("/v1/runs?model=sloth")["data"][0]["status"] == "cancelled"


def test_images_and_files_are_sent(visitor: Visitor) -> None:
    page = visitor.see("/playground?agent=waiter", "Say something")
    files: list[FilePayload] = [
        {"name": "dot.png", "mimeType": "image/png", "buffer": png()},
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"All of it is secret."},
    ]
    page.locator("input[type=file]").set_input_files(files)
    expect(page.locator(".composer .parts li")).to_have_count(2)
    say(page, "What is this?")
    expect(page.locator(".asked img")).to_have_attribute("alt", "dot.png")
    expect(page.locator(".ended")).to_have_count(1)
    started = visitor.api(f"/v1/runs/{visitor.api('/v1/runs?limit=1')['data'][0]['id']}/events")["data"][0]["data"]
    assert len(started["files"]) == 1
    assert "All of it is secret." in started["question"]


@pytest.mark.full
def test_a_refusal_is_told_in_one_line(visitor: Visitor, site: Site) -> None:
    page = visitor.see("/playground?agent=waiter", "Say something")
    page.route("**/v1/responses", lambda route: route.continue_(post_data='{"model": "nobody", "input": "x"}'))
    say(page, "Hello?")
    expect(page.get_by_role("alert")).to_contain_text("The model 'nobody' does not exist")
    assert [one for one in visitor.troubles if "404" not in one] == []
    visitor.troubles.clear()  # the browser's own line on the refusal


@pytest.mark.full
def test_a_conversation_survives_other_views_but_no_other_key(visitor: Visitor, site: Site) -> None:
    page = visitor.see("/playground?agent=waiter", "Say something")
    say(page, "Hello there")
    expect(page.locator(".ended")).to_have_count(1)
    page.get_by_role("link", name="Agents").click()
    page.get_by_role("link", name="Playground").click()
    expect(page.locator(".asked p")).to_have_text("Hello there")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("API key").fill(site.stranger)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Say something to")).to_be_visible()
    assert "Hello there" not in page.content()


# ── agents ───────────────────────────────────────────────────────────────────────────────────────


def test_a_graph_is_drawn_with_the_path_of_a_run(visitor: Visitor, site: Site) -> None:
    page = visitor.see("/agents", "review")
    page.get_by_role("link", name="review").click()
    expect(page.locator(".node")).to_have_count(8)
    assert page.locator(".node-used").count() == 0
    page.locator("#path-run").select_option(site.runs["review"])
    expect(page.locator(".node-waits")).to_contain_text("editor")
    assert page.locator(".edge-walked").count() == 5  # START, research, write, grade, and back once; the gate waits
    expect(page.get_by_role("button", name="write, function, ran twice, in step 2, 4")).to_be_visible()
    assert f"run={site.runs['review']}" in page.url


@pytest.mark.full
def test_a_node_is_chosen_by_keyboard_and_told_as_a_list(visitor: Visitor, site: Site) -> None:
    page = visitor.see(f"/agents/review?run={site.runs['review']}", "START")
    page.get_by_role("button", name="grade").focus()
    page.keyboard.press("Enter")
    detail = page.get_by_role("complementary", name="grade")
    expect(detail).to_contain_text("In this run")
    expect(detail).to_contain_text('"draft": "Rain."')
    page.get_by_text("As a list").click()
    expect(page.locator(".as-list li").filter(has_text="grade, function")).to_contain_text("editor (good)")


@pytest.mark.full
def test_a_team_is_drawn_at_every_depth(visitor: Visitor, site: Site) -> None:
    page = visitor.see(f"/agents/boss?run={site.runs['boss']}", "looker")
    expect(page.locator(".node")).to_have_count(6)
    expect(page.locator(".node-used")).to_have_count(4)  # the boss, two members, and a tool of one of them
    page.get_by_role("button", name="looker").click()
    expect(page.get_by_role("complementary", name="looker")).to_contain_text("Look closely.")


@pytest.mark.full
def test_without_the_scope_prompts_structure_is_all_that_is_shown(site: Site, chromium: Browser) -> None:
    tenant = Visitor(chromium, site.url, site.plain)
    page = tenant.see("/agents/boss", "looker")
    page.get_by_role("button", name="looker").click()
    expect(page.get_by_role("complementary", name="looker")).to_contain_text("hidden from this key")
    assert "Look closely." not in page.content()
    tenant.see("/evals", "hidden from this key")
    assert tenant.troubles == []
    tenant.context.close()


# ── comparisons ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full
def test_two_runs_are_chosen_and_compared(visitor: Visitor, site: Site) -> None:
    page = visitor.see("/compare", "Compare two runs")
    page.get_by_label("A", exact=True).fill("weather in paris completed")
    sides = page.locator(".versus-pair > section")
    sides.nth(0).locator(".choice").filter(has_text="How is the weather in Paris?").last.click()
    page.get_by_label("B", exact=True).fill("hello")
    sides.nth(1).locator(".choice").filter(has_text="Hello").last.click()
    expect(page.locator(".differs").filter(has_text="Question")).to_be_visible()
    expect(page.get_by_text("Here they part")).to_be_visible()
    expect(page.locator(".versus-pair").first).to_contain_text("In Paris it rains")
    page.get_by_role("button", name="Swap").click()
    expect(page.locator(".versus tr").filter(has_text="Question").locator("td").first).to_have_text("Hello")


@pytest.mark.full
def test_a_fork_parts_from_its_original_where_it_was_edited(visitor: Visitor, site: Site) -> None:
    page = visitor.see("/compare", "Compare two runs")
    page.get_by_label("A", exact=True).fill(site.runs["wet"])
    sides = page.locator(".versus-pair > section")
    sides.nth(0).locator(".choice").first.click()
    sides.nth(1).locator(".choice").first.click()  # its fork is offered first
    expect(page.get_by_role("link", name=f"step 1 of {site.runs['wet']}")).to_be_visible()
    step = page.locator(".versus-pair").first
    expect(step.locator("del")).to_have_text(["it rains"])
    expect(step.locator("ins")).to_have_text(["the sun shines"])


@pytest.mark.full
def test_a_run_is_the_same_as_itself(visitor: Visitor, site: Site) -> None:
    run = site.runs["wet"]
    page = visitor.see(f"/compare?a={run}&b={run}", "The runs are the same in every step.")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".versus-pair")).to_have_count(3)


@pytest.mark.full
def test_another_tenants_run_is_not_there(site: Site, chromium: Browser) -> None:
    stranger = Visitor(chromium, site.url, site.stranger)
    stranger.see(f"/compare?a={site.runs['wet']}&b={site.runs['polite']}", "No run found with id")
    page = stranger.see(f"/agents/review?run={site.runs['review']}", "No run found with id")
    assert page.locator(".node-used").count() == 0
    assert "Paris" not in page.content()
    stranger.context.close()


# ── evaluations ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full
def test_a_report_has_tables_plots_questions_and_runs(visitor: Visitor) -> None:
    page = visitor.see("/evals", "lakes")
    page.get_by_role("link", name="lakes").click()
    expect(page.get_by_role("region", name="Answers", exact=True)).to_contain_text("75.0%")
    assert page.locator(".plot").first.locator("circle").count() == 8  # two configurations, in all and by three tags
    expect(page.get_by_role("region", name="Paired tests")).to_contain_text("careful → hasty")
    page.locator("#show").select_option("differ")
    expect(page.locator(".eval-question")).to_have_count(2)
    page.get_by_text("How deep is Lake Orlo?").click()
    page.get_by_role("button", name="Show the run").first.click()
    expect(page.locator(".step-list")).to_contain_text("In Orlo it rains, at 14 °C.")
    page.locator("#show").select_option("all")
    page.get_by_label("Search").fill("piano")
    expect(page.locator(".eval-question")).to_have_count(1)


# ── all of them ──────────────────────────────────────────────────────────────────────────────────


def paths(site: Site) -> dict[str, tuple[str, str]]:
    """Each view's address, and a text that is there when it is drawn."""
    runs = site.runs
    return {
        "playground": ("/playground?agent=waiter", "Say something"),
        "agents": ("/agents", "research, write"),
        "graph": (f"/agents/review?run={runs['review']}", "START"),
        "team": ("/agents/boss", "poet"),
        "pipeline": ("/agents/sorting", "Statement"),
        "choice": ("/compare", "waiter ·"),
        "comparison": (f"/compare?a={runs['wet']}&b={runs['hostile']}", "Here they part"),
        "evaluations": ("/evals", "lakes"),
        "evaluation": ("/evals/lakes", "Paired tests"),
    }


def opened(page: Any, view: str) -> None:
    """Open what a view has folded."""
    if view == "evaluation":
        for at in range(page.locator(".eval-question").count()):
            page.locator(".eval-question > summary").nth(at).click()
        page.get_by_role("button", name="Show the run").first.click()
        page.locator(".step-list").first.wait_for()
    elif view in ("graph", "team"):
        page.locator(".node").nth(1).click()
        page.get_by_text("As a list").click()
    elif view == "playground":
        say(page, "Give me the report.")
        page.locator(".ended").wait_for()
        page.locator(".step-row > summary").click()
        say(page, "Now a table.")
        page.get_by_role("button", name="Reject…").click()


CONTRAST = """axe.run({runOnly: ["color-contrast"], resultTypes: ["violations"]}).then(
    (found) => found.violations.flatMap((one) => one.nodes.map((node) => node.target)))"""


@pytest.mark.full
def test_everybody_can_use_every_view(site: Site, chromium: Browser) -> None:
    one = Visitor(chromium, site.url, site.operator, color_scheme="light", bypass_csp=True)
    found, dark = {}, {}
    for view, (path, text) in paths(site).items():
        opened(one.see(path, text), view)
        found[view] = one.violations()
        one.page.emulate_media(color_scheme="dark")
        dark[view] = one.page.evaluate(CONTRAST)
        one.page.emulate_media(color_scheme="light")
    assert {view: its for view, its in found.items() if its} == {}
    assert {view: its for view, its in dark.items() if its} == {}
    one.context.close()


@pytest.mark.full
def test_every_view_fits_a_phone(site: Site, chromium: Browser) -> None:
    one = Visitor(chromium, site.url, site.operator, size=PHONE)
    for view, (path, text) in paths(site).items():
        opened(one.see(path, text), view)
        assert not one.overflows(), view
    assert one.troubles == []
    one.context.close()


@pytest.mark.full
def test_what_strangers_wrote_is_text(visitor: Visitor, site: Site) -> None:
    for view, (path, text) in paths(site).items():
        opened(visitor.see(path, text), view)
        assert visitor.pwned() is None
    page = visitor.see(f"/compare?a={site.runs['hostile']}&b={site.runs['polite']}", "Here they part")
    assert page.locator("#view pre").filter(has_text="<script>window.__pwned=2</script>").count() >= 2
    assert page.locator("#view script, #view img, #view a[href^='javascript'], #view a[href*='evil']").count() == 0
