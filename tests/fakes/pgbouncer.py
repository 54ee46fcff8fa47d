"""A real PgBouncer in transaction mode, where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import make_url

from .until import until

PROGRAM = shutil.which("pgbouncer")
_INI = """
[databases]
{name} = host={host} user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 4
"""


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """The URL of the same database through a pool of four sessions, while in the block."""
    assert PROGRAM is not None
    folder = Path(tempfile.mkdtemp(prefix="pool"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # as which it does not run
        shutil.chown(folder, "nobody")
        user = {"user": "nobody"}
    parsed = make_url(url)
    settings = _INI.format(name=parsed.database, host=parsed.query["host"], folder=folder)
    (folder / "pgbouncer.ini").write_text(settings)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([PROGRAM, str(folder / "pgbouncer.ini")], stdout=log, stderr=log, cwd="/", **user)
    try:
        until(lambda: (folder / ".s.PGSQL.6432").exists())
        yield f"postgresql://postgres@/{parsed.database}?host={quote(str(folder), safe='')}&port=6432"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)
