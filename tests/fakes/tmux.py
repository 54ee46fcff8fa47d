"""A real terminal of a size of its own: tmux, with a program in it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from .until import until


def need_tmux() -> None:
    """Skip the test where there is no tmux; in CI it has to be there."""
    if shutil.which("tmux") is None:
        if os.environ.get("CI"):
            pytest.fail("tmux is not installed")
        pytest.skip("needs tmux")


class Terminal:
    """A terminal that runs `retinue` with these words; when that ends, it stays and shows its exit status."""

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        width: int = 80,
        height: int = 24,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        need_tmux()
        self._sockets = tempfile.TemporaryDirectory(prefix="tmux")  # a short path, as sockets want it
        command = shlex.join([sys.executable, "-m", "retinue", *map(str, words)])
        given = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1", **(env or {})}
        shell = f'{command}; echo "[exit $?]"; exec cat'
        folded = ["-c", str(folder)] if folder else []
        size = ["-x", str(width), "-y", str(height)]
        self._env = {**{k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR", "COLUMNS")}, **given}
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, *folded, shell)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", f"{self._sockets.name}/s", *words]
        return subprocess.run(command, env=self._env, capture_output=True, text=True, check=True).stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")
        self._sockets.cleanup()

    def type(self, text: str, *keys: str) -> None:
        """Type a text, and then press keys by tmux's names (`Enter`, `C-c`)."""
        if text:
            self._tmux("send-keys", "-l", "--", text)
        if keys:
            self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste a text, in brackets if the program asks for that."""
        self._tmux("set-buffer", "--", text)
        self._tmux("paste-buffer", "-p", "-r")

    def resize(self, width: int, height: int) -> None:
        """Change its size."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def shows(self, *, history: bool = False, colours: bool = False) -> str:
        """What is on the screen, or on it and above it, without blank lines at the end."""
        lines = self._tmux("capture-pane", "-p", *["-S", "-"] * history, *["-e"] * colours).rstrip()
        return "\n".join(line.rstrip() for line in lines.splitlines())

    def until(self, text: str, times: int = 1) -> str:
        """What is on the screen and above it, once it has this text so many times."""

        def found() -> str:
            shown = self.shows(history=True)
            return shown if shown.count(text) >= times else ""

        try:
            return until(found)
        except AssertionError:
            raise AssertionError(f"no {text!r} in:\n{self.shows(history=True)}") from None
