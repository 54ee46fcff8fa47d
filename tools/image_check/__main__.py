"""Carry out deploy/Dockerfile on this system instead of its base image, and start what it makes as its user.

This needs root, Linux, and a Python of the base image's version. What it cannot show is said in docs/deployment.md.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from image_check.dockerfile import Stage, replaced, stages, words
from image_check.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
_FILE = ROOT / "deploy" / "Dockerfile"
_AGENTS = ROOT / "deploy" / "agents" / "agents.yml"
_USER = 10001
_PATH = f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin"
_PASSED = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_")) or "proxy" in name}
_IMPORTED = "fastapi, psycopg, temporalio, opentelemetry.sdk, mcp, idna, numpy, apsw, sqlite_vec, pydantic_monty"


def say(text: str) -> None:
    print(f"{text} ({time.monotonic() - _BEGAN:.0f} s)", flush=True)  # noqa: T201


def carry_out(stage: Stage, folder: Path, before: dict[str, Path]) -> None:
    """Make the files of a stage in `folder`; those of earlier ones are in `before`."""
    sandbox = Sandbox(folder)
    (folder / "tmp").mkdir()
    _with_python(folder)
    cwd = "/"
    for said, value in stage.steps:
        if said == "WORKDIR":
            cwd = value
            (folder / cwd.strip("/")).mkdir(parents=True, exist_ok=True)
        elif said == "COPY":
            _copy(value.split(), folder, cwd, before)
        else:
            sandbox.run(["sh", "-c", value], _environment(stage) | _PASSED, cwd)
    (folder / "tmp").rmdir()
    (folder / "tmp").mkdir()


def _environment(stage: Stage) -> dict[str, str]:
    return {"PATH": _PATH, "HOME": "/root"} | {name: replaced(one, {"PATH": _PATH}) for name, one in stage.env.items()}


def _with_python(folder: Path) -> None:
    """Have this Python, which stands for that of the base image, where it is here."""
    if not sys.base_prefix.startswith("/usr"):
        shutil.copytree(sys.base_prefix, folder / sys.base_prefix.strip("/"), symlinks=True)


def _copy(parts: list[str], folder: Path, cwd: str, before: dict[str, Path]) -> None:
    source = ROOT
    if parts[0].startswith("--from="):
        source = before[parts.pop(0).partition("=")[2]]
    *names, to = parts
    target = folder / to.strip("/") if to.startswith("/") else folder / cwd.strip("/") / to
    for name in names:
        there = source / name.strip("/")
        assert there.exists(), f"COPY {name}: it does not exist"
        assert source != ROOT or _admitted(name.strip("/")), f"COPY {name}: Dockerfile.dockerignore leaves it out"
        if there.is_dir():
            shutil.copytree(there, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (target if to.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(there, target)


def _admitted(name: str) -> bool:
    return f"!{name}" in _FILE.with_name("Dockerfile.dockerignore").read_text("utf-8").splitlines()


def digest(folder: Path) -> str:
    """Return a sum over the names, kinds, rights and contents of all files."""
    total = hashlib.sha256()
    for one in sorted(folder.rglob("*")):
        content = str(one.readlink()).encode() if one.is_symlink() else one.read_bytes() if one.is_file() else b""
        total.update(f"{one.relative_to(folder)} {one.lstat().st_mode:o} ".encode() + hashlib.sha256(content).digest())
    return total.hexdigest()


def what_is_said_of_the_image(stage: Stage) -> None:
    """What holds without carrying anything out."""
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-\w+-\w+", stage.base), f"FROM {stage.base} is no exact tag"
    assert stage.base.startswith("python:{}.{}.".format(*sys.version_info)), f"make image needs {stage.base}'s Python"
    assert stage.config["USER"] == f"{_USER}:{_USER}"
    assert stage.config["STOPSIGNAL"] == "SIGTERM"
    assert words(stage.config["ENTRYPOINT"]) == ["retinue"]
    assert words(stage.config["VOLUME"]) == [stage.config["WORKDIR"]] == [stage.env["HOME"]]


def start(stage: Stage, folder: Path) -> None:
    """Start the image's programs as its user, who can write nowhere but in the volume and /tmp."""
    sandbox = Sandbox(folder)
    env, home = _environment(stage), stage.config["WORKDIR"]
    shutil.copy(_AGENTS, folder / "agents.yml")

    def within(*said: str) -> list[str]:
        return sandbox.command(said, env, user=_USER, cwd=home, read_only=True)

    def run(*said: str) -> str:
        done = subprocess.run(within(*said), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return f"{done.returncode} {done.stdout}"

    version = run(*words(stage.config["ENTRYPOINT"]), "--version")
    assert version.startswith("0 retinue"), version
    say(version[2:].strip())
    assert (said := run("python", "-c", f"import {_IMPORTED}")).startswith("0 "), said
    for place in ("/opt/retinue", "/etc", "/"):
        said = run("python", "-c", f"open('{place}/new', 'w')")
        assert "Read-only" in said or "Permission denied" in said, f"{place}: {said}"
    assert (said := run("pip", "--version")).startswith("127 ") or "opt/retinue" not in said, said
    say("what it needs is there, and it can be changed by nobody")
    _serve(stage, within, run)


def _serve(stage: Stage, within: Callable[..., list[str]], run: Callable[..., str]) -> None:
    port = "18765"
    serve = [*words(stage.config["ENTRYPOINT"]), "serve", "/agents.yml", "--host", "0.0.0.0", "--port", port]
    with _started(within(*serve)) as process:
        health = [word.replace("8000", port) for word in words(stage.config["HEALTHCHECK"])]
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        ready = next((line for line in lines if "is ready" in line), "")
        assert ready, "retinue serve does not get ready"
        assert run(*health).startswith("0 "), run(*health)
        with urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            assert answer.status == 200
        process.send_signal(getattr(signal, stage.config["STOPSIGNAL"]))
        status = process.wait(30)
    assert status == 0, f"retinue serve ends with status {status}"
    assert not run(*health).startswith("0 "), "the health check finds a server that has ended well"
    say("retinue serve gets ready, is healthy, and ends when it is told to")


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Check the Dockerfile, carry it out twice, and start what it makes."""
    build, final = stages(_FILE)
    what_is_said_of_the_image(final)
    with tempfile.TemporaryDirectory(prefix="image") as place:
        made = Path(place)
        made.chmod(0o755)
        for name in ("build", "again", "final"):
            (made / name).mkdir(mode=0o755)
        for name in ("build", "again"):
            carry_out(build, made / name, {})
            say(f"built: {digest(made / name / 'opt/retinue')}")
        assert digest(made / "build/opt/retinue") == digest(made / "again/opt/retinue"), "two builds differ"
        carry_out(final, made / "final", {"build": made / "build"})
        size = sum(one.lstat().st_size for one in (made / "final/opt/retinue").rglob("*"))
        say(f"{size / 1e6:.0f} MB beyond the base image")
        start(final, made / "final")


_BEGAN = time.monotonic()
try:
    main()
except AssertionError as error:
    sys.exit(f"FAILED: {error}")
print("1 passed, 0 failed")  # noqa: T201
