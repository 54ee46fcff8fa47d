"""What hooks said of a run, and what a person always allows, in a browser, also a small one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes.app_server import Serving
from fakes.studio_browser import DESK, PHONE, Visitor, expect
from fakes.studio_scenes import ask, request, rests, search, send_mail
from retinue import Agent, PromptModel
from retinue.guardrails import PersonalData, ToolsByUser
from retinue.store.api_keys import create_key

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MAIL = {"to": "ada@example.org", "subject": "Tea", "body": "It is healthy."}


def clerk() -> Agent:
    calls = [{"tool": "search", "input": {"query": "tea"}}, {"tool": "send_mail", "input": MAIL}]
    script = [{"when": "", "call": one, "times": 1} for one in calls]
    return Agent(
        PromptModel(script=[*script, {"when": "", "finish": "Ada was told."}]),
        [search, send_mail],
        name="clerk",
        strategy="tool_calling",
        require_human_feedback=["send_mail"],
        hooks=[PersonalData(), ToolsByUser({"*": ["send_mail"]})],
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, {"clerk": clerk()}) as server:
        yield server


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_verdicts_stand_at_their_place_and_a_person_may_allow_for_always(
    chromium: Browser, served: Serving, size: tuple[int, int]
) -> None:
    made = partial(create_key, tenant="default", user="ann", scopes=["all", "prompts"])
    key: str = served.in_loop(served.database.write(made))
    run = ask(served, "clerk", "I am bob@example.org. Tell Ada about tea.", key)
    assert rests(served, run, key) == "requires_action"
    visitor = Visitor(chromium, served.url, key, size=size)
    page = visitor.see(f"/runs/{run}", "Waiting for you")
    expect(page.locator(".span-hook")).to_have_count(2)
    expect(page.locator(".span-row").nth(0)).to_contain_text("the question: 1 email masked")
    page.locator(".span-hook").filter(has_text="blocked").click()
    expect(page.locator(".bench-detail")).to_contain_text("the user ann may not call search")
    if size == PHONE:
        page.get_by_role("button", name="Back to the list").click()
    page.get_by_role("button", name="Always…").click()
    page.get_by_label("to", exact=True).fill("*@example.org")
    page.get_by_role("button", name="Always approve").click()
    expect(page.get_by_text("Ada was told.").first).to_be_visible()
    (policy,) = request(served, "GET", "/v1/policies", key=key).body["data"]
    assert (policy["always"], policy["arguments"]) == ({"to": "*@example.org"}, MAIL)
    assert visitor.troubles == []
    visitor.context.close()
