"""The blocks that are commands for a checkout, pasted into a clone of this one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from releasing.archives import build

from docs.reader import TYPED
from docs.test_docs import ROOT, blocks
from fakes.until import until

pytestmark = [pytest.mark.model, pytest.mark.long]
READY = re.compile(r"Retinue is ready on (\S+)")
PROJECT = "retinue-page"  # what container engines make has this name, and is removed in the end
API = "http://127.0.0.1:8000"


def has_engine() -> bool:
    """Whether there is a container engine."""
    return shutil.which("docker") is not None and not subprocess.run(["docker", "info"], capture_output=True).returncode


on_engine = pytest.mark.skipif(not has_engine(), reason="there is no container engine")


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


@pytest.fixture
def containers(env: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """The environment of a person, of whose containers and volumes nothing is left in the end."""
    yield {**env, "COMPOSE_PROJECT_NAME": PROJECT}
    subprocess.run(["docker", "compose", "-p", PROJECT, "down", "--volumes"], capture_output=True, check=True)
    subprocess.run(["docker", "volume", "rm", "--force", PROJECT], capture_output=True, check=True)


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
    assert "2.424" in said
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
    words = ["bash", "-c", serves]
    with subprocess.Popen(
        words, cwd=clone, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        assert server.stdout is not None
        try:
            (address,) = next(filter(None, (READY.findall(line) for line in server.stdout)))
            with urlopen(f"{address}/studio/", timeout=10) as page:
                assert page.status == 200
        finally:
            os.killpg(server.pid, signal.SIGINT)  # as Ctrl-C


@pytest.mark.parametrize(
    ("beginning", "row"), [("make conformance", "| beta/test_threads.py |"), ("make schemathesis", "/v1/conversations")]
)
def test_the_suites_of_others(beginning: str, row: str, clone: Path, env: Mapping[str, str]) -> None:
    assert row in paste(commands("docs/conformance.md", beginning), clone, env)


def answer(key: str) -> str:
    """What the agent of deploy/agents answers."""
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    asked = Request(f"{API}/v1/responses", json.dumps({"input": "Hello?"}).encode(), headers)
    with urlopen(asked, timeout=30) as answered:
        said: str = json.load(answered)["output"][-1]["content"][0]["text"]
        return said


def is_healthy() -> bool:
    """Whether a server accepts requests."""
    try:
        with urlopen(f"{API}/health", timeout=5) as answered:
            return bool(answered.status == 200)
    except (URLError, ConnectionError):
        return False


@on_engine
def test_the_image(clone: Path, containers: Mapping[str, str]) -> None:
    paste(commands("docs/deployment.md", "docker build -f"), clone, containers)
    command = commands("docs/deployment.md", "docker run").replace("-v retinue:", f"-v {PROJECT}:")
    words = ["bash", "-c", f"exec {command}"]
    with subprocess.Popen(
        words, cwd=clone, env=containers, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        try:
            (key,) = re.findall("sk-[A-Za-z0-9_-]+", server.stdout.readline())
            assert READY.match(server.stdout.readline())
            assert answer(key) == "Hello from Retinue."
        finally:
            server.send_signal(signal.SIGINT)  # as Ctrl-C
    assert server.returncode == 0
    paste(commands("docs/deployment.md", "docker buildx build"), clone, containers)


@on_engine
def test_compose(clone: Path, containers: Mapping[str, str]) -> None:
    said = paste(commands("docs/deployment.md", 'echo "POSTGRES_PASSWORD'), clone, containers)
    (key,) = re.findall("^sk-[A-Za-z0-9_-]+", said, re.MULTILINE)
    until(is_healthy, seconds=60)
    assert answer(key) == "Hello from Retinue."
    paste(commands("docs/deployment.md", "docker compose -f deploy/compose.yml -f"), clone, containers)
    until(is_healthy, seconds=60)
    assert answer(key) == "Hello from Retinue."


@on_engine
def test_the_readmes_first_commands_on_a_machine_that_has_only_python(embedded_model: Path, tmp_path: Path) -> None:
    wheel = build(ROOT, tmp_path, "wheel", 1_700_000_000)  # until there is one on the index
    (image,) = re.findall("^ARG BASE=(.+)", (ROOT / "deploy" / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    session = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "console")[0]
    install, ask = TYPED.findall(session)
    bare = "python -m venv /own && . /own/bin/activate"
    lacks = "apt-get update --quiet && apt-get install --quiet --yes libgomp1"
    words = ["docker", "run", "--rm", "--env", "PIP_FIND_LINKS=/wheels", "--volume", f"{wheel.parent}:/wheels:ro"]
    words += ["--volume", f"{embedded_model.parents[1]}:/root/.cache/retinue:ro", image, "bash", "-ec"]
    typed = f"{bare}; {install}; {ask} && exit 1; {lacks}; {ask}"
    done = subprocess.run([*words, typed], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert "apt install libgomp1" in done.stdout
    assert "Answer: 185.1" in done.stdout
