"""The reference of the Python API: which public names are on which page. mkdocstrings reads what they say."""

from __future__ import annotations

from collections.abc import Iterator

import retinue
from retinue import components, extend

_PAGES = {  # the modules whose names are on a page; what is nowhere else is on the first
    "agents": ("Agents and runs", ()),
    "values": ("Values", ("core.values", "core.events", "core.run_result", "core.budgets", "types")),
    "tools": ("Tools", ("core.tool", "core.tool_example", "core.run_context")),
    "components": ("Components and pipelines", ("components", "pipelines")),
    "knowledge": ("Documents and memory", ("documents", "memory")),
    "teams": ("Teams", ("teams", "run.handoff")),
    "models": ("Models", ("models",)),
    "errors": ("Errors", ("errors",)),
}
_MORE = {"tools": ("retinue.tools.calculator", "retinue.tools.passages")}


def public_names() -> Iterator[str]:
    """Yield what `retinue` and `retinue.components` export."""
    yield from (f"retinue.{name}" for name in retinue.__all__)
    yield from (f"retinue.components.{name}" for name in components.__all__)


def names_to_extend() -> list[str]:
    """Return what `retinue.extend` exports."""
    return [f"retinue.extend.{name}" for name in vars(extend) if not name.startswith("_") and name != "annotations"]


def python_pages() -> dict[str, str]:
    """The pages, by their places in the site."""
    names: dict[str, list[str]] = {page: [*_MORE.get(page, ())] for page in _PAGES}
    for name in public_names():
        names[_page_of(name)].append(name)
    titles = {page: title for page, (title, _) in _PAGES.items()} | {"extend": "For authors of extensions"}
    names["extend"] = names_to_extend()
    return {
        f"reference/python/{page}.md": f"# {titles[page]}\n\n" + "\n".join(f"::: {name}\n" for name in found)
        for page, found in names.items()
    }


def _page_of(name: str) -> str:
    if name.startswith("retinue.components."):
        return "components"
    value = getattr(retinue, name.removeprefix("retinue."))
    module = str(getattr(value, "__module__", "")).removeprefix("retinue.")
    for page, (_, modules) in _PAGES.items():
        if any(module == one or module.startswith(f"{one}.") for one in modules):
            return page
    return "agents"
