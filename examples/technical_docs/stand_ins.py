"""Stand-ins for GitHub and a search engine on this machine: they speak both APIs, and know what recorded.json says.

Everything in that file is invented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded.json").read_text("utf-8"))
_SMALL = frozenset("a an and any are can does how in is of on or the to use uses what which who why with".split())


@contextmanager
def stand_ins(repository: str) -> Iterator[str]:
    """Both services at one address, while it lasts."""
    handler = type("Handler", (_Services,), {"repository": repository})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class _Services(BaseHTTPRequestHandler):
    repository = ""

    def do_GET(self) -> None:
        """GitHub's search: the issues that have all the words."""
        at = urlsplit(self.path)
        if at.path != "/search/issues":
            return self._say(404, {"message": "Not Found"})
        words = parse_qs(at.query).get("q", [""])[0].split()
        filters = dict(word.split(":", 1) for word in words if ":" in word)
        wanted = {word.casefold() for word in words if ":" not in word}
        found = [self._issue(one) for one in RECORDED["issues"] if wanted <= _words(f"{one['title']} {one['body']}")]
        found = [one for one in found if filters.get("state", one["state"]) == one["state"]]
        return self._say(200, {"total_count": len(found), "incomplete_results": False, "items": found})

    def do_POST(self) -> None:
        """Serper's search: the pages that have two of the telling words, or the only one."""
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        wanted = _words(str(asked.get("q", ""))) - _SMALL
        scored = [(len(wanted & _words(f"{one['title']} {one['snippet']}")), one) for one in RECORDED["pages"]]
        found = [one for score, one in scored if score >= min(2, len(wanted)) and score]
        organic = [{**one, "position": at} for at, one in enumerate(found, 1)]
        self._say(200, {"searchParameters": asked, "organic": organic})

    def _issue(self, one: dict[str, Any]) -> dict[str, Any]:
        link = f"https://github.com/{self.repository}/issues/{one['number']}"
        return {**one, "html_url": link, "comments": 0, "labels": [{"name": name} for name in one["labels"]]}

    def _say(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal is the demo's."""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
