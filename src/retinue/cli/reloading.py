"""`retinue serve --reload`: the server is a process of its own, which is started again when its code changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

_KINDS = (".py", ".yaml", ".yml")
_LEFT_OUT = ("__pycache__", "node_modules", "site-packages")
_EVERY = 0.4  # seconds between two looks at the files
_GRACE = 20.0  # seconds for a server to end, beyond those that its runs get
_NAMED = 3  # changed files that are named
_CHILD = "RETINUE_RELOADED"  # in the environment of the server's process
Seen = Mapping[Path, tuple[int, int]]


def is_reloaded() -> bool:
    """Whether this is the server's process. It then ends when the one that watches the files does, however that ends:
    its standard input is a pipe from there."""
    if _CHILD not in os.environ:
        return False

    def end_with_parent() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()
    return True


def serve_reloading(folder: Path, words: Sequence[str]) -> int:
    """Run `retinue WORDS` until Ctrl-C or SIGTERM, and start it again whenever a Python or YAML file below `folder`
    changes. While what was written is broken, its error is shown and nothing runs. Return the exit status."""
    stopped = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stopped.set())
    seen, told = look(folder), ""
    while not stopped.is_set():
        server = _start(words)
        try:
            while not stopped.wait(_EVERY) and (now := look(folder)) == seen:
                if server.poll() is not None and told != "waiting":
                    click.echo("retinue: it ended; waiting for a change", err=True)
                    told = "waiting"
            while not stopped.wait(_EVERY / 2) and (later := look(folder)) != now:  # until it is written
                now = later
        finally:
            _stop(server)
        if not stopped.is_set():
            changed = [str(file.relative_to(folder)) for file, _ in sorted(now.items() ^ seen.items())]
            names = list(dict.fromkeys(changed))
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            click.echo(f"retinue: changed: {', '.join(names[:_NAMED])}{more}; starting again", err=True)
            seen, told = now, ""
    return 0


def look(folder: Path) -> Seen:
    """Return the Python and YAML files below a folder with when and how large they were written, without hidden ones
    and those of virtual environments."""
    found: dict[Path, tuple[int, int]] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [
            one for one in folders
            if one not in _LEFT_OUT and one[0] != "." and not Path(place, one, "pyvenv.cfg").exists()
        ]  # fmt: skip
        for file in (Path(place, name) for name in files if name.endswith(_KINDS) and name[0] != "."):
            try:
                about = file.stat()
            except OSError:  # gone meanwhile
                continue
            found[file] = about.st_mtime_ns, about.st_size
    return found


def _start(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the server, in a session of its own: Ctrl-C is for this process, which then stops it in order."""
    command = [sys.executable, "-m", "retinue", *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, _CHILD: "1"}, start_new_session=True)


def _stop(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    try:
        server.wait(_GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
