"""A reader finds each engine, strategy, component and tool in a program or a file of the docs that is tested."""

from __future__ import annotations

import re

from docs.test_docs import PAGES, blocks
from retinue.config.registry import COMPONENTS, TOOLS
from retinue.models import ENGINES
from retinue.strategies import STRATEGIES

TEXTS = [page.read_text(encoding="utf-8") for page in PAGES]
PROGRAMS = "\n".join(block for text in TEXTS for block in blocks(text, "python"))  # each of which test_docs runs
FILES = "\n".join(block for text in TEXTS for block in blocks(text, "yaml"))


def test_an_engine_is_in_a_program() -> None:
    for name in ENGINES:
        assert re.search(rf'"{name}[":]', PROGRAMS), name


def test_a_strategy_is_in_a_program() -> None:
    for name in STRATEGIES:
        assert f'"{name}"' in PROGRAMS, name


def test_a_component_is_in_a_program() -> None:
    for name in COMPONENTS:
        assert re.search(rf"\b{name}\(", PROGRAMS), name


def test_a_tool_is_in_a_program_and_in_a_file() -> None:
    for name in TOOLS:
        assert re.search(rf"\b{name}\b", PROGRAMS), name
        assert re.search(rf"\b{name}\b", FILES), name
