"""Pictures of the playground, of agents, comparisons and evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page

from fakes.app_server import Serving
from fakes.shown_agents import evaluated, shown_agents
from fakes.studio_browser import Visitor
from fakes.studio_scenes import ask, new_key, request, rests
from retinue.server.context import Options

_MOST = 150_000  # bytes of a picture
_DESK, _PHONE = (1280, 800), (390, 844)
_WANTED = {
    "": ("playground", "graph", "members", "pipeline", "compare", "evaluation"),
    "-dark": ("playground", "graph"),
    "-phone": ("playground", "graph"),
}


class Shown(NamedTuple):
    """The runs that are shown: of a graph, of a team, and one with its fork."""

    graph: str
    team: str
    original: str
    fork: str


def take_views(browser: Browser, served: Serving, shown: Shown, key: str, folder: Path) -> Iterator[str]:
    """Write the pictures, and yield their names."""
    for name, theme, size in (("", "light", _DESK), ("-dark", "dark", _DESK), ("-phone", "light", _PHONE)):
        who = Visitor(browser, served.url, key, color_scheme=theme, size=size)
        for view in _WANTED[name]:
            page = _seen(who, view, shown)
            page.wait_for_timeout(300)
            picture = page.screenshot(path=folder / f"{view}{name}.png")
            assert len(picture) < _MOST, f"{view}{name}.png has {len(picture)} bytes"
            yield f"{view}{name}.png"
        assert who.troubles == []
        who.context.close()


def staged_views(folder: Path) -> Serving:
    """The server with the agents and an evaluation."""
    evaluated(folder / "evals" / "lakes")
    return Serving(folder, shown_agents(), options=Options(evals=folder / "evals"))


def shown_runs(served: Serving) -> tuple[Shown, str]:
    """Make the runs, and a key that sees all of them."""
    key = new_key(served, "all", "prompts")
    graph, team = ask(served, "review", "Paris", key), ask(served, "boss", "How is Rome?", key)
    original = ask(served, "waiter", "How is the weather in Paris?", key)
    for run in (graph, team, original):
        rests(served, run, key)
    given: Any = {"step": 1, "observations": {"call_1_0": "In Paris the sun shines, at 14 °C."}}
    fork = request(served, "POST", f"/v1/runs/{original}/fork", given, key=key).body["id"]
    rests(served, fork, key)
    return Shown(graph, team, original, fork), key


def _seen(who: Visitor, view: str, shown: Shown) -> Page:
    match view:
        case "playground":
            page = who.see("/playground?agent=waiter", "Say something")
            _say(page, "How is the weather in Paris?")
            page.get_by_text("Take an umbrella").wait_for()
            page.locator(".ended").wait_for()
            _say(page, "Then book a table for two, please.")
            page.locator(".decision").wait_for()
            return page
        case "graph":
            page = who.see(f"/agents/review?run={shown.graph}", "START")
            page.locator(".node-waits").wait_for()
            if (page.viewport_size or {"width": 0})["width"] > 1000:
                page.get_by_role("button", name="grade").click()
            return page
        case "members":
            page = who.see(f"/agents/boss?run={shown.team}", "looker")
            page.locator(".node-used").first.wait_for()
            return page
        case "pipeline":
            return who.see("/agents/sorting", "Statement")
        case "compare":
            return who.see(f"/compare?a={shown.original}&b={shown.fork}", "Here they part")
        case _:
            return who.see("/evals/lakes", "Paired tests")


def _say(page: Page, text: str) -> None:
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")
