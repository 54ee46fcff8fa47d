"""A sandbox for commands: bubblewrap's namespaces, a filter of system calls, and limits that are watched.

A command sees the system's programs, read-only, and one folder. It has its own processes, network, users and devices,
no capabilities, and none of this process's environment. When it ends, all that it started is dead.

Where we are root, the sandbox is another user: the kernel does not limit root's processes, and whoever got out would be
nobody. What no limit of the kernel covers is looked at a few times a second: memory, disk and files of all processes
together. Nothing runs without the sandbox: where it cannot be made, `NotDone` says why."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

from .._internal.concurrency import run_in_thread
from ..core.workspace import MOST_FILES
from ..errors import NotDone, UsageError
from .command_output import CommandOutput
from .network_proxy import PORT, open_proxy
from .syscall_filter import build_filter

logger = logging.getLogger(__name__)
USER = 65533 if hasattr(os, "geteuid") and os.geteuid() == 0 else 0  # 0: the sandbox is of our own user
_AS_USER: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if USER else {}
_REMEDY = (
    "commands run in a sandbox only, and none can be made here: {}. Wanted are Linux, bubblewrap (apt-get install "
    "bubblewrap) and user namespaces; see docs/sandbox.md"
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = [f"/etc/{one}" for one in "alternatives ca-certificates ssl/certs ssl/openssl.cnf ld.so.cache localtime".split()]
_OWN_ETC = {"passwd": "agent:x:1000:1000::/tmp:/bin/sh\n", "group": "agent:x:1000:\n", "hosts": "127.0.0.1 localhost\n"}
_ENVIRONMENT = {"HOME": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_MAX_COMMAND = 100_000  # characters
_MAX_DEPTH, _OPEN_FILES = 64, 256  # of folders; files that a process has open
_PACE = 0.25  # seconds between looks


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended: its exit code (128 + n for a signal), its output, of which `left_out` bytes in the middle
    are missing, and which limit stopped it, if one did."""

    exit: int
    output: str
    left_out: int
    seconds: float
    stopped: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What commands may use. Raises `UsageError` for values that make no sense.

    Args:
        network: Hosts that commands may reach over HTTPS, by names: `pypi.org`, `*.example.org`; a private server as
            `host:port`. By default none.
        folders: Folders of the host that commands may read, such as a virtual environment, whose programs they find.
        seconds: The longest that a command may take.
        memory: In bytes, of each process and of all of a command together.
        processes: Processes and threads of a command.
        output: Bytes of output that are kept: its begin and its end.
        disk: Bytes that a command may have in its folder and in `/tmp`.
    """

    network: Sequence[str] = ()
    folders: Sequence[str] = ()
    seconds: float = 600.0
    memory: int = 2_000_000_000
    processes: int = 200
    output: int = 16_000
    disk: int = 200_000_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ("network", "folders"):
                if isinstance(value, str) or not all(isinstance(item, str) and item for item in value):
                    raise UsageError(f"sandbox: {one.name}: want a list of texts, not {value!r:.80}")
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise UsageError(f"sandbox: {one.name}: want a number above 0, not {value!r:.80}")
        for folder in self.folders:
            if not Path(folder).is_absolute() or Path(folder) == Path("/"):
                raise UsageError(f"sandbox: folders: want an absolute path such as /opt/venv, not {folder!r:.80}")

    async def run(
        self,
        command: str,
        base: Path,
        *,
        seconds: float,
        changes: bool = True,
        mounts: Mapping[str, Path] = {},
        tell: Callable[[str], None] | None = None,
    ) -> CommandEnd:
        """Run a shell command whose folder is `base/work` (see `prepare_base`), and return how it ended, after
        `seconds` at the latest. Without `changes`, that folder is read-only, and there is no network. `mounts` are
        folders to read, by their paths within it. `tell` is called with lines of the output, now and then.

        Raises `NotDone` if the sandbox cannot be made: then the command has not begun.
        """
        if len(command) > _MAX_COMMAND or "\0" in command:
            raise NotDone(f"want a command of at most {_MAX_COMMAND:,} characters; write a file and run that")
        began, seconds, output = time.monotonic(), min(seconds, self.seconds), CommandOutput(int(self.output), tell)
        hosts = self.network if changes else ()
        options = self._list_options(base, changes, mounts)
        async with AsyncExitStack() as stack:
            inside = await stack.enter_async_context(_enclose(options, self._limit(command), self._environment(hosts)))
            if hosts and inside.first:
                await stack.enter_async_context(open_proxy(inside.first, hosts, USER))
            reading = asyncio.create_task(output.read(inside.process, inside.kill))
            watching = asyncio.create_task(self._watch(inside.process.pid, base))
            inside.begin()
            try:
                await asyncio.wait({reading, watching}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                excess = watching.result() if watching.done() else f"it did not end within {seconds:g} seconds"
                stopped = output.excess if reading.done() else excess
            finally:
                watching.cancel()
                inside.kill()
                await reading
            code = await inside.read_exit_code(output.text)
        return CommandEnd(137 if stopped else code, output.text, output.left_out, time.monotonic() - began, stopped)

    def _limit(self, command: str) -> list[str]:
        """Return the command with the kernel's limits; it comes last where memory or processors are short."""
        limits = {"nproc": self.processes, "data": self.memory, "fsize": self.disk, "nofile": _OPEN_FILES, "core": 0}
        given = [f"--{name}={int(value)}" for name, value in limits.items()]
        shell = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
        return ["choom", "-n", "1000", "--", "prlimit", *given, "nice", "-n", "10", shell, "-c", command]

    def _environment(self, hosts: Sequence[str]) -> dict[str, str]:
        path = ":".join([*(f"{one}/bin" for one in self.folders if Path(one, "bin").is_dir()), _PATH])
        proxy = dict.fromkeys(("https_proxy", "HTTPS_PROXY"), f"http://127.0.0.1:{PORT}") if hosts else {}
        return {**_ENVIRONMENT, **proxy, "PATH": path}

    def _list_options(self, base: Path, changes: bool, mounts: Mapping[str, Path]) -> list[str]:
        links = [one for one in _SYSTEM if Path(one).is_symlink()]
        there = {one: one for one in self.folders} | {f"/workspace/{path}": str(one) for path, one in mounts.items()}
        own = [("--ro-bind", str(base / name), f"/etc/{name}") for name in _OWN_ETC]
        return [
            *("--unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try".split()),
            *("--cap-drop ALL --die-with-parent --new-session --uid 1000 --gid 1000 --hostname sandbox".split()),
            *chain(*(("--symlink", str(Path(one).readlink()), one) for one in links)),
            *chain(*(("--ro-bind-try", one, one) for one in (*_SYSTEM, *_ETC) if one not in links), *own),
            *("--proc", "/proc", "--dev", "/dev", "--bind", str(base / "tmp"), "/dev/shm", "--remount-ro", "/dev"),
            *("--bind", str(base / "tmp"), "/tmp", "--bind", str(base / "work"), "/workspace"),
            *chain(*(("--ro-bind", here, inside) for inside, here in there.items())),
            *(() if changes else ("--remount-ro", "/workspace")),
            *("--remount-ro", "/", "--chdir", "/workspace"),
        ]

    async def _watch(self, process: int, base: Path) -> str:
        """Return which limit was exceeded, once one is."""
        pause = _PACE
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            if excess := await run_in_thread(self.find_excess, base, process):
                return excess
            pause = max(_PACE, 10 * (time.monotonic() - began))

    def find_excess(self, base: Path, process: int = 0) -> str:
        """Return what a command has used too much of, or an empty string: in its folders, and as the processes below
        `process`."""
        used = memory = written = 0
        for files, (entry, depth) in enumerate(walk([base / "work", base / "tmp"])):
            with suppress(OSError):
                said = entry.stat(follow_symlinks=False)
                used += max(said.st_size, said.st_blocks * 512)  # of a sparse file, what it would be elsewhere
            if files > MOST_FILES or depth > _MAX_DEPTH:
                return f"it made more than {MOST_FILES:,} files, or folders more than {_MAX_DEPTH} levels deep"
            if used > self.disk:
                break
        for one in _find_below(process) if process else ():
            memory += 1024 * sum(_read_numbers(f"/proc/{one}/status", (b"RssAnon", b"RssShmem")))
            written += sum(_read_numbers(f"/proc/{one}/io", (b"write_bytes",)))
        most = {"of files": (used, self.disk), "of memory": (memory, self.memory), "written": (written, 10 * self.disk)}
        for what, (there, limit) in most.items():
            if there > limit:
                return f"it has more than {int(limit):,} bytes {what}"
        return ""


def prepare_base(base: Path) -> None:
    """Make, in an empty folder, what a sandbox needs of it: `work`, `tmp`, and files of its own `/etc`."""
    base.chmod(0o711)  # another user must get at what is in it, whose name nobody else can list
    for name, text in _OWN_ETC.items():
        (base / name).write_text(text)
        (base / name).chmod(0o644)
    for name in ("work", "tmp"):
        (base / name).mkdir(mode=0o700)
        give(base / name)


def give(path: Path) -> None:
    """Give a file or folder to the sandbox's user."""
    if USER:
        os.chown(path, USER, USER, follow_symlinks=False)


def walk(folders: Iterable[Path]) -> Iterator[tuple[os.DirEntry[str], int]]:
    """Yield what is in the folders, and how deep, without following links; a folder comes before what is in it. One
    that cannot be read is left out."""
    waiting = [(str(folder), 1) for folder in folders]
    while waiting:
        folder, depth = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                yield entry, depth
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, depth + 1))


def _find_below(process: int) -> list[int]:
    """Return a process and those that descend from it."""
    children, found = defaultdict(list), [process]
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            children[int(one.read_bytes().rpartition(b")")[2].split()[1])].append(int(one.parent.name))
    for pid in found:
        found += children[pid]
    return found


def _read_numbers(path: str, names: Sequence[bytes]) -> Iterator[int]:
    """Yield the numbers of lines `name: number` of a file in `/proc`; none if the process has ended, or is not ours."""
    with suppress(OSError):
        for line in Path(path).read_bytes().splitlines():
            name, _, value = line.partition(b":")
            if name in names:
                yield int(value.split()[0])


# ── the processes ─────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Inside:
    """A sandbox's processes. `first` is the one with whose death the kernel ends all others; 0 if there is none."""

    process: Process
    first: int
    status: int
    gate: int

    def begin(self) -> None:
        """Let the command run."""
        with suppress(OSError):  # bwrap has ended
            os.write(self.gate, b".")

    def kill(self) -> None:
        """Kill all processes."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.first or self.process.pid, signal.SIGKILL)

    async def read_exit_code(self, said: str) -> int:
        """Return the command's exit code. Raises `NotDone` with what bwrap `said` if it has not run."""
        told = await run_in_thread(_read_status, self.status)
        ended = await self.process.wait()
        if "exit-code" not in told and ended == 1:  # and not killed
            raise _refuse(said.strip()[-300:] or "bwrap ended at once")
        return told.get("exit-code", 137)


@asynccontextmanager
async def _enclose(
    options: Sequence[str], command: Sequence[str], environment: Mapping[str, str]
) -> AsyncIterator[_Inside]:
    """Start the sandbox, which waits for `begin` before it runs the command. At the end all of it is dead."""
    if (program := shutil.which("bwrap")) is None:
        raise _refuse("there is no bwrap")
    (status, told), (waits, gate) = os.pipe(), os.pipe()
    passed = [told, waits]
    with ExitStack() as ours:
        ours.callback(os.close, status)
        ours.callback(os.close, gate)
        try:
            passed.append(_hold(build_filter()))
            handles = ("--json-status-fd", str(told), "--block-fd", str(waits), "--seccomp", str(passed[-1]), "")
            passed.append(_hold("\0".join((*options, *handles)).encode()))  # a command line could be read inside
            words = (program, "--args", str(passed[-1]), "--", *command)
            process = await asyncio.create_subprocess_exec(
                *words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=environment, pass_fds=passed, **_AS_USER
            )
        except (OSError, NotImplementedError) as error:  # an unknown processor
            raise _refuse(str(error)) from error
        finally:
            for handle in passed:
                os.close(handle)
        inside = _Inside(process, 0, status, gate)
        finding = asyncio.ensure_future(run_in_thread(_read_status, status))
        try:
            inside.first = (await asyncio.shield(finding)).get("child-pid", 0)
            yield inside
        finally:
            inside.first = (await finding).get("child-pid", 0)  # known also if the wait was broken off
            inside.kill()
            await process.wait()


def _read_status(handle: int) -> dict[str, int]:
    """Return what bwrap tells of itself next: a line as it begins, and one when the command has ended. Blocks."""
    said = b""
    while not said.endswith(b"\n") and (piece := os.read(handle, 4096)):
        said += piece
    return dict(json.loads(said or b"{}"))


def _hold(data: bytes) -> int:
    """Return the handle of a file in memory."""
    handle = os.memfd_create("sandbox")
    os.write(handle, data)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _refuse(why: str) -> NotDone:
    told = _REMEDY.format(" ".join(why.split()))
    logger.error("%s", told)
    return NotDone(told)
