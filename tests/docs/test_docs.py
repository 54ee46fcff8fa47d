"""What the README and the docs say is true: their Python runs, and so do the README's commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fakes import fork_server

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ASKING = ("README.md", "ranking.md")  # pages whose programs ask the embedded model, or the embedder
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run(code: str, environ: Mapping[str, str], *ignored: str) -> str:
    """What a page's program says; it must end well and complain of nothing but the `ignored` kinds of warnings."""
    warnings = [word for kind in ignored for word in ("-W", f"ignore::{kind}")]
    after = ["openai"] if "openai import" in code else []
    done = fork_server.python(
        ["-W", "error", *warnings, "-c", code], cwd=ROOT, env={**os.environ, **environ}, after=after
    )
    logged = "WARNING:retinue."  # what a page shows to be logged
    complaints = [line for line in done.stderr.splitlines() if not line.startswith(logged)]
    assert (done.returncode, complaints) == (0, [])
    return done.stdout


def commands() -> list[object]:
    """The README's, of which those with a search take half a minute."""
    lines = [line for block in blocks(README, "sh") for line in block.splitlines()]
    slow = [pytest.mark.full]
    return [
        pytest.param(line, marks=slow if "--passages" in line else ()) for line in lines if line.startswith("retinue ")
    ]


def with_python() -> list[object]:
    """The pages with programs, those that ask a real model marked so."""
    pages = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
    slow = (pytest.mark.model, pytest.mark.full)
    return [pytest.param(page, marks=slow if page.name in ASKING else (), id=page.name) for page in pages]


@pytest.mark.parametrize("page", with_python())
@pytest.mark.usefixtures("full")  # with which each program has an interpreter of its own
def test_a_pages_python_runs(page: Path, tmp_path: Path) -> None:
    code = "\n".join(blocks(page.read_text(encoding="utf-8"), "python"))
    said = run(code, {} if page.name in ASKING else {"RETINUE_CACHE": str(tmp_path)})
    if page.name == "README.md":
        assert "520" in said.replace(",", "")


def pasted() -> Iterator[tuple[str, str]]:
    """What of each page is to be pasted into a shell: blocks of commands, and the lines of a session after `$ `."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        sessions = [
            "\n".join(re.findall(r"^\$ (.*(?:\\\n.*)*)", block, re.MULTILINE)) for block in blocks(text, "console")
        ]
        for at, block in enumerate([*blocks(text, "sh"), *blocks(text, "curl"), *sessions]):
            yield f"{page.name}-{at}", block


def test_what_is_to_be_pasted_is_whole_commands() -> None:
    for place, block in pasted():
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), place
        whole = re.sub(r"\\\n\s*", " ", block)
        loose = [line for line in whole.splitlines() if line.lstrip().startswith("-")]
        assert not loose, f"{place}: the line before has no backslash at its end"


@pytest.mark.model
@pytest.mark.parametrize("command", commands())
def test_the_readmes_commands_work(command: str, embedded_model: Path) -> None:
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    if "15%" in command:
        assert "185.1" in done.stdout


def test_the_readmes_first_commands_are_demo_and_test() -> None:
    assert [block.strip() for block in blocks(README, "sh")][:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"\n{target}:" in makefile for target in ("demo", "test", "lint", "bench", "eval"))


_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def test_the_pages_links_lead_somewhere() -> None:
    targets = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", _CODE.sub("", page.read_text(encoding="utf-8")))
    ]
    assert [(page.name, target) for page, target in targets if not (page.parent / target).exists()] == []
