"""The socket at which a server listens."""

from __future__ import annotations

import errno
import socket

from ...errors import UsageError

BACKLOG = 2_048  # connections that may wait


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a listening socket (port 0: any free port). Raises `UsageError` if that fails; `option` is what says the
    port."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it only on its own sockets
        return listening
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = f"the port is in use; give another with {option} (0: any that is free)"
        raise UsageError(f"cannot listen on {host}:{port}: {reason}") from error


def url_of(host: str, listening: socket.socket) -> str:
    """Return the address of a server that listens at a socket of `host`."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"
