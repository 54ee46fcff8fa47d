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
        """GitHub: the issues that have all the words, one issue, or what was said of it."""
        at = urlsplit(self.path)
        path = at.path.strip("/").split("/")
        if at.path == "/search/issues":
            found = [self._issue(one) for one in _having(parse_qs(at.query).get("q", [""])[0])]
            return self._say(200, {"total_count": len(found), "incomplete_results": False, "items": found})
        one = next((one for one in RECORDED["issues"] if str(one["number"]) in path), None)
        if one is None:
            return self._say(404, {"message": "Not Found"})
        if path[-1] == "comments":
            return self._say(200, [{"body": text, "user": {"login": "somebody"}} for text in one["said"]])
        return self._say(200, self._issue(one))

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
        shown = {name: value for name, value in one.items() if name != "said"}
        return {
            **shown,
            "html_url": link,
            "comments": len(one["said"]),
            "labels": [{"name": name} for name in one["labels"]],
        }

    def _say(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal is the demo's."""


def _having(query: str) -> list[dict[str, Any]]:
    words = query.split()
    filters = dict(word.split(":", 1) for word in words if ":" in word)
    wanted = {word.casefold() for word in words if ":" not in word}
    found = (one for one in RECORDED["issues"] if wanted <= _words(f"{one['title']} {one['body']}"))
    return [one for one in found if filters.get("state", one["state"]) == one["state"]]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
