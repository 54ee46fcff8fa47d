"""The shape of the code: small files and functions, no code made from data, every public name there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import retinue

SRC = Path(retinue.__file__).parent
FILES = sorted(SRC.rglob("*.py"))
FORBIDDEN = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 45, f"{path.name}:{node.lineno} {node.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_no_code_is_made_from_data(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN, f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Call):
            assert not any(keyword.arg == "shell" for keyword in node.keywords), f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
            assert not names & FORBIDDEN_MODULES, f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("name", retinue.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(retinue, name) is not None
    assert name in dir(retinue)


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
