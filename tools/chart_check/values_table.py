"""The table of values in docs/deployment.md, which is made from values.yaml."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deployment.md"
_VALUES = ROOT / "deploy" / "chart" / "values.yaml"
_LINE = re.compile(r"(?P<indent> *)(?P<name>\w+):(?: (?P<value>[^#]*?))?(?:  # (?P<meaning>.*))?")
_BLOCK = re.compile(r"(<!-- values -->\n).*(<!-- /values -->)", re.DOTALL)


def rows() -> list[tuple[str, str, str]]:
    """Return each value that can be given: its path, its default and its meaning."""
    found: list[tuple[str, str, str]] = []
    path: list[str] = []
    for line in _VALUES.read_text("utf-8").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or len(match["indent"]) > 2 * len(path):
            continue  # a comment, or what is within a list
        path = [*path[: len(match["indent"]) // 2], match["name"]]
        if match["meaning"] is not None:
            found.append((".".join(path), (match["value"] or "").strip(), match["meaning"]))
            path = path if match["value"] is None else path[:-1]
    return found


def table() -> str:
    """Return the rows as Markdown, in one table for each of the first names."""
    lines: list[str] = []
    before = ""
    for path, default, meaning in rows():
        first = path.partition(".")[0]
        if first != before:
            lines += ["", "| value | default | |", "|---|---|---|"] if "." in path or not lines else []
            before = first
        shown = f"`{default}`" if default else "see [values.yaml](../deploy/chart/values.yaml)"
        lines.append(f"| `{path}` | {shown} | {meaning} |".replace("||", "|"))
    return "\n".join(lines).strip() + "\n"


def page_with_table(page: str) -> str:
    """Return the page with the table between its marks."""
    return _BLOCK.sub(lambda marks: f"{marks[1]}{table()}{marks[2]}", page)


def update() -> None:
    """Write the table into the page."""
    PAGE.write_text(page_with_table(PAGE.read_text("utf-8")), "utf-8")
