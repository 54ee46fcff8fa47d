"""Both type checkers infer the types of agents, answers and contexts, and refuse wrong uses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [f"tests/core/typed/{name}.py" for name in ("right", "wrong")]
PYRIGHT = ROOT / ".studio" / "node_modules" / "pyright" / "index.js"


def run_mypy() -> set[tuple[str, int]]:
    """Return the places that mypy refuses, with the settings of `make lint`, whose cache it uses."""
    done = subprocess.run([sys.executable, "-m", "mypy", *FILES], cwd=ROOT, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+?):(\d+): error", done.stdout, re.MULTILINE)
    assert found or done.returncode == 0, done.stdout + done.stderr
    return {(Path(file).name, int(line)) for file, line in found}


def run_pyright() -> set[tuple[str, int]]:
    """Return the places that pyright refuses."""
    node = [str(Path(sys.executable).parent / "node"), str(PYRIGHT)]
    options = ["--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*node, *options, *FILES], cwd=ROOT, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in told if one["severity"] == "error"]
    return {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.full
def test_right_uses_pass_and_wrong_ones_are_refused(checker: str) -> None:
    if checker == "pyright" and not PYRIGHT.exists():
        pytest.skip("`make lint` installs pyright")
    lines = (ROOT / FILES[1]).read_text("utf-8").splitlines()
    wrong = {("wrong.py", number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert (run_mypy() if checker == "mypy" else run_pyright()) == wrong
