"""Who did what the audit log says was done."""

from __future__ import annotations

import getpass
import os
from typing import NamedTuple


class Author(NamedTuple):
    """Who acts: an API key by its id, a user of the operating system (`os:NAME`), or the server itself (`server`); and
    the request by which it came, with the client's address."""

    name: str
    request_id: str | None = None
    address: str | None = None


SERVER = Author("server")


def system_user() -> Author:
    """Return the user of the operating system that runs this process."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no name, as in a container
        name = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return Author(f"os:{name}"[:128])
