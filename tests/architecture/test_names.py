"""Names, sizes and nesting: what a reader can rely on who looks for something."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from architecture.source import FILES, SRC, tree

ROOT = Path(__file__).parents[2]
PER_FAMILY = {"__init__.py", "__main__.py", "routes.py", "schemas.py", "views.py"}
WORDS = ("ssrf", "redact", "rate.?limit", "idempot", "cancellation", "replay", "serializ")
HOMES = {
    "ssrf": "net/ssrf_guard.py",
    "redact": "_internal/redaction.py",
    "rate.?limit": "server/middleware/rate_limit.py",
    "idempot": "server/middleware/idempotency.py",
    "cancellation": "runs/cancellation.py",
    "replay": "core/replay.py",
    "serializ": "core/serialization.py",
}
NESTING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)
DEEPER = {("models/engine.py", "reply")}  # one more generator would cost each piece of each reply


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in ast.walk(tree(path)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def depth(node: ast.AST, so_far: int = 0) -> int:
    """How deep statements nest in `node`; an `elif` is no deeper than its `if`, an inner function begins anew."""
    deepest = so_far
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        elif_ = isinstance(child, ast.If) and isinstance(node, ast.If) and node.orelse == [child]
        deepest = max(deepest, depth(child, so_far + (isinstance(child, NESTING) and not elif_)))
    return deepest


def test_a_files_name_is_the_only_one_of_its_kind() -> None:
    names = Counter(path.name for path in FILES if path.name not in PER_FAMILY)
    assert {name for name, count in names.items() if count > 1} == set()


def test_few_modules_are_called_after_a_doing() -> None:
    doing = {path.stem for path in FILES if path.stem.endswith("ing")}
    assert doing <= {"embedding", "error_mapping", "tool_calling"}, "a module is a noun of the field"


def test_nothing_nests_more_than_three_deep() -> None:
    deep = {(path.relative_to(SRC).as_posix(), one.name) for path in FILES for one in functions(path) if depth(one) > 3}
    assert deep == DEEPER


def test_most_functions_are_short() -> None:
    lines = sorted((one.end_lineno or 0) - one.lineno + 1 for path in FILES for one in functions(path))
    assert lines[len(lines) * 9 // 10] <= 20


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_field_leads_to_its_file(word: str) -> None:
    found = [str(path.relative_to(SRC)) for path in FILES if re.search(word, path.read_text("utf-8"), re.IGNORECASE)]
    assert HOMES[word] in found


def test_the_tour_names_every_room() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    rooms = [path.name for path in SRC.iterdir() if path.is_dir() and any(path.glob("*.py"))]
    assert [room for room in rooms if f"{room}/" not in tour] == []
