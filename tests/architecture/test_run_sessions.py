"""Chat completions, responses and runs of assistants begin, are followed, waited for and ended in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import retinue.server

SERVER = Path(retinue.server.__file__).parent
PLACES = {  # who may do what with runs
    "followers.follow": {"run_session.py"},
    "wait_for_disconnect": {"run_session.py"},
    "runs.dispatch": {"run_session.py"},
    "runs.interrupt": {"run_session.py", "threads.py", "routes.py"},
}


def calls(path: Path) -> set[str]:
    """What a module calls: `a.b.c` also as `b.c` and `c`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = [ast.unparse(node.func).split(".") for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {".".join(words[at:]) for words in said for at in range(len(words))}


@pytest.mark.parametrize("what", PLACES)
def test_runs_have_one_session(what: str) -> None:
    assert {path.name for path in SERVER.rglob("*.py") if what in calls(path)} == PLACES[what]
