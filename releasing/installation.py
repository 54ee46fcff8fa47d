"""What is released, tried: installed alone, and its extras looked for, for each Python that is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import click

_PYTHONS = ("3.11", "3.12", "3.13")
_QUESTION = "How many people live in Paris and Lyon?"  # to which the script of `retinue init` knows the answer
_ANSWER = "2,623,000"


def pythons() -> dict[str, str]:
    """Return the programs of the Pythons that can be had here, by version."""
    found: dict[str, str] = {}
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in _PYTHONS:
        there = sorted(kept.glob(f"{version}.*/bin/python"))
        program = str(there[-1]) if there else shutil.which(f"python{version}")
        if program and _run([program, "-c", "import ssl"]).returncode == 0:
            found[version] = program
    return found


def install(wheel: Path, python: str, locked: Path, version: str) -> None:
    """Install a wheel into an empty environment, and let it answer. Raises `ClickException`."""
    with tempfile.TemporaryDirectory() as name:
        there = Path(name) / "bin"
        _must([python, "-m", "venv", name])
        needed = Path(name) / "needed.txt"
        needed.write_text(re.sub(r" *\\\n *--hash=\S+", "", locked.read_text("utf-8")), "utf-8")
        pip = [str(there / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _must([*pip, "-c", str(needed), str(wheel)])
        said = _must([str(there / "retinue"), "--version"])
        if version not in said:
            raise click.ClickException(f"the installed program says {said.strip()!r}, and not {version}")
        _answers(there / "retinue", Path(name) / "first")


def _answers(program: Path, folder: Path) -> None:
    """Let the installed program do what its user does first."""
    _must([str(program), "ask", "--help"])
    _must([str(program), "init", str(folder)])
    answer = _must([str(program), "run", str(folder / "agents.yml"), _QUESTION])
    if _ANSWER not in answer:
        raise click.ClickException(f"the installed package answers {answer.strip()!r}")


def extras(root: Path) -> list[str]:
    """Return the extras of the project."""
    return list(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])


def unavailable(root: Path, python: str, extra: str) -> str:
    """Return why an extra's packages cannot be had as wheels for a version of Python, or nothing."""
    words = [
        str(root / ".venv" / "bin" / "uv"),
        "pip",
        "compile",
        "--quiet",
        "--python-version",
        python,
        "--only-binary",
        ":all:",
        "--no-header",
    ]
    done = _run([*words, "--extra", extra, str(root / "pyproject.toml")])
    return done.stderr.strip()[-300:] if done.returncode else ""


def _must(words: list[str]) -> str:
    done = _run(words)
    if done.returncode:
        raise click.ClickException(f"{' '.join(words)[:200]}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(words, cwd="/", env=env, capture_output=True, text=True, check=False)
