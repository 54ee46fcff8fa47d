"""Make the pages of the site: those of `docs`, and the references out of the code. `python -m manual FOLDER`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from .benchmark_page import benchmark_page
from .cli_reference import cli_page
from .example_pages import example_pages
from .http_reference import http_page
from .inline_figures import with_figures
from .page_links import on_site
from .python_reference import python_pages
from .site_config import site_config
from .yaml_reference import yaml_page

ROOT = Path(__file__).parents[1]


def generated() -> dict[str, str]:
    """The pages that are in no folder, by their places in the site."""
    return {
        "benchmarks.md": benchmark_page(ROOT / "bench" / "RESULTS.md"),
        "reference/cli.md": cli_page(),
        "reference/http.md": http_page(),
        "reference/yaml.md": yaml_page(),
        **python_pages(),
        **example_pages(ROOT / "examples"),
    }


def write_pages(folder: Path) -> None:
    """Write everything of which the site is built into `folder`, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "manual" / "assets", folder / "docs" / "assets")
    shutil.copy(ROOT / "manual" / "index.md", folder / "docs")
    for figure in (ROOT / "bench").glob("*.svg"):
        shutil.copy(figure, folder / "docs" / "assets")
    for page in [*(folder / "docs").rglob("*.md")]:
        place = page.relative_to(folder / "docs")
        text = on_site(page.read_text(encoding="utf-8"), place)
        page.write_text(with_figures(text, page.parent), encoding="utf-8")
    for name, text in generated().items():
        (folder / "docs" / name).parent.mkdir(exist_ok=True)
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    config = site_config(ROOT / "manual" / "mkdocs.yml", folder / "docs", ROOT)
    (folder / "mkdocs.yml").write_text(config, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]).resolve())
