"""What a sandbox reaches of the network: nothing, or hosts by their names, through a proxy that asks the guard."""

from __future__ import annotations

import asyncio
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue.harness.folder_workspace import FolderWorkspace
from retinue.harness.sandbox import Sandbox
from retinue.harness.shell import run_in_workspace

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: make sandbox")


class _Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"page {self.path} for {self.headers['Host']}, {self.headers['Connection']}".encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(sandbox: Sandbox, folder: Path, *requests: str) -> list[str]:
    """What the proxy answers; each request is sent on a connection of its own, as it stands."""
    lines = [
        f"exec 3<>/dev/tcp/127.0.0.1/3128; printf '{one}' >&3; timeout 5 cat <&3; exec 3>&-; echo; echo ------"
        for one in requests
    ]
    result = asyncio.run(run_in_workspace(FolderWorkspace(folder), "\n".join(lines), 20, sandbox, {}))
    return str(result.text).split("------")[: len(requests)]


def connect(address: str) -> str:
    return f"CONNECT {address} HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n"


def test_only_hosts_that_the_operator_named_are_reached(tmp_path: Path, port: int) -> None:
    there = f"127.0.0.1:{port}"
    sandbox = Sandbox(network=[there, "example.org", "*.internal.test"])
    tunnel, plain, *refused = ask(
        sandbox,
        tmp_path,
        f"{connect(there)}GET /in HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n",
        f"GET http://{there}/ HTTP/1.1\\r\\n\\r\\n",
        *map(connect, ("example.com:443", f"127.0.0.1:{port + 1}", f"localhost:{port}", f"2130706433:{port}")),
        *map(connect, ("example.org:22", "example.org.evil.test:443", "internal.test:443", "x@example.org:443")),
        *map(connect, ("", "[::1]:443", "example.org:443/../..")),
        "HELO there\\r\\n\\r\\n",
        f"CONNECT {'x' * 20_000} HTTP/1.1\\r\\n\\r\\n",
    )
    assert "page /in for x, close" in tunnel
    assert "HTTPS only" in plain
    assert [one for one in refused if "403" not in one and "502" not in one] == []
    assert "example.com:443 is not among the hosts" in refused[0]


def test_names_with_private_addresses_are_refused(tmp_path: Path) -> None:
    sandbox = Sandbox(network=["localhost", "*.localhost", "10.0.0.1", "intranet"])
    for said in ask(sandbox, tmp_path, *map(connect, ("a.localhost:443", "10.0.0.1:443", "intranet:443"))):
        assert "403" in said or "502" in said, said


def test_without_named_hosts_and_for_reading_commands_there_is_no_proxy(tmp_path: Path, port: int) -> None:
    said = ask(Sandbox(), tmp_path, connect(f"127.0.0.1:{port}"))
    assert "Connection refused" in said[0] or "page" not in said[0]
    workspace = FolderWorkspace(tmp_path)
    reading = run_in_workspace(workspace, "head -c 1 /dev/tcp/127.0.0.1/3128", 5, Sandbox(network=["example.org"]), {})
    assert "Exit code 1" in asyncio.run(reading).text
