"""Somebody who follows a page in a folder, and types what it says."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ADDRESS = "127.0.0.1:8000"
TYPED = re.compile(r"^\$ ((?:.*\\\n)*.*)", re.MULTILINE)  # what is typed in a session
LOOKS = "retinue runs show"  # at what is under way: they look again until it is as the page says
_ID = re.compile(r"\b(?:run|resp|key)_(?:[0-9a-f]{24}|…)")
_VARYING = {  # what is another one each time
    "N s": re.compile(r"\d+\.\d+ ?s\b|(?<!\S)(?:<1|\d+|\d+m\d\d)s\b"),
    "DATE": re.compile(r"\b20\d\d-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?"),
    "TIME": re.compile(r"\b\d\d:\d\d:\d\d\b"),
    "127.0.0.1:N": re.compile(r"127\.0\.0\.1:\d+"),
    "ID": _ID,
}


class Reader:
    """They work in `folder`. `retinue` is `typed_retinue.py`; `more` is in their environment besides."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"  # their server's, instead of 8000
        self.ids: dict[str, str] = {}  # by the page's
        self.instead: dict[str, str] = {}  # what they have in the place of what the page names
        self._home, self._at, self._variables = folder, folder / ".at", folder / ".variables"
        (bin_ := folder / ".bin").mkdir()
        typed = Path(__file__).with_name("typed_retinue.py")
        for name, words in {"retinue": f"'{typed}'", "python": "", "pytest": "-m pytest -p no:cacheprovider"}.items():
            (bin_ / name).write_text(f"#!/bin/sh\nexec '{sys.executable}' {words} \"$@\"\n")
            (bin_ / name).chmod(0o755)
        path = f"{bin_}:{os.environ['PATH']}"
        self._first = _clean({"PATH": path, **more})
        self.env = dict(self._first)

    def open_a_terminal(self) -> None:
        """Go on in another one, which begins where the first did."""
        self.folder, self.env = self._home, dict(self._first)

    def save(self, name: str, text: str) -> None:
        """Save a file that the page shows."""
        (self.folder / name).write_text(text.replace(ADDRESS, self.address), encoding="utf-8")

    def paste(self, commands: str) -> None:
        """Paste a block of commands, of which each has to succeed; they say yes to what is asked."""
        done = self._shell(f"set -euo pipefail\n{commands}")
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"

    def type(self, command: str, printed: str) -> None:
        """Type a command of a session, of which the page says what is printed, if it does; `…` stands for anything."""
        wanted = re.escape(steady(printed)).replace("…", "(?s:.*?)")
        for _ in range(100 if command.startswith(LOOKS) else 1):
            done = self._shell(command)
            said = done.stderr + done.stdout
            if re.fullmatch(wanted, steady(said)) or (not wanted and not done.returncode):
                break
        else:
            raise AssertionError(f"{command} printed\n{said}\nwhich is not\n{printed}")
        ids = list(zip(_ID.findall(printed), _ID.findall(said), strict=False))
        self.ids.update(reversed(ids))  # of those that the page shortens alike, the first is meant

    def _shell(self, commands: str) -> subprocess.CompletedProcess[str]:
        for shown, real in {**self.ids, **self.instead, ADDRESS: self.address}.items():
            commands = commands.replace(shown, real)
        noted = f"pwd > '{self._at}'; env -0 > '{self._variables}'"
        words = ["bash", "-c", f"{commands}\nstatus=$?; {noted}; exit $status"]
        done = subprocess.run(words, cwd=self.folder, env=self.env, input="y\n", capture_output=True, text=True)
        if done.returncode == 0:  # else it may have ended before
            self.folder = Path(self._at.read_text("utf-8").strip())
            variables = self._variables.read_text("utf-8").split("\0")
            self.env = dict(one.split("=", 1) for one in variables if "=" in one)
        return done

    def follow(self, session: str) -> None:
        """Type each command of a session (`$ COMMAND`, and below it what is printed)."""
        for part in re.split(r"^(?=\$ )", session, flags=re.MULTILINE)[1:]:
            command = TYPED.match(part)
            assert command
            self.type(command[1], part[command.end() :].removeprefix("\n"))

    @contextmanager
    def serve(self, command: str, printed: str) -> Iterator[None]:
        """Type the command that goes on."""
        port = self.address.rpartition(":")[2]
        words = ["bash", "-c", f"exec python -m {command} --port {port}"]
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
    mine = ("RETINUE", "OPENAI", "OTEL", "PYTEST")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(mine)}, **more}


def steady(text: str) -> str:
    """`text` with the same words wherever it varies from one time to the next: times, dates, ports and ids.

    Columns become two spaces apart, for their widths vary with those words.
    """
    for name, what in _VARYING.items():
        text = what.sub(name, text)
    text = re.sub(r"(?<=\S) {2,}", "  ", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
