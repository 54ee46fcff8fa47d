"""A server that plays a vendor's API with a reasoning model, and refuses what that vendor refuses (docs/testing.md).

The model thinks, calls tools as its script says, and wants its thoughts back as the vendor documents it. Which turn
comes next depends on the request alone, so runs may be resumed, forked and repeated. Whether a reply is streamed is
up to the client.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import inspect
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit

Json = dict[str, Any]
Problems = Iterator[str]
Issued = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the played model says next: its thought, its text, and the tools that it calls, with their arguments."""

    thought: str
    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()


SCRIPT = (
    Turn(" First the sum:\n2 + 3 – “five”? ", calls=[("add", {"a": 2, "b": 3})]),
    Turn("Then\tanother.\n", "One more.", calls=[("add", {"a": 5, "b": 7})]),
    Turn("Two at once… \u2028", calls=[("add", {"a": 12, "b": 30}), ("look", {"what": "Åbo & <Turku>"})]),
    Turn("That is all.", "The sum is 42."),
)
"""Two calls in a row, two at once, and the answer. It needs the tools `add(a: int, b: int)` and `look(what: str)`."""


@dataclass(slots=True)
class Asked:
    """A request. `traits`: what is special about its model; `issued`: the turns that were sent, by their calls' ids."""

    path: str
    headers: Mapping[str, str]
    body: Json
    query: str = ""
    model: str = ""
    traits: frozenset[str] = frozenset()
    issued: Issued = field(default_factory=dict)

    def made(self, *ids: str) -> Any:
        """Return the issued turn with a call of one of these ids, or `None` if it is not of this API."""
        return next((self.issued[one] for one in ids if one in self.issued), None)


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that a vendor wants. `check` yields what is wrong with a request, in the vendor's words.

    `source` says where the vendor documents it, or where somebody reported it.
    """

    name: str
    wants: str
    source: str
    check: Callable[[Asked], Problems]


def make_rules(*checks: Callable[[Asked], Problems]) -> tuple[Rule, ...]:
    """Return a rule for each of `checks`; the last line of the docstring is its source."""
    docs = [(inspect.getdoc(check) or "").splitlines() for check in checks]
    names = [check.__name__.replace("_", " ") for check in checks]
    rows = zip(names, docs, checks, strict=True)
    return tuple(Rule(name, " ".join(doc[:-1]), doc[-1], check) for name, doc, check in rows)


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire format, as a server speaks it.

    `turns`: how many turns of the model a request has since the last message of the user. `tools`: the schemas of the
    offered tools by name. `reply`: a whole reply, and the turns that are to come back, by the ids of their calls.
    `stream`: the reply as the vendor streams it. `error`: status, code and message in the vendor's envelope.
    """

    turns: Callable[[Json], int]
    tools: Callable[[Json], Mapping[str, Json]]
    reply: Callable[[Asked, Turn], tuple[Json, Issued]]
    stream: Callable[[Json], Iterator[bytes]]
    error: Callable[[int, str, str], Any]
    streamed_as: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's API. `root`: the path of its base URL; `path`: a pattern, which may have a group `model`.

    `models`: their traits by name, the first being the default. `failures`: by kind (`too_long`, `rate`,
    `unavailable`, `unknown_model`, `wrong_key`) the status, the code and the message. `refusal`: status and code of
    a broken rule. `key`: the headers that may have the key; none if it needs no key.
    """

    name: str
    root: str
    path: str
    wire: Wire
    models: Mapping[str, str]
    rules: tuple[Rule, ...]
    failures: Mapping[str, tuple[int, str, str]]
    refusal: tuple[int, str] = (400, "invalid_request_error")
    key: str = "authorization"


def read_failures(table: str) -> Mapping[str, tuple[int, str, str]]:
    """Read lines of `kind | status | code | message`."""
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return {kind: (int(status), code, message) for kind, status, code, message in rows}


def seal(*parts: Any) -> str:
    """Return a text as opaque as a vendor's signature, which follows from `parts`."""
    digest = hashlib.sha512(json.dumps(parts, sort_keys=True, default=str).encode()).digest()
    return base64.b64encode(digest * 3).decode()


def number_of(conversation: Any) -> str:
    """Return eight letters and digits for ids, which follow from the conversation so far."""
    return re.sub(r"\W", "", seal(conversation))[:8]


def cut_pieces(text: str, size: int = 5) -> list[str]:
    """Return `text` in the pieces in which it is streamed."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def encode_sse(event: Any, name: str = "") -> bytes:
    """Return a server-sent event."""
    return f"{f'event: {name}' + chr(10) if name else ''}data: {json.dumps(event)}\n\n".encode()


def find_unknown_names(given: Mapping[str, Any], known: str) -> list[str]:
    """Return the names in `given` that are not among the `known` ones."""
    return sorted(set(given) - set(known.split()))


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
        self.model = next(iter(vendor.models))
        self.key = "key-of-the-test"
        self.asked: list[Asked] = []
        self.refusals: list[Refusal] = []
        self.fail: list[str] = []
        self.tamper: Callable[[Asked], None] | None = None
        self._issued: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"played": self}))
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.url = self.address + vendor.root

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: Asked) -> tuple[int, Json | Iterator[bytes]]:
        """Return the status and the body of the reply to a request."""
        wire = self.vendor.wire
        with self._lock:
            if self.tamper:
                self.tamper(asked)
            self.asked.append(asked)
            if found := self._find_refusal(asked):
                name, status, code, message = found
                self.refusals.append(Refusal(name, message))
                return status, wire.error(status, code, message)
            reply, issued = wire.reply(asked, self._find_turn(asked.body))
            self._issued |= issued
        streams = asked.body.get("stream") is True or "stream" in asked.path.lower()
        return 200, wire.stream(reply) if streams else reply

    def _find_refusal(self, asked: Asked) -> tuple[str, int, str, str] | None:
        place = re.fullmatch(self.vendor.path, asked.path)
        if not place:
            return "no such path", 404, "not_found", f"Not found: {asked.path}"
        asked.model = str(asked.body.get("model") or unquote(place.groupdict().get("model") or ""))
        asked.traits = frozenset(self.vendor.models.get(asked.model, "").split())
        asked.issued = self._issued
        keys = [asked.headers.get(name, "") for name in self.vendor.key.split()]
        failures = {
            "wrong_key": keys and not any(self.key in key for key in keys),
            "unknown_model": asked.model not in self.vendor.models,
            "too_long": self.window and len(json.dumps(asked.body)) > self.window,
        }
        if kind := self.fail.pop(0) if self.fail else next((kind for kind, held in failures.items() if held), ""):
            return kind, *self.vendor.failures[kind]
        for rule in self.vendor.rules:
            try:
                problem = next(rule.check(asked), None)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                problem = f"the request is malformed: {error!r}"
            if problem:
                return rule.name, *self.vendor.refusal, problem
        return None

    def _find_turn(self, body: Json) -> Turn:
        """Return what the model says next."""
        tools, turns = self.vendor.wire.tools(body), self.vendor.wire.turns(body)
        for script in self.scripts if tools else ():
            if all(name in tools for turn in script for name, _ in turn.calls):
                return script[min(turns, len(script) - 1)]
        if turns or not tools:
            return self.scripts[0][-1]
        name, schema = next(iter(tools.items()))  # a tool of somebody else's, such as a probe's
        found = iter(re.findall(r"\d+", json.dumps(body)))
        given = {one: int(next(found, 0)) for one in schema.get("properties", {})}
        return Turn("A tool may help.", calls=[(name, given)])


class _Server(ThreadingHTTPServer):
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
        if urlsplit(self.path).path.endswith("/models"):
            models = [{"id": name, "object": "model"} for name in self.played.vendor.models]
            return self._send(200, {"object": "list", "data": models})  # in OpenAI's form
        return self._send(404, {"error": {"message": "Not found"}})

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


# ── OpenAI's chat completions ────────────────────────────────────────────────────────────────────


def open_turns(body: Json) -> list[tuple[int, Json]]:
    """Return the assistant's messages since the last one of the user."""
    messages = list(enumerate(body["messages"]))
    last = max((at for at, message in messages if message["role"] not in ("assistant", "tool")), default=-1)
    return [(at, message) for at, message in messages if at > last and message["role"] == "assistant"]


def count_turns(body: Json) -> int:
    """Return how many turns of the model there are since the last message of the user."""
    return len(open_turns(body))


def read_tools(body: Json) -> Mapping[str, Json]:
    """Return the schemas of the offered tools by name."""
    return {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or []}


def read_calls(message: Json) -> list[Json]:
    """Return the calls of a message."""
    return message.get("tool_calls") or []


def make_calls(turn: Turn, number: str, form: str = "call_{0}{1}") -> list[Json]:
    """Return the calls of a turn, with ids of this form."""
    functions = [{"name": name, "arguments": json.dumps(given)} for name, given in turn.calls]
    return [
        {"id": form.format(number, at, function["name"]), "type": "function", "function": function}
        for at, function in enumerate(functions)
    ]


Put = Callable[[Json, Turn, str], None]


def as_field(name: str) -> Put:
    """Put the thought into a field of the message, which is to come back."""
    return lambda message, turn, number: message.update({name: turn.thought})


def list_deltas(message: Json) -> Iterator[Json]:
    """Yield a message as it is streamed: what was thought, what was said, and the calls."""
    for name in ("reasoning_content", "reasoning", "content"):
        yield from ({name: piece} for piece in cut_pieces(message.get(name) or ""))
    for index, call in enumerate(read_calls(message)):
        yield {"tool_calls": [call | {"index": index, "function": call["function"] | {"arguments": ""}}]}
        for piece in cut_pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def make_openai_error(status: int, code: str, message: str) -> Any:
    """Return an error in OpenAI's envelope."""
    kind = "invalid_request_error" if status < 429 else "rate_limit_error" if status == 429 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}


def chat_wire(
    put: Put | None,
    ids: str = "call_{0}{1}",
    error: Callable[[int, str, str], Any] = make_openai_error,
    deltas: Callable[[Json], Iterator[Json]] = list_deltas,
) -> Wire:
    """Return the wire of a vendor.

    Args:
        put: Adds the thought to a message.
        ids: The form of a call's id, with places for what differs by conversation (0) and by call (1), and for the
            tool's name (2).
        error: Returns status, code and message in the vendor's envelope.
        deltas: Yields the parts in which a message is streamed.
    """

    def reply(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
        number = number_of(asked.body["messages"])
        calls = make_calls(turn, number, ids)
        message: Json = {"role": "assistant", "content": turn.text or None} | ({"tool_calls": calls} if calls else {})
        if put and "mute" not in asked.traits and asked.body.get("thinking", {}).get("type") != "disabled":
            put(message, turn, number)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
        head = {"id": f"chatcmpl-{number}", "created": 1, "model": asked.model, "usage": usage}
        return head | {"object": "chat.completion", "choices": [choice]}, {call["id"]: message for call in calls}

    def stream(whole: Json) -> Iterator[bytes]:
        head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        (choice,) = whole["choices"]
        for delta in [{"role": "assistant", "content": ""}, *deltas(choice["message"]), {}]:
            end = None if delta else choice["finish_reason"]
            yield encode_sse(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
        yield encode_sse(head | {"choices": [], "usage": whole["usage"]})
        yield b"data: [DONE]\n\n"

    return Wire(count_turns, read_tools, reply, stream, error)


def results_follow_their_calls(asked: Asked) -> Problems:
    """A message with calls is followed by a tool message for each of them, before anything else.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    waiting: list[str] = []
    for at, message in enumerate([*asked.body["messages"], {"role": "end"}]):
        if message["role"] == "tool" and message.get("tool_call_id") in waiting:
            waiting.remove(message["tool_call_id"])
        elif message["role"] == "tool":
            yield f"messages.[{at}].role: messages with role 'tool' must be a response to a preceeding message with"
        elif waiting:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
                f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
            )
        else:
            waiting = [call["id"] for call in read_calls(message)]


def calls_are_unmodified(asked: Asked) -> Problems:
    """The calls of the model come back with their ids, names and arguments, none more and none less.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    for at, message, issued in with_calls(asked, enumerate(asked.body["messages"])):
        made, sent = ([(one["id"], read_essence(one)) for one in read_calls(turn)] for turn in (issued, message))
        if issued and made != sent:
            yield f"messages.[{at}].tool_calls: they are not as the model made them"


def read_essence(call: Json) -> str:
    """Return the name and the arguments of a call, however they are written."""
    given = call["function"]["arguments"]
    return json.dumps([call["function"]["name"], json.loads(given) if isinstance(given, str) else given])


def schemas_are_valid(asked: Asked) -> Problems:
    """The schema of a tool is of an object; a strict one has no additional properties, and requires all it has.
    https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    """
    for tool in asked.body.get("tools") or []:
        yield from open_schema(tool["function"])
    if asked.body.get("tools") == []:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    if "tool_choice" in asked.body and not asked.body.get("tools"):
        yield "'tool_choice' is only allowed when 'tools' are specified."


def with_calls(asked: Asked, messages: Iterable[tuple[int, Json]]) -> Iterator[tuple[int, Json, Json]]:
    """Yield each message with calls: its index, itself, and what was issued, which is empty if others made it."""
    for at, message in messages:
        if calls := read_calls(message):
            yield at, message, asked.made(*(call["id"] for call in calls)) or {}


def open_schema(tool: Json) -> Problems:
    """Yield why OpenAI refuses a function: its schema is no object, or is strict and open."""
    schema = tool.get("parameters") or {"type": "object", "properties": {}}
    start = f"Invalid schema for function '{tool['name']}': "
    if schema.get("type") != "object":
        yield f"{start}schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    elif tool.get("strict") and schema.get("additionalProperties") is not False:
        yield f"{start}In context=(), 'additionalProperties' is required to be supplied and to be false."
    elif tool.get("strict") and set(schema.get("required", [])) != set(schema.get("properties", {})):
        yield f"{start}In context=(), 'required' is required to be supplied and to be an array including every key"


CHAT_RULES = (results_follow_their_calls, calls_are_unmodified, schemas_are_valid)
