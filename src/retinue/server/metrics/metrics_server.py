"""A small HTTP server for metrics and probes: in threads of its own, since it must answer while the event loop is busy.

Whoever reaches its port may read everything that it says.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeAlias

logger = logging.getLogger(__name__)
AT_ONCE = 16  # connections; another one ends the oldest of these
_PRIVATE = (".localhost", ".local", ".internal", ".svc")  # of clusters and other networks of one's own
_SECONDS = 5.0  # that a client may be silent


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes


Pages: TypeAlias = Mapping[str, Callable[[str], Page]]
"""What answers a path, given the request's header `Accept`."""


class MetricsServer(ThreadingHTTPServer):
    """Answers GET requests for `pages` at a listening socket, from `start` until `close`, under the names of this
    machine and its network, and under `hosts`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, pages: Pages, hosts: Collection[str] = ()) -> None:
        super().__init__(listening.getsockname()[:2], _Request, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.pages = pages
        self.hosts = hosts
        self._open: dict[Any, None] = {}  # connections, the oldest first
        self._thread = threading.Thread(target=self.serve_forever, args=[0.1], name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread."""
        while len(self._open) >= AT_ONCE:
            oldest = next(iter(self._open))
            self._open.pop(oldest, None)
            super().shutdown_request(oldest)
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong with a connection."""
        logger.info("a scrape or probe was not answered", exc_info=True)


def _is_ours(host: str, hosts: Collection[str]) -> bool:
    """Whether a request's `Host` is none that a stranger can have: an address, a name within this network, or one that
    is allowed. A page of a stranger's site, whose name leads here, could else read everything."""
    name = host.lower().rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host.lower()
    if "*" in hosts or name in hosts or "." not in name or name.endswith(_PRIVATE):
        return True
    with suppress(ValueError):
        return bool(ip_address(name))
    return False


class _Request(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = _SECONDS
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"
    server_version, sys_version = "retinue", ""

    def do_GET(self) -> None:
        if not _is_ours(self.headers.get("host", ""), self.server.hosts):
            self.send_error(421, "This server is not known by that name (see retinue serve --allow-host).")
            return
        path = self.path.partition("?")[0]
        page = self.server.pages.get(path)
        if page is None:
            self.send_error(404, f"There are {', '.join(self.server.pages)}.")
            return
        answer = page(self.headers.get("accept", ""))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(answer.body)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Log nothing: there is a request every few seconds."""
