"""docs/clients.md: what it says to each client works, with the server of its file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.reader import TYPED
from docs.test_docs import README, ROOT, blocks, run
from fakes import node
from fakes.served import Served, serving

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
TABLES = 'def book(place):\n    return f"{place} is booked"\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    (text,) = blocks(PAGE, "yaml")
    folder = tmp_path_factory.mktemp("page")
    (folder / "tables.py").write_text(TABLES)
    with serving(folder, text) as server:
        yield server


def environ(server: Served) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}


def first_lines(code: str) -> str:
    return re.sub(r"\W+", "-", code)[-30:]


@pytest.mark.full
@pytest.mark.parametrize("code", blocks(PAGE, "py"), ids=first_lines)
def test_its_python_runs(code: str, server: Served) -> None:
    run(code, environ(server), "DeprecationWarning", "ResourceWarning")


@pytest.mark.full
@pytest.mark.parametrize("code", blocks(PAGE, "js"), ids=first_lines)
def test_its_node_runs(code: str, pytestconfig: pytest.Config, server: Served) -> None:
    assert pytestconfig.cache is not None
    script = node.project(pytestconfig.cache) / "page.mjs"
    script.write_text(code, "utf-8")
    assert node.run(script, environ(server)).strip() == code.rpartition("// ")[2].strip()


@pytest.mark.full
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_its_curl_works_as_it_is_pasted(server: Served, tmp_path: Path) -> None:
    (tmp_path / ".curlrc").write_text("silent\nshow-error\n")
    (command,) = blocks(PAGE, "curl")
    given = {"PATH": os.environ["PATH"], "CURL_HOME": str(tmp_path), **environ(server)}
    done = subprocess.run(["bash", "-eu", "-c", command], capture_output=True, text=True, env=given)
    assert (done.returncode, done.stderr, done.stdout.endswith("data: [DONE]\n\n")) == (0, "", True)
    assert '"content":"' in done.stdout.replace(" ", "")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_readmes_curl_works_as_it_is_pasted(tmp_path: Path) -> None:
    (command,) = [one for one in TYPED.findall(README) if one.startswith("curl ")]
    starter = ROOT / "src" / "retinue" / "cli" / "starter" / "script"
    shutil.copytree(starter / "tools", tmp_path / "tools")
    with serving(tmp_path, (starter / "agents.yml").read_text("utf-8")) as server:
        command = command.replace("http://127.0.0.1:8000/v1", server.url).replace("Bearer mine", f"Bearer {server.key}")
        done = subprocess.run(["bash", "-eu", "-c", f"{command} -sS"], capture_output=True, text=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["choices"][0]["message"]["content"].startswith("2,623,000 people live")
