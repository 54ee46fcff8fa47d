"""The packages, as a stranger gets them: built from this tree, and tried away from it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import openai
import pytest
from releasing.archives import build, rebuilt, strange
from releasing.installation import install
from releasing.version import version_of

ROOT = Path(__file__).parents[2]
EPOCH = 1_700_000_000


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel", EPOCH)


def test_all_is_the_union_of_the_extras_but_a_cluster() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("retinue[").removesuffix("]").split(",")
    assert sorted(named) == sorted(set(extras) - {"all", "up"})  # `up` brings PostgreSQL and Temporal's server


@pytest.mark.long
def test_the_wheel_answers_in_an_empty_environment(wheel: Path) -> None:
    install(wheel, sys.executable, ROOT / "requirements" / "all.txt", version_of(ROOT))


@pytest.mark.full
def test_the_wheel_has_all_of_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src" / "retinue"
    there = {path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*") if path.is_file()}
    packed = {name for name in contents(wheel) if name.startswith("retinue/")}
    assert {name for name in there if "__pycache__" not in name} == packed
    assert strange(wheel) == []


@pytest.mark.full
def test_the_source_distribution_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build(ROOT, tmp_path, "sdist", EPOCH)
    (again := tmp_path / "again").mkdir()
    assert contents(rebuilt(sdist, again, EPOCH)) == contents(wheel)
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    given = {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "src", "docs"}
    assert tops - {"PKG-INFO", ".gitignore"} == given  # which the builder adds


@pytest.mark.full
def test_uvx_runs_the_wheel(wheel: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "uv", "tool", "run", "--from", str(wheel), "retinue", "--version"]
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"retinue, version {version_of(ROOT)}\n"), done.stderr


@pytest.mark.long
def test_a_file_of_fifteen_lines_is_served_by_the_extra_server(wheel: Path, tmp_path: Path) -> None:
    text = (ROOT / "examples" / "python_app" / "app.py").read_text("utf-8")
    offline = text.replace("Agent, tool", "Agent, PromptModel, tool").replace(
        '"local"', "PromptModel(script=[{'finish': 'No.'}])"
    )
    (tmp_path / "app.py").write_text(offline, "utf-8")
    words = [sys.executable, "-m", "uv", "tool", "run", "--from", f"retinue[server] @ {wheel.as_uri()}", "retinue"]
    words += ["serve", "app.py", "--port", "0", "--api-key", "mine"]
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        with openai.OpenAI(base_url=f"{address}/v1", api_key="mine", max_retries=0) as client:
            assert client.responses.create(model="guide", input="Do I need an umbrella?").output_text == "No."
        server.terminate()
