"""Figures within their pages, where they take on the page's colours: a drawing of its own follows only the system's."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

_FIGURE = re.compile(r"^!\[(?P<says>[^\]]+)\]\((?P<file>[\w./-]+\.svg)\)$", re.MULTILINE)


def with_figures(text: str, folder: Path) -> str:
    """The text of a page in `folder`, whose drawings (SVG, alone on a line) are in the page itself."""

    def inlined(found: re.Match[str]) -> str:
        file = folder / found["file"]
        if not file.is_file() or "<style>" not in (drawing := file.read_text(encoding="utf-8")):
            return found[0]
        drawing = re.sub(r"<style>.*?</style>", "", drawing, flags=re.DOTALL)
        drawing = re.sub(r"<svg ", f'<svg role="img" aria-label="{escape(found["says"])}" ', drawing, count=1)
        return f'<figure class="drawn">{"".join(line.strip() for line in drawing.splitlines())}</figure>'

    return _FIGURE.sub(inlined, text)
