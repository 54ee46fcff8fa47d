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
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest")
        else:
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


def get(url: str) -> str:
    return f"GET {url} HTTP/1.1\\r\\nHost: evil.example\\r\\nProxy-Connection: keep-alive\\r\\n\\r\\n"


def test_only_hosts_that_the_operator_named_are_reached(tmp_path: Path, port: int) -> None:
    sandbox = Sandbox(network=[f"127.0.0.1:{port}", "example.org", "*.internal.test"])
    there = f"127.0.0.1:{port}"
    plain, moved, tunnel, other, port_of_other, private, by_number, below, rubbish, long = ask(
        sandbox,
        tmp_path,
        get(f"http://{there}/a?b=c"),
        get(f"http://{there}/moved"),
        f"CONNECT {there} HTTP/1.1\\r\\n\\r\\nGET /in HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n",
        get("http://example.com/"),
        f"CONNECT 127.0.0.1:{port + 1} HTTP/1.1\\r\\n\\r\\n",
        get("http://localhost/"),
        get("http://2130706433/"),
        get("http://127.0.0.1.internal.test:22/"),
        "HELO there\\r\\n\\r\\n",
        "GET http://example.org/" + "x" * 20_000 + " HTTP/1.1\\r\\n\\r\\n",
    )
    assert f"page /a?b=c for {there}, close" in plain  # the host is the one that was looked at
    assert "302" in moved, "a redirect is the client's to follow, through the proxy"
    assert "page /in for x" in tunnel
    for refused in (other, port_of_other, private, by_number):
        assert "403" in refused
        assert "not among the hosts" in refused
    assert "403" in below
    assert "502" in rubbish
    assert "502" in long


def test_names_with_private_addresses_are_refused(tmp_path: Path) -> None:
    sandbox = Sandbox(network=["localhost", "*.localhost", "10.0.0.1", "intranet"])
    for said in ask(sandbox, tmp_path, *map(get, ("http://a.localhost/", "http://10.0.0.1/", "http://intranet/"))):
        assert "403" in said or "502" in said, said


def test_without_named_hosts_and_for_reading_commands_there_is_no_proxy(tmp_path: Path, port: int) -> None:
    said = ask(Sandbox(), tmp_path, get(f"http://127.0.0.1:{port}/"))
    assert "Connection refused" in said[0] or "page" not in said[0]
    workspace = FolderWorkspace(tmp_path)
    reading = run_in_workspace(workspace, "head -c 1 /dev/tcp/127.0.0.1/3128", 5, Sandbox(network=["example.org"]), {})
    assert "Exit code 1" in asyncio.run(reading).text
