"""What is known of each server and its models: detected, probed by a short question, learned from refusals, remembered.

All engines of a process share what they learn. From one process to the next two things are kept, for a day: that native
tool calls work, and what the server refuses. Of a server on this machine nothing is kept, as another model may have its
address a minute later; it is asked again by each process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .._internal.files import find_state_folder, replace_file
from .._internal.message_text import suggest_name
from ..core.prompt import Ask, Prompt
from ..core.protocols import Chunks
from ..core.tools.tool import Tool
from ..core.values import Kind, Message, Reply
from ..errors import ModelError, ModelNotFound, ModelRefused, WindowExceeded
from ..net.http_client import HttpClient
from .settings import Api
from .vendor import Vendor
from .wire_format import find_count_at, find_json_at, find_objects_at, find_text_at, to_json

Identity = tuple[str, ...]  # the server's address, a digest of the key, the path, the model
logger = logging.getLogger(__name__)


# ── what a server tells ───────────────────────────────────────────────────────────────────────────


async def detect_server(client: HttpClient) -> tuple[str, str]:
    """Return the dialect of a server that speaks OpenAI's format, and the first model it lists; empty if unknown.

    Raises `ModelError` if the server cannot be reached or rejects the key.
    """
    try:
        models = find_objects_at(await client.get("/models"), "data")
    except ModelRefused as refused:
        if "answered 404" in str(refused):
            return "", ""
        raise
    owner, name = (str(models[0].get(key, "")) if models else "" for key in ("owned_by", "id"))
    if owner in ("llamacpp", "vllm"):
        return owner, name
    info = await _get_json(client, "/../info")
    return "tgi" if find_json_at(info, "model_id") and find_json_at(info, "max_input_tokens") else "", name


async def find_ollama_model(client: HttpClient) -> str:
    """Return the first model of an Ollama server, or an empty string. Raises `ModelError`."""
    models = find_objects_at(await client.get("/tags"), "models")
    return find_text_at(models[0], "name") if models else ""


async def find_window(client: HttpClient, dialect: str, model: str) -> int | None:
    """Return the context window of `model` in tokens, or `None` if the server does not report it."""
    found = 0
    match dialect:
        case "vllm":
            models = find_objects_at(await _get_json(client, "/models"), "data")
            found = next((find_count_at(one, "max_model_len") for one in models if one.get("id") == model), 0)
        case "llamacpp":
            found = find_count_at(await _get_json(client, "/../props"), "default_generation_settings", "n_ctx")
        case "tgi":
            found = find_count_at(await _get_json(client, "/../info"), "max_total_tokens")
    return found or None


async def find_kinds(client: HttpClient, dialect: str, model: str, vendor: Vendor) -> frozenset[Kind]:
    """Return the kinds of files that `model` can be sent: as the server tells, or as its vendor documents."""
    match dialect:
        case "ollama":
            told = find_json_at(await _get_json(client, "/show", to_json({"model": model})), "capabilities")
            return frozenset(("image",)) if isinstance(told, list) and "vision" in told else frozenset()
        case "llamacpp":
            told = find_json_at(await _get_json(client, "/../props"), "modalities")
            kinds: dict[str, Kind] = {"vision": "image", "audio": "audio"}
            return frozenset(kind for name, kind in kinds.items() if find_json_at(told, name) is True)
        case "vllm" | "tgi" | "none":  # they do not tell
            return frozenset()
    return vendor.reads(model)


async def suggest_model(client: HttpClient, vendor: Vendor, model: str, refused: ModelNotFound) -> ModelNotFound:
    """Return the error `refused`, extended by a suggestion from the models that the server lists."""
    path, key, name = vendor.listing
    listed: list[dict[str, Any]] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(10):  # for a list that only improves an error message
            listed = find_objects_at(await _get_json(client, path), key)
    names = [str(one[name]).removeprefix("models/") for one in listed if one.get(name)]
    if not names or model in names:  # the server's own message says more
        return refused
    return ModelNotFound(f"{client.shown} has no model {model!r}; {suggest_name(model, names)}")


async def _get_json(client: HttpClient, path: str, body: bytes | None = None) -> Any:
    """Return the JSON at `path`, if any: some servers return an HTML page for every path."""
    try:
        return await client.get(path, body)
    except ModelError:
        return None


# ── whether tool calls work ───────────────────────────────────────────────────────────────────────

_OF_TOOLS = (None, 400, 404, 405, 413, 422, 501)  # statuses of a refusal that may be about the tools
_OF_ACCOUNT = re.compile(
    r"(?:api|access)[ _-]?key|credential|unauthori|authenti|billing|credit|quota|permission|payment", re.IGNORECASE
)
_MAX_TOKENS = 512, 8192  # reasoning models think before they call, some of them at length
_ASK_AGAIN = 600.0  # seconds after which a model whose tool calls did not work is probed again


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


_ADD = Tool("add", add, effects="read")
_QUESTION = Message("user", "Call the tool `add` to find out what 19 + 23 is.")


@dataclass(frozen=True, slots=True)
class Probed:
    """The problem with a model's tool calls, or an empty string.

    `is_certain`: it is the server that refuses them, or was found twice. `since` is on the monotonic clock.
    """

    problem: str
    is_certain: bool
    since: float


PROBED: dict[Identity, Probed] = {}


async def find_call_problem(identity: Identity, title: str, ask: Callable[[Ask], Chunks]) -> str:
    """Return the problem with the tool calls of a model, or an empty string. `title` names it in the log.

    It is probed once, but again if they did not work the first time, or ten minutes ago. Raises `ModelError`, also for
    a refusal that is not about tools, but about the key, the account or the model.
    """
    known = PROBED.get(identity)
    if known and (not known.problem or (known.is_certain and time.monotonic() <= known.since + _ASK_AGAIN)):
        return known.problem
    was_bad = known is not None and known.problem != ""  # one bad reply may be chance
    try:
        problem = _describe_problem(await _ask_for_call(ask))
        found = Probed(problem, not problem or was_bad, time.monotonic())
    except (ModelNotFound, WindowExceeded):
        raise
    except ModelRefused as refused:
        if refused.status not in _OF_TOOLS or _OF_ACCOUNT.search(str(refused)):
            raise
        found = Probed(f"tool calls are refused: {refused}", True, time.monotonic())
    if found.problem:
        logger.info("%s cannot call tools natively: %s", title, found.problem)
    PROBED[identity] = found
    remember(identity)
    return found.problem


async def _ask_for_call(ask: Callable[[Ask], Chunks]) -> Reply:
    """Return the reply to a request for a call, asked for at greater length if it was cut off."""
    request = Ask(Prompt(_QUESTION), _QUESTION.content, lambda _: Reply(""), tools=(_ADD,))
    reply = Reply("")
    for most in _MAX_TOKENS:
        async with aclosing(ask(replace(request, max_tokens=most))) as chunks:
            async for chunk in chunks:
                reply = chunk if isinstance(chunk, Reply) else reply
        if reply.calls or reply.finish != "length":
            break
    return reply


def _describe_problem(reply: Reply) -> str:
    if not reply.calls:
        said = " ".join(reply.text.split())
        return f"asked for a tool call, it answered in words: {said[:80]!r}" if said else "it did not call the tool"
    call = reply.calls[0]
    given = call.tool_input
    numbers = isinstance(given, dict) and all(type(given.get(name)) is int for name in ("a", "b"))
    return "" if call.tool == "add" and numbers else f"it called {call.tool[:40]!r} with {str(given)[:80]}"


# ── what a server refuses ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Adapted:
    """What a server was found to reject.

    Requests are sent `without` these parameters, for at most `most` tokens, with these tools described `in_words`, and
    to this `api` if the server refused the other. Of the fields of an assistant's turn, the server rejects those in
    `turns_without`, and misses those in `turns_want`.
    """

    without: frozenset[str] = frozenset()
    most: int | None = None
    in_words: frozenset[str] = frozenset()
    turns_without: frozenset[str] = frozenset()
    turns_want: frozenset[str] = frozenset()
    api: Api | None = None

    def __or__(self, other: Adapted) -> Adapted:
        if other == _NOTHING:  # of most servers; a run that waits for its reply holds this
            return self
        return Adapted(
            self.without | other.without,
            min((one.most for one in (self, other) if one.most is not None), default=None),
            self.in_words | other.in_words,
            self.turns_without | other.turns_without,
            self.turns_want | other.turns_want,
            other.api or self.api,
        )


_NOTHING = Adapted()
LEARNED: dict[Identity, Adapted] = {}
_lock = threading.Lock()


def find_adapted(identity: Identity) -> Adapted:
    """Return what this process has learned of the model."""
    return LEARNED.get(identity, _NOTHING)


def learn(identity: Identity, found: Adapted) -> None:
    """Add what was found out about the model."""
    with _lock:  # engines run in event loops of several threads
        LEARNED[identity] = find_adapted(identity) | found


# ── from one process to the next ──────────────────────────────────────────────────────────────────

SWITCH = "RETINUE_KNOWN_SERVERS"  # in the environment: `off` keeps nothing, `on` keeps it of all servers
_SECONDS = 86_400.0
_MOST = 200  # models


def recall(identity: Identity) -> None:
    """Learn what earlier processes knew of the model."""
    values = _read_file().get(_hash_identity(identity), {}) if _is_kept(identity[0]) else {}
    api: Api | None = next((api for api in ("chat", "responses") if values.get("api") == api), None)
    sets = [
        frozenset(one for one in found if isinstance(one, str)) if isinstance(found, list) else frozenset[str]()
        for found in map(values.get, ("without", "turns_without", "turns_want"))
    ]
    learn(identity, Adapted(sets[0], find_count_at(values, "most") or None, frozenset(), sets[1], sets[2], api))
    if values.get("calls_tools") is True:
        PROBED.setdefault(identity, Probed("", True, time.monotonic()))


def remember(identity: Identity) -> None:
    """Keep what is known of the model for later processes, if possible."""
    if not _is_kept(identity[0]):
        return
    probed = PROBED.get(identity)
    known = asdict(find_adapted(identity))
    del known["in_words"]  # which are of an agent's tools
    known |= {"calls_tools": probed is not None and not probed.problem, "at": time.time()}
    kept = sorted((_read_file() | {_hash_identity(identity): known}).items(), key=lambda item: item[1]["at"])
    path = _find_file()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(dict(kept[-_MOST:]), default=sorted), private=True)


def _find_file() -> Path:
    return find_state_folder() / "servers.json"


def _read_file() -> dict[str, dict[str, Any]]:
    """Return what is kept and not too old. A damaged file counts as none."""
    try:
        kept = json.loads(_find_file().read_bytes())
        since = time.time() - _SECONDS
        return {key: values for key, values in kept.items() if values["at"] > since}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _hash_identity(identity: Identity) -> str:
    return hashlib.sha256(json.dumps(list(identity)).encode()).hexdigest()[:32]


def _is_kept(address: str) -> bool:
    said = os.environ.get(SWITCH, "").strip().lower()
    if said in ("on", "off"):
        return said == "on"
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:  # no address
        return False
    with suppress(ValueError):
        return not ip_address(host).is_loopback
    return host != "localhost" and not host.endswith(".localhost")
