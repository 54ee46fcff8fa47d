"""The wordings of a strategy: a text file beside it, which may have several parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from string import Template


@cache
def prompt_text(strategy: str) -> str:
    """Return the strategy's text file."""
    from importlib.resources import files  # imported late, for `import` to be quick

    return files("retinue.strategies").joinpath(f"{strategy}.txt").read_text(encoding="utf-8")


@cache
def prompt_parts(strategy: str) -> Mapping[str, Template]:
    """Return the parts of the strategy's text file, by the name after `===`."""
    parts = (part.partition("\n") for part in prompt_text(strategy).split("=== ")[1:])
    return {name: Template(body) for name, _, body in parts}
