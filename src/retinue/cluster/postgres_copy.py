"""Copies of a PostgreSQL database, by PostgreSQL's own programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import URL, make_url

from ..errors import StoreUnavailable
from .programs import postgres_program

MAGIC = b"PGDMP"
_PLAIN = ("--no-owner", "--no-privileges")  # of whoever restores it


def dump(url: str, copy: Path) -> None:
    """Write the database to the file `copy`, as it is at one moment. Raises `StoreUnavailable`."""
    _run("pg_dump", url, ["--format=custom", *_PLAIN, f"--file={copy}"])


def restore(copy: Path, url: str) -> None:
    """Write a copy into an empty database, as a whole or not at all. Raises `StoreUnavailable`."""
    words = ["--exit-on-error", "--single-transaction", *_PLAIN, str(copy)]
    _run("pg_restore", url, words)


def _run(program: str, url: str, words: Sequence[str]) -> None:
    parsed = make_url(url)
    env = {**os.environ, **({"PGPASSWORD": str(parsed.password)} if parsed.password else {})}
    command = [postgres_program(program), f"--dbname={_address(parsed)}", *words]  # other users see these words
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise StoreUnavailable(said[0] if said else f"{program} ended with status {done.returncode}")


def _address(url: URL) -> str:
    """Return the URL as PostgreSQL's programs read it, without the password."""
    return url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
