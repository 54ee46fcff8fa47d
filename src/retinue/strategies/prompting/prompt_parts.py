"""The wordings of a strategy that has several prompts: parts of a text file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template


@cache
def prompt_parts(strategy: str) -> Mapping[str, Template]:
    """Return the parts of the strategy's text file, by the name after `===`."""
    text = files("retinue.strategies").joinpath(f"{strategy}.txt").read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in text.split("=== ")[1:])
    return {name: Template(body) for name, _, body in parts}
