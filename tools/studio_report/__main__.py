"""`python -m studio_report`: take the pictures of docs/studio, and measure the studio into bench/RESULTS.md."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import click
from bench.report import replace_section
from playwright.sync_api import Browser

from fakes import studio_browser
from fakes.app_server import Serving
from fakes.long_agents import OPEN, lead
from fakes.long_work import add_long_work
from fakes.studio_scenes import agents, ask, new_key, play, rests

from .figures import measure, paced
from .pictures import take
from .view_pictures import shown_runs, staged_views, take_views

ROOT = Path(__file__).parents[2]


@click.command()
@click.option("--pictures/--no-pictures", default=True, help="Take the pictures.")
@click.option("--figures/--no-figures", default=True, help="Measure.")
def main(pictures: bool, figures: bool) -> None:
    """Take the pictures of docs/studio, and write how quick the studio is into bench/RESULTS.md."""
    deployed = {**agents(), "paced": paced(), "lead": lead()}
    with tempfile.TemporaryDirectory() as folder, Serving(Path(folder), deployed) as served:
        key = new_key(served, "all", "prompts")
        scenes = play(served, key)
        work, helpers = add_long_work(served), ask(served, "lead", "See whether we can go in.", key)
        OPEN.set()
        rests(served, helpers, key)
        with studio_browser.browser() as browser:
            if pictures:
                for name in take(browser, served.url, key, scenes, work, helpers, ROOT / "docs" / "studio"):
                    click.echo(name)
                for name in _views(browser):
                    click.echo(name)
            if figures:
                _report(browser, served, key, scenes.long)


def _views(browser: Browser) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, staged_views(Path(folder)) as served:
        shown, key = shown_runs(served)
        yield from take_views(browser, served, shown, key, ROOT / "docs" / "studio")


def _report(browser: Browser, served: Serving, key: str, long: str) -> None:
    told = measure(browser, served, key, long)
    click.echo(told)
    head = f"`make studio`, {date.today().isoformat()}, Python {platform.python_version()}, Chromium {browser.version}."
    replace_section(ROOT / "bench" / "RESULTS.md", "studio", f"{head}\n\n{told}\n")


if __name__ == "__main__":
    main()
