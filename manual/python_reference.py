"""The reference of the Python API: which public names are on which page. mkdocstrings reads what they say."""

from __future__ import annotations

import retinue

_PAGES = {  # the modules whose names are on a page; what is nowhere else is on the first
    "agents": ("Agents and runs", ()),
    "values": ("Values", ("core.values", "core.events", "core.run_result", "core.budgets", "types")),
    "tools": ("Tools", ("core.tool", "core.tool_example", "core.toolbox")),
    "components": (
        "Components and pipelines",
        ("components", "pipelines", "core.component", "core.component_declaration"),
    ),
    "knowledge": ("Documents and memory", ("documents", "memory")),
    "teams": ("Teams", ("teams", "run.handoff")),
    "models": ("Models", ("models",)),
    "errors": ("Errors", ("errors",)),
}
_MORE = {  # public names outside of `retinue.__all__`
    "tools": ("retinue.tools.calculator", "retinue.tools.passages"),
    "models": ("retinue.core.protocols",),
}


def python_pages() -> dict[str, str]:
    """The pages, by their places in the site."""
    names: dict[str, list[str]] = {page: [] for page in _PAGES}
    for name in retinue.__all__:
        names[_page_of(name)].append(f"retinue.{name}")
    for page, more in _MORE.items():
        names[page] += more
    return {
        f"reference/python/{page}.md": f"# {_PAGES[page][0]}\n\n" + "\n".join(f"::: {name}\n" for name in found)
        for page, found in names.items()
    }


def _page_of(name: str) -> str:
    module = str(getattr(getattr(retinue, name), "__module__", "")).removeprefix("retinue.")
    for page, (_, modules) in _PAGES.items():
        if any(module == one or module.startswith(f"{one}.") for one in modules):
            return page
    return "agents"
