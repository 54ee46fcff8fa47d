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
import re
import shutil
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .._internal.concurrency import run_in_thread
from ..errors import NotDone, UsageError
from .network_proxy import PORT, open_proxy
from .syscall_filter import build_filter

logger = logging.getLogger(__name__)
INSIDE = "/workspace"
USER = 65533 if hasattr(os, "geteuid") and os.geteuid() == 0 else 0  # 0: the sandbox is of our own user
MAX_FILES, MAX_DEPTH = 20_000, 64  # of files and folders in what a command writes to
_REMEDY = (
    "commands run in a sandbox only, and none can be made here: {}. Wanted are Linux, bubblewrap (apt-get install "
    "bubblewrap) and user namespaces; see docs/sandbox.md"
)
_ETC = ("alternatives", "ca-certificates", "ssl/certs", "ssl/openssl.cnf", "ld.so.cache", "localtime", "mime.types")
_OWN_ETC = {"passwd": "agent:x:1000:1000::/tmp:/bin/sh\n", "group": "agent:x:1000:\n", "hosts": "127.0.0.1 localhost\n"}
_ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "GIT_CONFIG_COUNT": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_MAX_COMMAND = 100_000  # characters
_OPEN_FILES = 256  # of a process
_PACE, _WRITES = 0.25, 10  # seconds between looks; what may be written in all, in sizes of the disk
_PIECE, _FLOOD = 65_536, 2_000  # bytes; how often the half that is kept may be written
_BETWEEN_LINES = 3.0  # seconds
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|[\x00-\x08\x0b-\x1f\x7f]")
_AS_USER: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if USER else {}


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended: its exit code (128 + n for a signal), its output, of which the middle may be left out, and
    which limit stopped it, if one did."""

    exit: int
    output: str
    left_out: int
    seconds: float
    stopped: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What commands may use. Raises `UsageError` for values that make no sense.

    Args:
        network: Hosts that commands may reach over HTTP and HTTPS, by names: `pypi.org`, `*.example.org`; a private
            server as `host:port`. By default none.
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
            if not Path(folder).is_absolute() or folder in ("/", "/proc", "/dev", "/tmp", INSIDE):
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
            raise NotDone(
                f"want a command without NUL, of at most {_MAX_COMMAND:,} characters; write a file and run it"
            )
        began, seconds, output = time.monotonic(), min(seconds, self.seconds), _Output(int(self.output), tell)
        options = [*_list_system(), *self._list_folders(base, changes, mounts)]
        hosts = self.network if changes else ()
        async with AsyncExitStack() as stack:
            enclosing = _enclose(options, self._limit(command), self._environment(hosts))
            enclosed = await stack.enter_async_context(enclosing)
            if hosts and enclosed.first:
                await stack.enter_async_context(open_proxy(enclosed.first, hosts, USER))
            reading = asyncio.create_task(output.read(enclosed))
            watching = asyncio.create_task(self._watch(enclosed.process.pid, base))
            enclosed.begin()
            try:
                await asyncio.wait({reading, watching}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                excess = watching.result() if watching.done() else f"it did not end within {seconds:g} seconds"
                stopped = output.excess if reading.done() else excess
            finally:
                watching.cancel()
                enclosed.kill()
                await reading
            code = await enclosed.read_exit_code()
        if code is None and not stopped:
            raise _refuse(output.text.strip()[-300:] or "bwrap ended at once")
        code = 137 if code is None or stopped else code
        return CommandEnd(code, output.text, output.left_out, time.monotonic() - began, stopped)

    def _limit(self, command: str) -> list[str]:
        """Return the command with the kernel's limits; it comes last where memory or processors are short."""
        limits = {"nproc": self.processes, "data": self.memory, "fsize": self.disk, "nofile": _OPEN_FILES, "core": 0}
        shell = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
        return [
            *("choom", "-n", "1000", "--", "prlimit", *(f"--{name}={int(value)}" for name, value in limits.items())),
            *("nice", "-n", "10", shell, "-c", command),
        ]

    def _environment(self, hosts: Sequence[str]) -> dict[str, str]:
        found = [f"{folder}/bin" for folder in self.folders if Path(folder, "bin").is_dir()]
        proxies = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY") if hosts else ()
        path = ":".join((*found, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"))
        return {**_ENVIRONMENT, **dict.fromkeys(proxies, f"http://127.0.0.1:{PORT}"), "PATH": path}

    def _list_folders(self, base: Path, changes: bool, mounts: Mapping[str, Path]) -> list[str]:
        work, own = str(base / "work"), str(base / "tmp")
        own_etc = [("--ro-bind", str(base / name), f"/etc/{name}") for name in _OWN_ETC]
        own_tmp = [("--bind", own, "/tmp"), ("--bind", own, "/dev/shm"), ("--remount-ro", "/dev")]
        readable = [("--ro-bind", folder, folder) for folder in self.folders]
        inside = [("--ro-bind", str(folder), f"{INSIDE}/{path}") for path, folder in mounts.items()]
        bound = ("--bind" if changes else "--ro-bind", work, INSIDE)
        end = [("--remount-ro", "/"), ("--chdir", INSIDE)]
        return [part for option in (*own_etc, *own_tmp, *readable, bound, *inside, *end) for part in option]

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
        used = 0
        for files, (entry, depth) in enumerate(walk([base / "work", base / "tmp"])):
            with suppress(OSError):
                said = entry.stat(follow_symlinks=False)
                used += max(said.st_size, said.st_blocks * 512)  # of a sparse file, what it would be elsewhere
            if files > MAX_FILES or depth > MAX_DEPTH:
                return f"it made more than {MAX_FILES:,} files, or folders more than {MAX_DEPTH} levels deep"
            if used > self.disk:
                return f"its files have more than {int(self.disk):,} bytes"
        memory = written = 0
        for one in _find_below(process) if process else ():
            memory += sum(_read_numbers(f"/proc/{one}/status", (b"RssAnon", b"RssShmem"))) * 1024
            written += sum(_read_numbers(f"/proc/{one}/io", (b"write_bytes",)))
        if memory > self.memory:
            return f"it used more than {int(self.memory):,} bytes of memory"
        if written > _WRITES * self.disk:
            return f"it wrote more than {int(_WRITES * self.disk):,} bytes"
        return ""


def prepare_base(base: Path) -> None:
    """Make, in an empty folder, what a sandbox needs of it: `work`, `tmp`, and files of its own `/etc`."""
    base.chmod(0o711)  # another user must get at what is in it, whose names nobody else can list
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


def _refuse(why: str) -> NotDone:
    told = _REMEDY.format(" ".join(why.split()))
    logger.error("%s", told)
    return NotDone(told)


def _list_system() -> Iterator[str]:
    """Yield the options that every sandbox has: what it is separated from, and the system that it can read."""
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--cap-drop", "ALL", "--die-with-parent", "--new-session")
    yield from ("--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if Path("/", name).is_symlink():
            yield from ("--symlink", str(Path("/", name).readlink()), f"/{name}")
        elif Path("/", name).exists():
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for name in _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev")


# ── the processes ─────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _enclose(
    options: Sequence[str], command: Sequence[str], environment: Mapping[str, str]
) -> AsyncIterator[_Enclosed]:
    """Start the sandbox, which waits for `begin` before it runs the command. At the end all of it is dead."""
    program = shutil.which("bwrap")
    if program is None:
        raise _refuse("there is no bwrap")
    try:
        refused = build_filter()
    except NotImplementedError as error:
        raise _refuse(str(error)) from error
    status, told = os.pipe()
    gate, opens = os.pipe()
    passed = [told, gate]
    try:
        passed.append(_hold(refused))
        handles = ("--json-status-fd", str(told), "--block-fd", str(gate), "--seccomp", str(passed[-1]), "")
        passed.append(_hold("\0".join((*options, *handles)).encode()))  # a command line could be read inside
        process = await asyncio.create_subprocess_exec(
            *(program, "--args", str(passed[-1]), "--", *command),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env=environment,
            pass_fds=passed,
            **_AS_USER,
        )
    except BaseException:
        os.close(status)
        os.close(opens)
        raise
    finally:
        for handle in passed:
            os.close(handle)
    enclosed = _Enclosed(process, opens)
    try:
        await enclosed.listen(status)
        yield enclosed
    finally:
        await enclosed.end()


def _hold(data: bytes) -> int:
    """Return the handle of a file in memory."""
    handle = os.memfd_create("sandbox")
    os.write(handle, data)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


class _Enclosed:
    """A sandbox's processes. `first` is the one with whose death the kernel ends all others; 0 if there is none."""

    def __init__(self, process: Process, opens: int) -> None:
        self.process = process
        self.first = 0
        self._opens = opens
        self._status = asyncio.StreamReader()

    async def listen(self, status: int) -> None:
        """Listen to what bwrap tells of itself, and find the first process."""
        protocol = asyncio.StreamReaderProtocol(self._status)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(status, "rb"))
        self.first = await self._read_status("child-pid") or 0

    def begin(self) -> None:
        """Let the command run."""
        with suppress(OSError):  # bwrap has ended
            os.write(self._opens, b".")

    def kill(self) -> None:
        """Kill all processes."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.first or self.process.pid, signal.SIGKILL)

    async def read_exit_code(self) -> int | None:
        """Return the command's exit code; `None` if it never ran, or was killed."""
        return await self._read_status("exit-code")

    async def end(self) -> None:
        """Kill what is left, and wait until it is dead."""
        if not self.first:  # the wait for it was broken off: the kernel ends the others only with it
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    self.first = await self._read_status("child-pid") or 0
        self.kill()
        await self.process.wait()
        os.close(self._opens)

    async def _read_status(self, name: str) -> int | None:
        while line := await self._status.readline():
            if (found := json.loads(line).get(name)) is not None:
                return int(found)
        return None


def _find_below(process: int) -> list[int]:
    """Return the processes that descend from one."""
    children = defaultdict(list)
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            children[int(one.read_bytes().rpartition(b")")[2].split()[1])].append(int(one.parent.name))
    found = [process]
    for parent in found:
        found += children[parent]
    return found


def _read_numbers(path: str, names: Sequence[bytes]) -> Iterator[int]:
    """Yield the numbers of lines `name: number` of a file in `/proc`; none if the process has ended, or is not ours."""
    with suppress(OSError):
        for line in Path(path).read_bytes().splitlines():
            name, _, value = line.partition(b":")
            if name in names:
                yield int(value.split()[0])


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


# ── the output ────────────────────────────────────────────────────────────────────────────────────


class _Output:
    """Keeps the begin and the end of a command's output, which may be endless, and tells its lines now and then."""

    def __init__(self, most: int, tell: Callable[[str], None] | None) -> None:
        self._most, self._tell, self._told = most // 2, tell, time.monotonic()
        self._begin, self._end, self._size, self.excess = b"", b"", 0, ""

    async def read(self, enclosed: _Enclosed) -> None:
        """Read until there is no more; kill what does not stop writing."""
        assert enclosed.process.stdout is not None
        while piece := await enclosed.process.stdout.read(_PIECE):
            self._size += len(piece)
            if self._size > _FLOOD * self._most:
                self.excess = f"it wrote more than {_FLOOD * self._most:,} bytes of output"
                enclosed.kill()
            room = self._most - len(self._begin)
            self._begin += piece[:room]
            self._end = (self._end + piece[max(0, room) :])[-self._most :]
            if self._tell is not None and time.monotonic() - self._told > _BETWEEN_LINES:
                self._tell(next(filter(str.strip, reversed(_make_plain(piece).split("\n"))), ""))
                self._told = time.monotonic()

    @property
    def left_out(self) -> int:
        """Bytes in the middle that are not kept."""
        return self._size - len(self._begin) - len(self._end)

    @property
    def text(self) -> str:
        """What is kept, with a note where the rest was."""
        if not self.left_out:
            return _make_plain(self._begin + self._end)
        note = f"\n… ({self.left_out:,} bytes are left out here) …\n"
        return note.join(map(_make_plain, (self._begin, self._end)))


def _make_plain(data: bytes) -> str:
    """Return output as text without the controls of a terminal."""
    return _CONTROLS.sub("", re.sub(r"\r\n?", "\n", data.decode("utf-8", "replace")))
