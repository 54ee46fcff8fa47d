"""The source, as the tests of this folder look at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import retinue

SRC = Path(retinue.__file__).parent
FILES = sorted(SRC.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """What a file says."""
    return ast.parse(path.read_text(encoding="utf-8"))
