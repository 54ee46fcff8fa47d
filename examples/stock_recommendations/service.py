"""A service on this machine that has the recommendations in `recommendations.json`: `python service.py 8700`.

`POST /recommendations` with `{"period": "newest"}` answers with the newest counts of each stock, and with any other
period, such as `2026-10-01`, with those of that month.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RECORDED = json.loads(Path(__file__).with_name("recommendations.json").read_text("utf-8"))


class Recommendations(BaseHTTPRequestHandler):
    """Answers with recorded counts."""

    def do_POST(self) -> None:
        """The counts of a period."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        period = asked.get("period", "newest")
        if period == "newest":
            period = max(row["period"] for row in RECORDED)
        body = json.dumps([row for row in RECORDED if row["period"] == period]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def serve(port: int) -> ThreadingHTTPServer:
    """Return the service, listening on `port` of this machine (0: any)."""
    return ThreadingHTTPServer(("127.0.0.1", port), Recommendations)


if __name__ == "__main__":
    serve(int(sys.argv[1]) if sys.argv[1:] else 8700).serve_forever()
