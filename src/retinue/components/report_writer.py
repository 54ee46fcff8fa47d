"""`ReportWriter`: a report as files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from .._internal.extras import check_extra
from .._internal.files import replace_file
from ..core.component import Component
from ..errors import ToolError

MAX_REPORT = 50_000  # characters; strange ones may take time that grows with the square
_NAME = 80  # characters
_HEADING = "Sources"
_NOT_IN_NAMES = re.compile(r"[^\w]+")
_PAGE = """\
<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif; }}</style>
</head>
<body>
{body}</body>
</html>
"""


class WrittenReport(TypedDict):
    """`files`: the names of the files in the folder. `sources`: the addresses that the report links to. `results`: the
    text for a model."""

    files: list[str]
    sources: list[str]
    results: str


class ReportWriter(Component):
    """Writes a report in Markdown into `folder`, as it is and as a page in HTML.

    A heading with the title is added if there is none, and so is a list of the sources, which are all links of the
    report. The files are called after the title, so nothing outside the folder can be written, and a report with the
    same title takes the place of the former one. HTML in the report is shown as text, images are links, and links to
    anything but addresses of the web, mail and files beside the report are not links. Raises `UsageError` without the
    extra `documents`.
    """

    effects = "idempotent"

    def __init__(self, folder: str | Path, *, name: str = "ReportWriter") -> None:
        check_extra(name, "documents", "markdown_it")
        self.name = name
        self.folder = Path(folder).expanduser()

    def run(self, title: str, report: str) -> WrittenReport:
        """Write a report, in Markdown, into files. Each statement should have a link to its source.

        Raises `ToolError` if there is no title or text, the report is longer than 50,000 characters, or the files
        cannot be written.
        """
        from markdown_it import MarkdownIt

        name, title = make_file_name(title), " ".join(title.split())
        if not name or not report.strip():
            raise ToolError("a report has a title, with letters or digits in it, and a text")
        if len(report) > MAX_REPORT:
            raise ToolError(f"the report is longer than {MAX_REPORT:,} characters")
        parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
        tokens = parser.parse(report)
        links = _find_links(tokens)
        text = _complete_report(title, report, links, tokens)
        page = _PAGE.format(title=escape(title), body=parser.render(text))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / f"{name}.md", text)
            replace_file(self.folder / f"{name}.html", page)
        except OSError as error:
            raise ToolError(f"the report cannot be written: {error.strerror or error}") from error
        told = f"Written: {name}.md and {name}.html, with {len(links)} sources."
        return {"files": [f"{name}.md", f"{name}.html"], "sources": list(links), "results": told}

    def tool_function(self, title: str, report: str) -> str:
        """Write a report, in Markdown, into files. Each statement should have a link to its source."""
        return self.run(title, report)["results"]


def make_file_name(title: str) -> str:
    """Return the name for the files of a report, without an ending: letters, digits and hyphens of its title."""
    words = _NOT_IN_NAMES.sub("-", unicodedata.normalize("NFC", title).replace("_", " ")).strip("-").lower()
    while len(words.encode()) > _NAME:
        words = words[:-1].rstrip("-")
    return words


def _complete_report(title: str, report: str, links: dict[str, str], tokens: Sequence[Any]) -> str:
    """Return the report with what it lacks: a heading, and the list of its sources."""
    headings = [(one.tag, inline.content) for one, inline in pairwise(tokens) if one.type == "heading_open"]
    head = "" if headings and headings[0][0] == "h1" else f"# {title}\n\n"
    listed = "".join(f"{at}. [{text}]({link})\n" for at, (link, text) in enumerate(links.items(), 1))
    missing = listed and not any(text.strip().lower() == _HEADING.lower() for _, text in headings)
    return f"{head}{report.strip()}\n" + (f"\n## {_HEADING}\n\n{listed}" if missing else "")


def _find_links(tokens: Sequence[Any]) -> dict[str, str]:
    """Return the report's links in their order, each with its first text."""
    links: dict[str, str] = {}
    for children in (token.children or [] for token in tokens):
        for opening, inner in pairwise(children):  # a link has an end, so something follows
            if opening.type == "link_open":
                link = str(opening.attrGet("href"))
                text = inner.content if inner.type in ("text", "code_inline") else ""
                links.setdefault(link, re.sub(r"[\[\]\\]", "", text) or link)
    return links
