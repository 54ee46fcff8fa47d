"""A server that plays a vendor's API with a reasoning model, and refuses what that vendor refuses.

    MINE = Vendor(
        "mine", "/v1", "/v1/chat/completions", chat_wire(as_field("reasoning_content")), {"a-model": ""},
        make_rules(reasoning_comes_back, *CHAT_RULES), read_failures("rate | 429 | rate_limit | Rate limit reached"),
    )
    with VendorServer(MINE) as server:
        model = PromptModel(server.model, base_url=server.url, api_key=server.key)
        result = Agent(model, [add, look]).run("What is 12 + 30, and what about Åbo?")
        assert result.answer == SCRIPT[-1].text
        assert not server.refusals                       # each is a rule's name and the vendor's words

The model thinks, calls tools as its script says, and wants its thoughts back as the vendor documents it. Which turn
comes next depends on the request alone, so runs may be resumed, forked and repeated. Whether a reply is streamed is
up to the client.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from .vendor_rules import SCRIPT, Asked, Json, Turn, Vendor


class Refusal(NamedTuple):
    """A request that was refused: the name of the rule, or the kind of the failure, and the vendor's words."""

    rule: str
    message: str


class VendorServer:
    """A vendor's API on loopback, as a context manager that may be used from threads and event loops alike.

    Args:
        vendor: Its wire format, models and rules.
        scripts: What the model says. The first script is played of which the request offers all tools. Without tools
            it says the last turn at once.
        window: A prompt of more bytes than this is refused as too long.

    Attributes: `url`, the base URL for clients, and `address` without its path; `model` and `key`, which it wants;
    `asked`, all requests; `refusals`. `fail`: kinds of failure (`too_long`, `rate`, `unavailable`, `unknown_model`,
    `wrong_key`) for the next requests. `tamper`: a function that may change a request before the rules see it, to show
    that a rule holds.
    """

    def __init__(
        self, vendor: Vendor, *, scripts: Sequence[Sequence[Turn]] = (SCRIPT,), window: int | None = None
    ) -> None:
        self.vendor = vendor
        self.scripts = scripts
        self.window = window
        self.model = next(iter(self.vendor.models))
        self.key = "key-of-the-test"
        self.asked: list[Asked] = []
        self.refusals: list[Refusal] = []
        self.fail: list[str] = []
        self.tamper: Callable[[Asked], None] | None = None
        self._issued: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"played": self}))

    @property
    def address(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """The base URL, as the vendor's clients want it."""
        return self.address + self.vendor.root

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def models(self) -> Json:
        """Return the list of models, in OpenAI's form."""
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in self.vendor.models]}

    def answer(self, asked: Asked) -> tuple[int, Json | Iterator[bytes]]:
        """Return the status and the body of the reply to a request."""
        with self._lock:
            if self.tamper:
                self.tamper(asked)
            self.asked.append(asked)
            if found := self._refusal(asked):
                name, status, code, message = found
                self.refusals.append(Refusal(name, message))
                return status, self.vendor.wire.error(status, code, message)
            reply, issued = self.vendor.wire.reply(asked, self._turn(asked.body))
            self._issued |= issued
        return 200, self.vendor.wire.stream(reply) if asked.streams else reply

    def _refusal(self, asked: Asked) -> tuple[str, int, str, str] | None:
        place = re.fullmatch(self.vendor.path, asked.path)
        if not place:
            return "no such path", 404, "not_found", f"Not found: {asked.path}"
        asked.model = str(asked.body.get("model") or unquote(place.groupdict().get("model") or ""))
        asked.traits = frozenset(self.vendor.models.get(asked.model, "").split())
        asked.issued = self._issued
        kind = self.fail.pop(0) if self.fail else self._failure(asked)
        if kind:
            return kind, *self.vendor.failures[kind]
        for rule in self.vendor.rules:
            try:
                problem = next(rule.check(asked), None)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                problem = f"the request is malformed: {error!r}"
            if problem:
                return rule.name, *self.vendor.refusal, problem
        return None

    def _failure(self, asked: Asked) -> str:
        if self.vendor.key and not any(self.key in asked.headers.get(name, "") for name in self.vendor.key.split()):
            return "wrong_key"
        if asked.model not in self.vendor.models:
            return "unknown_model"
        return "too_long" if self.window and len(json.dumps(asked.body)) > self.window else ""

    def _turn(self, body: Json) -> Turn:
        """Return what the model says next."""
        tools, turns = self.vendor.wire.tools(body), self.vendor.wire.turns(body)
        if not tools:
            return self.scripts[0][-1]
        for script in self.scripts:
            if all(name in tools for turn in script for name, _ in turn.calls):
                return script[min(turns, len(script) - 1)]
        name, schema = next(iter(tools.items()))  # a tool of somebody else's, such as a probe's
        found = iter(re.findall(r"\d+", json.dumps(body)))
        given = {one: int(next(found, 0)) for one in schema.get("properties", {})}
        called = Turn("A tool may help.", calls=[(name, given)])
        return self.scripts[0][-1] if turns else called


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that is killed
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    played: VendorServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        found = urlsplit(self.path).path.endswith("/models")
        self._send(200 if found else 404, self.played.models() if found else {"error": {"message": "Not found"}})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(gzip.decompress(raw) if headers.get("content-encoding") == "gzip" else raw)
        except ValueError as error:
            return self._send(400, {"error": {"message": f"invalid JSON: {error}"}})
        url = urlsplit(self.path)
        return self._send(*self.played.answer(Asked(url.path, headers, body, query=url.query)))

    def _send(self, status: int, body: Json | Iterator[bytes]) -> None:
        self.send_response(status)
        if isinstance(body, dict | list):
            whole = json.dumps(body).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole)
        else:
            self.send_header("content-type", self.played.vendor.wire.streamed_as)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for part in (*body, b""):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
