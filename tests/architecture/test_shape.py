"""The shape of the code: no code made from data, every public name there, a light import."""

from __future__ import annotations

import ast

import pytest

import retinue
from architecture.source import FILES, SRC, tree

FORBIDDEN = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def test_no_code_is_made_from_data() -> None:
    words = (*FORBIDDEN, *FORBIDDEN_MODULES, "shell")
    suspect = [path for path in FILES if any(word in path.read_text(encoding="utf-8") for word in words)]
    found = [(path, node) for path in suspect for node in ast.walk(tree(path)) if makes_code(node)]
    assert [f"{path.relative_to(SRC)}:{getattr(node, 'lineno', 0)}" for path, node in found] == []


def makes_code(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN
        return named or any(keyword.arg == "shell" for keyword in node.keywords)
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
        return bool(names & FORBIDDEN_MODULES)
    return False


@pytest.mark.parametrize(
    "code",
    ["eval('1')", "run('ls', shell=True)", "import pickle", "from marshal import loads", "x = [exec(y) for y in z]"],
)
def test_code_that_makes_code_is_found(code: str) -> None:
    assert any(map(makes_code, ast.walk(ast.parse(code))))


def test_every_public_name_is_there() -> None:
    assert [name for name in retinue.__all__ if getattr(retinue, name) is None or name not in dir(retinue)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = retinue.Agnet


def test_importing_retinue_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    heavy = {"asyncio", "aiohttp", "httptools", "pydantic", "click", "sqlite3"}
    code = f"import retinue, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
