"""SQL on runs and their logs stands in one folder, so that each write to them can be seen to be guarded."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import retinue

SRC = Path(retinue.__file__).parent
STORE = SRC / "store"
TABLES = {"runs", "events", "submissions", "run_metadata", "snapshots"}
STATEMENT = re.compile(rf"\b(FROM|INTO|UPDATE|JOIN)\s+({'|'.join(sorted(TABLES))})\b")
WRITERS = {  # the functions that may change a run's row
    "run_queries.py": {"set_metadata", "set_deleted", "discard_values", "_updating", "shift_expiry"},
}


def tables_in(path: Path) -> set[str]:
    """The tables of runs that a module names."""
    found: set[str] = set()
    said = path.read_text(encoding="utf-8")
    if not re.search("tables|FROM|INTO|UPDATE|JOIN", said):
        return found  # without a look at its tree, which takes most of the time
    for node in ast.walk(ast.parse(said)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("tables"):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tables":
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {name for _, name in STATEMENT.findall(node.value)}
    return found & TABLES


def test_no_statement_on_runs_stands_outside_the_store() -> None:
    outside = [path for path in sorted(SRC.rglob("*.py")) if STORE not in path.parents]
    found = {str(path.relative_to(SRC)): tables_in(path) for path in outside}
    assert {path: tables for path, tables in found.items() if tables} == {}


def test_the_rule_sees_tables_however_they_are_named(tmp_path: Path) -> None:
    assert {"runs", "events"} <= tables_in(STORE / "event_log.py")
    for line in ("from .store.tables import runs", "from retinue.store import tables\ntables.runs", "a = 'FROM runs'"):
        (tmp_path / "a.py").write_text(line)
        assert tables_in(tmp_path / "a.py") == {"runs"}, line


def test_few_functions_change_a_run() -> None:
    assert {path.name: found for path in STORE.glob("*.py") if (found := updating(path))} == WRITERS


def updating(path: Path) -> set[str]:
    """The functions of a module that say `update(runs)`."""
    return {
        function.name
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        and any("update(runs)" in ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Call))
    }
