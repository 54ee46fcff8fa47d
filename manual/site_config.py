"""The site's configuration: that of `mkdocs.yml` here, with folders in the navigation replaced by their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def site_config(file: Path, pages: Path, root: Path) -> str:
    """The configuration with which the pages in `pages` are built into `site` of `root`."""
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["nav"] = _expanded(config["nav"], pages)
    config["docs_dir"], config["site_dir"] = str(pages), str(root / "site")
    (reference,) = [one["mkdocstrings"] for one in config["plugins"] if "mkdocstrings" in one]
    python = reference["handlers"]["python"]
    python["paths"] = [str(root / "src")]
    python["options"]["extensions"] = [str(root / "manual" / "doctest_blocks.py")]
    text: str = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    return text


def _expanded(nav: list[Any], pages: Path) -> list[Any]:
    """The navigation in which a pattern such as `migrating/*.md` stands for the pages there; without empty groups."""
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and "*" in entry:
            found += [str(page.relative_to(pages)) for page in sorted(pages.glob(entry))]
        elif isinstance(entry, dict) and isinstance(inner := next(iter(entry.values())), list):
            if within := _expanded(inner, pages):
                found.append({next(iter(entry)): within})
        else:
            found.append(entry)
    return found
