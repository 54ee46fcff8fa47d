"""The blocks that are commands for a checkout, pasted into a clone of this one."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest

from docs.test_docs import ROOT, blocks

pytestmark = [pytest.mark.model, pytest.mark.long]
READY = re.compile(r"Retinue is ready on (\S+)")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this checkout, as it was committed."""
    folder = tmp_path_factory.mktemp("clone") / "retinue"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    return folder


@pytest.fixture
def env(embedded_model: Path) -> Mapping[str, str]:
    """The environment of a person, who has fetched the model before."""
    mine = ("RETINUE", "OPENAI", "PYTEST", "VIRTUAL_ENV", "MAKE", "MFLAGS")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return {**bare, "RETINUE_CACHE": str(embedded_model.parents[1])}


def commands(page: str, beginning: str) -> str:
    """The block of a page that begins so."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (found,) = [block for block in blocks(text, "sh") if block.startswith(beginning)]
    return found


def paste(block: str, clone: Path, env: Mapping[str, str]) -> str:
    """Paste a block into a shell, in which each of its commands has to succeed, and return what is printed."""
    words = ["bash", "-c", f"set -euo pipefail\n{block}"]
    done = subprocess.run(words, cwd=clone, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    return done.stdout


def test_the_readmes_demo(clone: Path, env: Mapping[str, str]) -> None:
    said = paste(commands("README.md", "make demo"), clone, env)
    assert "2.23" in said
    assert "Dewey Lake Monster" in said


def test_the_demo_of_the_documentation(clone: Path, env: Mapping[str, str]) -> None:
    asks, serves = commands("docs/demo.md", "make demo-docs").splitlines()
    said = paste(asks, clone, env)
    assert "the model is given the former result" in said
    assert "issues/new?title=Can%20watermarks" in said
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serves = serves.replace("=--serve", f'="--serve --port {port}"')
    server = subprocess.Popen(
        ["bash", "-c", serves], cwd=clone, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert server.stdout is not None
    try:
        (address,) = next(filter(None, (READY.findall(line) for line in server.stdout)))
        with urlopen(f"{address}/studio/", timeout=10) as page:
            assert page.status == 200
    finally:
        os.killpg(server.pid, signal.SIGINT)  # as Ctrl-C
        server.stdout.read()
        server.wait(60)


@pytest.mark.parametrize(
    ("beginning", "rows"), [("make conformance", "`beta/test_threads.py`"), ("make schemathesis", "/v1/conversations")]
)
def test_the_suites_of_others(beginning: str, rows: str, clone: Path, env: Mapping[str, str]) -> None:
    assert rows in paste(commands("docs/conformance.md", beginning), clone, env)
