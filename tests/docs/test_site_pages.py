"""The site's pages have everything that the code offers, and nothing that is not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
import yaml
from manual.bar_chart import Bar, bar_chart
from manual.benchmark_page import CHARTS, benchmark_page
from manual.inline_figures import with_figures
from manual.page_links import on_site
from manual.python_reference import names_to_extend, public_names

from docs.test_docs import ROOT
from retinue.cli.main import cli
from retinue.server.app import routes


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    from manual.__main__ import write_pages

    write_pages(folder)
    return folder


def read(site: Path, name: str) -> str:
    return (site / "docs" / name).read_text(encoding="utf-8")


def test_every_public_name_is_on_one_page(site: Path) -> None:
    text = "".join(page.read_text("utf-8") for page in (site / "docs/reference/python").iterdir())
    for name in (*public_names(), *names_to_extend()):
        assert len(re.findall(rf"^::: {re.escape(name)}$", text, re.MULTILINE)) == 1, name


def test_every_command_is_there(site: Path) -> None:
    page, context = read(site, "reference/cli.md"), click.Context(cli)
    for name in cli.list_commands(context):
        assert f"\n## `retinue {name}`\n" in page
        command = cli.get_command(context, name)
        for inner in command.commands.values() if isinstance(command, click.Group) else ():
            assert inner.hidden or f"\n### `retinue {name} {inner.name}`\n" in page


def test_every_route_is_there(site: Path) -> None:
    page = read(site, "reference/http.md")
    for route in routes():
        if getattr(route, "include_in_schema", False):
            path = re.sub(r":path}", "}", str(getattr(route, "path", "")))
            assert f" {path}` |" in page


def test_every_key_of_files_is_there(site: Path) -> None:
    page = read(site, "reference/yaml.md")
    schema = json.loads((ROOT / "docs" / "retinue.schema.json").read_text("utf-8"))
    for part in (schema, *schema["$defs"].values()):
        assert [key for key in part.get("properties", {}) if f"\n| `{key}` |" not in page] == []


def test_each_page_is_in_the_navigation_once(site: Path) -> None:
    navigation = yaml.safe_load((site / "mkdocs.yml").read_text("utf-8"))["nav"]
    named = re.findall(r"'?([\w/.-]+\.md)", json.dumps(navigation))
    pages = [str(page.relative_to(site / "docs")) for page in (site / "docs").rglob("*.md")]
    assert sorted(named) == sorted(pages), "add it to the navigation in manual/mkdocs.yml"


def test_each_chart_is_drawn_of_its_table(tmp_path: Path) -> None:
    results = ROOT / "bench" / "RESULTS.md"
    assert benchmark_page(results).count('<figure class="drawn chart">') == len(CHARTS)
    (tmp_path / "RESULTS.md").write_text(results.read_text("utf-8").replace("| recall@5 |", "| recall at 5 |"), "utf-8")
    with pytest.raises(ValueError, match=r"no table with .*recall@5.* under '## Finding the passages'"):
        benchmark_page(tmp_path / "RESULTS.md")


def test_a_bar_is_as_long_as_its_value_and_a_label_is_text() -> None:
    chart = bar_chart("a < b", [[Bar("<one>", 1, "1")], [Bar("two", 2, "2 %", 1.5, 2.5)]])
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', chart)]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert "&lt;one&gt;" in chart
    assert "a &lt; b" in chart
    assert chart.count('class="whisker"') == 1


def test_links_out_of_docs_lead_to_pages() -> None:
    text = "[a](../bench/RESULTS.md#telemetry) [b](../examples/web_search.py) [c](server.md) [d](https://a.b/c)"
    assert on_site(text, Path("agents.md")) == (
        "[a](benchmarks.md#telemetry) [b](examples.md#web-search) [c](server.md) [d](https://a.b/c)"
    )
    assert on_site("[a](../../bench/RESULTS.md) [b](../tour.md)", Path("explained/log.md")) == (
        "[a](../benchmarks.md) [b](../tour.md)"
    )


def test_a_drawing_is_in_its_page_without_colours_of_its_own() -> None:
    folder = ROOT / "docs" / "explained"
    page = with_figures("![A call & more](effects.svg)\n", folder)
    assert 'aria-label="A call &amp; more"' in page
    assert "<style>" not in page
    assert with_figures("![a](none.svg)", folder) == "![a](none.svg)"


def test_nothing_of_the_theme_is_loaded_from_elsewhere() -> None:
    config = yaml.safe_load((ROOT / "manual" / "mkdocs.yml").read_text("utf-8"))
    assert config["theme"]["font"] is False
    styles = (ROOT / "manual" / "assets" / "site.css").read_text("utf-8")
    assert not re.search(r"url\(|@import|https?://", styles)
    assert all((ROOT / "manual" / script).is_file() for script in config["extra"]["polyfills"])
