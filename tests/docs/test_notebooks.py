"""The notebooks of examples/: they print what is stored in them, and lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fakes.notebooks import NOTEBOOKS, code_cells, printed, stored

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@each_notebook
def test_its_cells_print_what_is_stored(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    assert printed(notebook) == stored(notebook), "store it anew: PYTHONPATH=tests python -m fakes.notebooks"
    assert [cell["execution_count"] for cell in code_cells(notebook)] == list(range(1, len(stored(notebook)) + 1))


@each_notebook
def test_its_links_lead_somewhere(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    prose = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    assert [target for target in re.findall(r"\]\(([^)]+)\)", prose) if not (path.parent / target).exists()] == []


def test_a_cell_that_prints_something_else_is_noticed() -> None:
    cell = {"cell_type": "code", "source": ["x = 1\n", "print(x)"], "outputs": [{"text": ["2\n"]}]}
    notebook = {"cells": [cell, {**cell, "source": ["print(x + 1)"]}]}
    assert printed(notebook) == ["1\n", "2\n"]
    assert stored(notebook) == ["2\n", "2\n"]


def test_a_cell_that_fails_is_noticed() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        printed({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})
