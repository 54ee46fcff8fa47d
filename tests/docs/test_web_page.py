"""docs/web.md and its example: the Python runs, the file is right."""

from __future__ import annotations

from pathlib import Path

from docs.test_docs import ROOT, blocks
from fakes import fork_server
from retinue.config import check

PAGE = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")


def test_its_python_runs() -> None:
    done = fork_server.python(["-W", "error", "-c", "\n".join(blocks(PAGE, "python"))])
    assert (done.returncode, done.stderr) == (0, "")


def test_its_file_is_right(tmp_path: Path) -> None:
    (text,) = blocks(PAGE, "yaml")
    (tmp_path / "a.yml").write_text(text)
    assert check(tmp_path / "a.yml") == []


def test_the_example_runs() -> None:
    done = fork_server.python(["-W", "error", ROOT / "examples" / "web_search.py"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "[1] tower http://127.0.0.1:" in done.stdout
    assert "built from 1887 to 1889" in done.stdout
    assert done.stdout.endswith("It is in what I have read.\n")
