"""How quick the studio is: its first view, a run of 1,000 steps, and how soon a step is seen."""

from __future__ import annotations

import statistics
from typing import Any

from playwright.sync_api import Browser

from fakes.app_server import Serving
from fakes.studio_browser import Visitor
from fakes.studio_scenes import ask, request, rests
from retinue import Agent, Budget, PromptModel, tool

_TIMES, _STEPS = 5, 15
_LONG_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
}).observe({ type: "longtask", buffered: true });
"""
_SEEN = """
window.seen = [];
const look = () => {
    const rows = document.querySelectorAll(".span-row").length;
    while (window.seen.length < rows) window.seen.push(Date.now() / 1000);
    requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
_SCROLL = """async () => {
    window.longest = 0;
    const box = document.querySelector(".virtual");
    for (let at = 0; at <= 120; at++) {
        box.scrollTop = (box.scrollHeight * at) / 120;
        await new Promise((done) => requestAnimationFrame(done));
    }
    return window.longest;
}"""


@tool(effects="read")
def count(to: int) -> str:
    """Count."""
    return f"{to}!"


def paced() -> Agent:
    """An agent that takes a step each fifth of a second."""
    rules: list[Any] = [
        {"when": "", "call": {"tool": "count", "input": {"to": to}}, "delay": 0.2, "times": 1} for to in range(_STEPS)
    ]
    model = PromptModel(script=[*rules, {"when": "", "finish": "Counted."}])
    return Agent(model, [count], name="paced", strategy="tool_calling", budget=Budget(steps=2 * _STEPS))


def measure(browser: Browser, served: Serving, key: str, long: str) -> str:
    """The section for RESULTS.md."""
    rows = [*_first_view(browser, served, key), *_thousand(browser, served, key, long), *_live(browser, served, key)]
    return "| what | measured | wanted |\n|---|---|---|\n" + "\n".join(
        f"| {what} | {told} | {wanted} |" for what, told, wanted in rows
    )


def _first_view(browser: Browser, served: Serving, key: str) -> list[tuple[str, str, str]]:
    times, sizes = [], [0.0]
    for _ in range(_TIMES):
        who = Visitor(browser, served.url, key)
        devtools = who.context.new_cdp_session(who.page)
        devtools.send("Network.enable")
        loaded: list[float] = []
        devtools.on("Network.loadingFinished", lambda one, loaded=loaded: loaded.append(one["encodedDataLength"]))
        page = who.see("/")
        page.locator("tbody tr").first.wait_for()
        times.append(page.evaluate("performance.now()"))
        sizes.append(sum(loaded))
        who.context.close()
    return [
        ("first view of the runs, nothing cached: median", f"{statistics.median(times):.0f} ms", "under 1,000 ms"),
        ("transferred for it", f"{max(sizes) / 1000:.0f} kB", "under 300 kB"),
    ]


def _thousand(browser: Browser, served: Serving, key: str, long: str) -> list[tuple[str, str, str]]:
    who = Visitor(browser, served.url, key)
    who.page.add_init_script(_LONG_TASKS)
    page = who.see(f"/runs/{long}")
    page.locator(".span-row").first.wait_for()
    first = page.evaluate("performance.now()")
    page.get_by_text("2,000 spans").wait_for()
    whole = page.evaluate("performance.now()")
    loading, scrolling = page.evaluate("window.longest"), page.evaluate(_SCROLL)
    who.context.close()
    return [
        ("a run of 1,000 steps: its first rows, nothing cached", f"{first:.0f} ms", ""),
        ("all of its 4,000 events", f"{whole:.0f} ms", ""),
        ("the longest task while it loads", f"{loading:.0f} ms", ""),
        ("the longest task while it is scrolled through", f"{scrolling:.0f} ms", "under 100 ms"),
    ]


def _live(browser: Browser, served: Serving, key: str) -> list[tuple[str, str, str]]:
    who = Visitor(browser, served.url, key)
    who.page.add_init_script(_SEEN)
    who.see("/", "Is anybody there?")
    run = ask(served, "paced", "Count.", key)
    page = who.see(f"/runs/{run}")
    page.get_by_text("Counted.").first.wait_for()
    assert rests(served, run, key) == "completed"
    log = request(served, "GET", f"/v1/runs/{run}/events?limit=1000", key=key).body["data"]
    at = [one["created_at"] for one in log if one["type"] in ("asked", "called")]
    late = [(seen - began) * 1000 for seen, began in zip(page.evaluate("window.seen"), at, strict=True)][-_STEPS:]
    who.context.close()
    told = f"{statistics.median(late):.0f} ms, at most {max(late):.0f} ms"
    return [(f"a step is on the page after it began ({_STEPS} spans): median", told, "within 300 ms")]
