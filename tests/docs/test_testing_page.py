"""The page of the conformance suites: its tests are such that pytest runs them, and it has every clause."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.test_docs import ROOT, blocks
from retinue import testing

PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
SUITES = (
    testing.model_cases,
    testing.tool_cases,
    testing.component_cases,
    testing.strategy_cases,
    testing.document_store_cases,
)


@pytest.mark.full
def test_its_tests_pass_in_a_project_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "test_parts.py").write_text("\n".join(blocks(PAGE, "python")), "utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_parts.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "passed" in done.stdout, "failed" in done.stdout) == (0, True, False), done.stdout


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_it_has_every_clause(suite: object) -> None:
    assert callable(suite)
    for case in suite():
        assert f"| {case.name} | {case.clause} |" in PAGE


def test_the_suites_need_no_pytest() -> None:
    code = "import retinue.testing, sys; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_is_there() -> None:
    assert [name for name in testing.__all__ if name not in PAGE] == []
