"""Starts of Python without its second of imports: a process that has imported Retinue and built its routes, and forks.

What is started is a process as any other, with the environment, the folder and the output that it was given: it can be
killed, has an exit status, and ends as Python ends. What may differ is what it imports itself: with `--full`, and
for some tests with `--rest`, `python` starts an interpreter of its own for each. Nor does it take its modules apart in
the end.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO

_RETINUE = ("retinue.cli.serve", "retinue.cli.ask", "retinue.server.process")
_AT_ITS_BEGINNING = ("LANG", "LC_", "LD_", "PYTHON")  # what is looked at before a program runs
_DIGITS = 12  # of a number that is told
_lock = threading.Lock()
_used = {"servers": False, "programs": False}
_servers: dict[tuple[str, ...], socket.socket] = {}  # by what they have imported; each once it was needed


def use(*, programs: bool) -> None:
    """Have servers forked from now on, and `programs`, too. Who measures how long a start takes, does not."""
    _used.update(servers=True, programs=programs)


def can(env: Mapping[str, str]) -> bool:
    """Whether a server with this environment may be forked."""
    return _used["servers"] and _beginning(env) == _beginning(os.environ)


def _beginning(env: Mapping[str, str]) -> dict[str, str]:
    said = {name: value for name, value in env.items() if name.startswith(_AT_ITS_BEGINNING) and value}
    return {name: said[name] for name in said if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}


class Forked:
    """A process, as far as tests use `subprocess.Popen`: `python` with these words.

    It writes its output and its errors `into` two files; else `stdout` has both. `after` are modules that it may find
    imported, beside Retinue's.
    """

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        folder: Path | None = None,
        into: tuple[IO[str], IO[str]] | None = None,
        after: Sequence[str] = (),
    ) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self._told, telling = socket.socketpair()
        order = [list(words), dict(env), str(folder or Path.cwd())]
        piped = None if into else os.pipe()
        files = [one.fileno() for one in into] if into else [piped[1], piped[1]]  # type: ignore[index]
        with telling:
            self.pid = _ask(order, [*files, telling.fileno()], self._told, tuple(after))
        if piped:
            os.close(piped[1])
            self.stdout = os.fdopen(piped[0], encoding="utf-8")
        self._told.setblocking(False)
        self._looking = threading.Lock()

    def poll(self) -> int | None:
        """Its exit status, `None` while it runs; minus the signal's number if a signal ended it."""
        with self._looking, suppress(BlockingIOError):
            if self.returncode is None:
                self.returncode = int(self._told.recv(_DIGITS))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.poll() is None:
            waiting = select.poll()
            waiting.register(self._told, select.POLLIN)
            waiting.poll(None if timeout is None else 1000 * timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def __del__(self) -> None:
        self._told.close()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and that is being told
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def python(
    words: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    after: Sequence[str] = (),
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """What `python` with these words came to: `-W ACTION[::CATEGORY]`, and then `-m MODULE`, `-c CODE` or a file."""
    texts, whole = [str(word) for word in words], dict(os.environ if env is None else env)
    if not (_used["programs"] and can(whole)):
        command = [sys.executable, *texts]
        return subprocess.run(command, env=whole, cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        process = Forked(texts, whole, cwd, (out, err), after)
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(texts, status, out.read(), err.read())


def retinue(
    *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What `retinue` with these words came to."""
    return python(["-m", "retinue", *words], env=env, cwd=cwd)


def _ask(order: Sequence[object], files: Sequence[int], told: socket.socket, after: tuple[str, ...]) -> int:
    """Have a process started; its id."""
    with _lock:
        if after not in _servers:
            ours, theirs = socket.socketpair()
            with theirs:
                words = [sys.executable, __file__, str(theirs.fileno()), *_RETINUE, *after]
                process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            _servers[after] = ours
            atexit.register(_stop, ours, process)
        socket.send_fds(_servers[after], [json.dumps(order).encode() + b"\n"], files)
        return int(told.recv(_DIGITS))


def _stop(orders: socket.socket, process: subprocess.Popen[bytes]) -> None:
    orders.close()
    process.wait()


def _serve(orders: socket.socket) -> list[str]:
    """Fork for each order; returns in the processes that were forked, ready to run, with what each is to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what watches ends unwatched
    while True:
        text, files, _, _ = socket.recv_fds(orders, 65_536, 3)
        if not text:
            sys.exit()
        while not text.endswith(b"\n"):
            text += orders.recv(65_536)
        if os.fork() == 0:
            orders.close()
            if _watched(*files):
                return _become(*json.loads(text))
        for file in files:
            os.close(file)


def _watched(output: int, errors: int, ended: int) -> bool:
    """Fork once more, and tell how that process ends; whether this is that process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.dup2(output, 1)
        os.dup2(errors, 2)
        for file in (output, errors, ended):
            os.close(file)
        return True
    os.close(output)
    os.close(errors)
    os.write(ended, b"%*d" % (_DIGITS, child))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(ended, b"%*d" % (_DIGITS, status))
    os._exit(0)


def _become(words: list[str], env: dict[str, str], folder: str) -> list[str]:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    importlib.reload(sys.modules["retinue.runs.failpoints"])  # which looks at the environment
    return words


def _run(words: list[str]) -> None:
    """Run what `python` with these words runs."""
    while words[0] == "-W":
        action, _, category = words[1].partition("::")
        warnings.simplefilter(action, getattr(builtins, category or "Warning"))  # type: ignore[arg-type]
        words = words[2:]
    if words[0] == "-m":
        sys.argv[:], sys.path[0] = words[1:], str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=False)
        return
    sys.excepthook = _told_without_us
    main = sys.modules["__main__"] = ModuleType("__main__")
    if words[0] == "-c":
        sys.argv[:], sys.path[0] = ["-c", *words[2:]], ""
        code = compile(words[1], "<string>", "exec", dont_inherit=True)
    else:
        file = Path(words[0]).absolute()
        sys.argv[:], sys.path[0], main.__file__ = words, str(file.resolve().parent), str(file)
        code = compile(file.read_bytes(), file, "exec", dont_inherit=True)
    exec(code, vars(main))  # noqa: S102 - what `python` does


def _end_quickly(run: Callable[[], None]) -> None:
    """Run a program and end as Python ends, but for taking apart what the process shares with others: it takes longer
    than most programs."""
    status: object = 0
    try:
        run()
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1 if isinstance(error, Exception) else error
    if not isinstance(status, int | BaseException | None):
        print(status, file=sys.stderr)  # noqa: T201 - what `python` does
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads them any more
        status = 120
    if isinstance(status, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF if isinstance(status, int) else 0)


def _told_without_us(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    while at and at.tb_frame.f_code.co_filename == __file__:
        at = at.tb_next
    sys.__excepthook__(kind, error.with_traceback(at), at)


def _build_routes() -> None:
    """Have built what a server builds at its first request, and each would build anew."""
    from retinue.server.app import routes

    for route in routes():
        route.matches({"type": "http", "method": "GET", "path": "/nowhere", "root_path": "", "headers": []})


if __name__ == "__main__":
    for name in sys.argv[2:]:
        importlib.import_module(name)
    _build_routes()
    pace = importlib.import_module("pace")
    pace.hurry()
    pace.forget_the_disk()
    gc.collect()
    gc.freeze()  # no process that is forked looks through what it shares, which would copy it
    words = _serve(socket.socket(fileno=int(sys.argv[1])))
    _end_quickly(lambda: _run(words))
