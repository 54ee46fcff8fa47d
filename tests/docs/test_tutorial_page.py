"""docs/tutorial.md, followed from its first step to its last, in an empty folder: each command prints what it says."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from docs.test_docs import ROOT, TYPED

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"\d+\.\d s")
ADDRESS = "127.0.0.1:8000"


class Walk:
    """Somebody who follows the page in `folder`; their server listens on a free port instead of 8000."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.last = folder, ""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        (folder / "bin").mkdir()
        for name, words in (("retinue", f'"{sys.executable}" -m retinue'), ("python", f'"{sys.executable}"')):
            (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / "bin" / name).chmod(0o755)
        self.env = _clean({"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "RETINUE_CACHE": str(folder / "cache")})

    def save(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text.replace(ADDRESS, self.address), encoding="utf-8")

    def type(self, command: str, printed: str) -> None:
        """Type a command of a session, of which the page says what is printed; `…` stands for anything."""
        known = re.search(r"run_\w+", self.last)
        command = command.replace(ADDRESS, self.address).replace("run_…", known[0] if known else "")
        words = ["bash", "-c", f"{command} && pwd >&2"]
        done = subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        *complaints, folder = done.stderr.splitlines()
        self.folder, self.last = Path(folder), done.stdout
        said = SECONDS.sub("N s", "\n".join([*complaints, *done.stdout.splitlines()]))
        wanted = re.escape(SECONDS.sub("N s", printed.strip("\n"))).replace("…", "(?s:.*?)")
        assert re.fullmatch(wanted, said), f"{command} printed\n{said}\nwhich is not\n{printed}"

    @contextmanager
    def serve(self, command: str, printed: str) -> Iterator[None]:
        """Type the command that goes on."""
        port = self.address.rpartition(":")[2]
        words = ["bash", "-c", f"exec {command} --port {port}"]
        server = subprocess.Popen(words, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == printed.replace(ADDRESS, self.address)
            yield
        finally:
            server.terminate()
            server.wait(30)
            server.stdout.close()


def _clean(more: Mapping[str, str]) -> dict[str, str]:
    """The environment without what the tests or their user say to Retinue."""
    mine = ("RETINUE", "OPENAI", "OTEL")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(mine)}, **more}


def steps() -> Iterator[tuple[str, str, str]]:
    """What the page has its reader do: save a file (its name, its text), or type a command (which, what is printed)."""
    for language, title, text in BLOCK.findall(PAGE):
        if title:
            yield "save", title, text
        elif language == "console":
            for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]:
                command = TYPED.match(part)
                assert command
                yield "type", command[1], part[command.end() :].removeprefix("\n")


def test_each_step_prints_what_the_page_says(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    with suppress(StopIteration):
        followed = steps()
        for what, name, text in followed:
            if what == "save":
                walk.save(name, text)
            elif name.startswith("retinue serve"):
                with walk.serve(name, text):
                    _go_on(walk, followed)
            else:
                walk.type(name, text)
    assert (walk.folder / "real.yml").exists()  # the last file of the page


def _go_on(walk: Walk, followed: Iterator[tuple[str, str, str]]) -> None:
    for what, name, text in followed:
        if what == "save":
            walk.save(name, text)
        else:
            walk.type(name, text)


def test_its_files_are_right(tmp_path: Path) -> None:
    """Each file of agents, also the one that only a real model runs."""
    from retinue.config import check

    for _, title, text in BLOCK.findall(PAGE):
        if title.endswith(".yml"):
            (tmp_path / title).write_text(text, encoding="utf-8")
            assert check(tmp_path / title) == []


@pytest.mark.model
@pytest.mark.long
def test_the_embedded_model_answers_at_its_end(tmp_path: Path, embedded_model: Path) -> None:
    walk = Walk(tmp_path)
    del walk.env["RETINUE_CACHE"]
    for what, name, text in steps():
        if what == "save":
            walk.save(name, text)
        elif name.startswith(("mkdir", "cd", "retinue index")):
            walk.type(name, text)
    (command,) = re.findall(r"^retinue run real.yml .*$", PAGE, re.MULTILINE)
    walk.type(command, "…45…")
