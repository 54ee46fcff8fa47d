"""Nothing gets out of the sandbox, or does the machine harm from within: a loop over `data/escapes.txt`."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from retinue.harness.folder_workspace import FolderWorkspace
from retinue.harness.sandbox import Sandbox
from retinue.harness.shell import run_in_workspace

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: make sandbox")
SMALL = Sandbox(seconds=1.2, memory=200_000_000, processes=30, output=4_000, disk=20_000_000)
CALLS_THE_KERNEL = """python3 - <<'END'
import ctypes, os, platform, socket, struct
arm = platform.machine() == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)
def call(x86, on_arm, *given):
    return libc.syscall(ctypes.c_long(on_arm if arm else x86), *map(ctypes.c_long, given))
def check(result):
    print("ESCAPED" if result >= 0 else os.strerror(ctypes.get_errno()))
text = ctypes.create_string_buffer(4096)
at = ctypes.addressof(text)
"""
ESCAPED = re.compile(r"^ESCAPED", re.MULTILINE)


def read_attempts() -> Iterator[tuple[str, str]]:
    for block in (Path(__file__).parents[1] / "data" / "escapes.txt").read_text("utf-8").split("\n## ")[1:]:
        name, command = block.split("\n", 1)
        kernel = command.removeprefix("#! kernel\n")
        yield name, command if kernel == command else f"{CALLS_THE_KERNEL}{kernel}\nEND"


class Host:
    """What a command must not get at: a file, a process, servers, a variable of the environment."""

    def __init__(self, stack: ExitStack) -> None:
        self.secret, self.marker = secrets.token_hex(16), f"host{secrets.token_hex(6)}"
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        self.folder.chmod(0o755)
        self.file = self.folder / "secret.txt"
        self.file.write_text(self.secret)
        self.file.chmod(0o644)
        environment = {"PATH": os.environ["PATH"], "SECRET": self.secret}
        self.process = stack.enter_context(subprocess.Popen(["sleep", "600"], env=environment))
        stack.callback(self.process.kill)
        self.server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.abstract = f"retinue-{self.marker}"
        for address in (f"\0{self.abstract}", str(self.folder / "socket")):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(address)
            listening.listen()

    def fill(self, command: str) -> str:
        values = {
            "file": self.file, "folder": self.folder, "process": self.process.pid, "secret": self.secret[:16],
            "marker": self.marker, "port": self.server.getsockname()[1], "abstract": self.abstract,
            "socket": self.folder / "socket",
        }  # fmt: skip
        for name, value in values.items():
            command = command.replace(f"{{{name}}}", str(value))
        return command

    def find_harm(self) -> str:
        if self.process.poll() is not None:
            return "the host's process was killed"
        if self.file.read_text() != self.secret or sorted(one.name for one in self.folder.iterdir()) != [
            "secret.txt",
            "socket",
        ]:
            return "the host's files were changed"
        return ""


@contextmanager
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with ExitStack() as stack:
        host = Host(stack)
        monkeypatch.setenv("SECRET_KEY", host.secret)
        yield host


def list_below(process: int) -> set[str]:
    """The processes that this one has started, with theirs, by their commands."""
    told = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in told.splitlines()]
    found = {str(process)}
    for _ in range(6):
        found |= {pid for pid, parent, *_ in rows if parent in found}
    return {" ".join(args) for pid, _, *args in rows if pid in found and "bwrap" in " ".join(args)}


async def find_escape(host: Host, command: str, folder: Path) -> str:
    """Run an attempt, and return what it got at, or left behind."""
    workspace = FolderWorkspace(folder / "files")
    await workspace.change_files({"a.txt": b"the first", "sub/b.txt": b"the second"}, "first")
    result = await run_in_workspace(workspace, host.fill(command), 1.2, SMALL, {})
    took = result.data["command"]["seconds"]
    text = f"{result.text}{await workspace.read_files([one.path for one in await workspace.list_files()])}"
    links = [str(one) for one in workspace.folder.rglob("*") if not (one.is_file() or one.is_dir()) or one.is_symlink()]
    found = {
        "it says so": bool(ESCAPED.search(text)),
        "it has the secret": host.secret in text,
        host.find_harm(): True,
        f"it took {took:.1f} s": took > 3.0,
        "its result is long": len(result.text) > 8_000,
        "its result has controls": any(ord(one) < 32 and one not in "\n\t" for one in result.text),
        f"processes are left: {list_below(os.getpid())}": bool(list_below(os.getpid())),
        f"what is no file came back: {links}": bool(links),
    }
    wrong = [what for what, holds in found.items() if what and holds]
    return f"{', '.join(wrong)}: {result.text[:600]!r}" if wrong else ""


def test_no_command_gets_out_of_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    found, attempts = {}, list(read_attempts())
    assert len(attempts) >= 90
    with stand_in(monkeypatch) as host:
        free = shutil.disk_usage(tmp_path).free
        for at, (name, command) in enumerate(attempts if full else attempts[::3]):
            if escape := asyncio.run(find_escape(host, command, tmp_path / str(at))):
                found[name] = escape
        assert free - shutil.disk_usage(tmp_path).free < 2_000_000_000
    assert found == {}
