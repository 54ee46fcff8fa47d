"""Notebooks without Jupyter: the code cells of one run in order in one fresh interpreter, with an event loop as there.

    PYTHONPATH=tests python -m fakes.notebooks

stores the outputs of examples/notebooks anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
_END = "\x1e"  # ends what a cell prints
_IN_A_LOOP = "import asyncio, runpy\nasync def cells(): runpy.run_path('cells.py')\nasyncio.run(cells())"


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of a notebook that run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(notebook: dict[str, Any]) -> list[str]:
    """What each code cell prints now."""
    program = "".join(f"{''.join(cell['source'])}\nprint({_END!r}, end='')\n" for cell in code_cells(notebook))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cells.py").write_text(program, "utf-8")
        words = [sys.executable, "-W", "error", "-X", "utf8", "-c", _IN_A_LOOP]
        done = subprocess.run(words, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split(_END)[:-1]


def stored(notebook: dict[str, Any]) -> list[str]:
    """What each code cell printed when its output was stored."""
    return ["".join(line for output in cell["outputs"] for line in output["text"]) for cell in code_cells(notebook)]


def _store(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    for number, (cell, text) in enumerate(zip(code_cells(notebook), printed(notebook), strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    for each in NOTEBOOKS:
        _store(each)
