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
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .._internal.files import find_state_folder
from .._internal.message_text import suggest_name
from ..core.prompt import Ask, Prompt
from ..core.protocols import Chunks
from ..core.tools.tool import Tool
from ..core.values import Kind, Message, Reply
from ..errors import ModelError, ModelNotFound, ModelRefused, WindowExceeded
from ..net.http_client import HttpClient
from .settings import Api
from .vendor import Vendor
from .wire_format import find_json_at, to_json

Identity = tuple[str, ...]  # the server's address, a digest of the key, the path, the model
_lock = threading.Lock()
logger = logging.getLogger(__name__)


# ── what a server tells ───────────────────────────────────────────────────────────────────────────


_LIST_TIMEOUT = 10.0  # for a list that only improves an error message


@dataclass(frozen=True, slots=True)
class DetectedServer:
    """A server's dialect (`none` if unknown) and the first model it lists, if any."""

    dialect: str
    model: str


async def detect_server(client: HttpClient) -> DetectedServer:
    """Detect the kind of a server that speaks OpenAI's format.

    Raises `ModelError` if the server cannot be reached or rejects the key.
    """
    try:
        models = _list_models(await client.get("/models"))
    except ModelRefused as refused:
        if "answered 404" in str(refused):
            return DetectedServer("none", "")
        raise
    first: Mapping[str, Any] = models[0] if models else {}
    owner, name = str(first.get("owned_by", "")), str(first.get("id", ""))
    if owner in ("llamacpp", "vllm"):
        return DetectedServer(owner, name)
    info = await _get_json(client, "/../info")
    return DetectedServer(
        "tgi" if find_json_at(info, "model_id") and find_json_at(info, "max_input_tokens") else "none", name
    )


async def find_ollama_model(client: HttpClient) -> str:
    """Return the first model of an Ollama server, or an empty string. Raises `ModelError`."""
    models = find_json_at(await client.get("/tags"), "models")
    return str(find_json_at(models[0], "name") or "") if isinstance(models, list) and models else ""


async def find_window(client: HttpClient, dialect: str, model: str) -> int | None:
    """Return the context window of `model` in tokens, or `None` if the server does not report it."""
    found: Any = None
    match dialect:
        case "vllm":
            models = _list_models(await _get_json(client, "/models"))
            found = next((one.get("max_model_len") for one in models if one.get("id") == model), None)
        case "llamacpp":
            found = find_json_at(await _get_json(client, "/../props"), "default_generation_settings", "n_ctx")
        case "tgi":
            found = find_json_at(await _get_json(client, "/../info"), "max_total_tokens")
    return found if isinstance(found, int) and found > 0 else None


async def find_kinds(client: HttpClient, dialect: str, model: str, vendor: Vendor) -> frozenset[Kind]:
    """Return the kinds of files that `model` can be sent: as the server tells, or as its vendor documents."""
    found: dict[Kind, bool] = {}
    match dialect:
        case "ollama":
            told = find_json_at(await _get_json(client, "/show", to_json({"model": model})), "capabilities")
            found = {"image": isinstance(told, list) and "vision" in told}
        case "llamacpp":
            told = find_json_at(await _get_json(client, "/../props"), "modalities")
            found = {"image": find_json_at(told, "vision") is True, "audio": find_json_at(told, "audio") is True}
        case "vllm" | "tgi" | "none":
            pass  # they do not tell
        case _:
            return vendor.reads(model)
    return frozenset(kind for kind, reads in found.items() if reads)


async def suggest_model(client: HttpClient, vendor: Vendor, model: str, refused: ModelNotFound) -> ModelNotFound:
    """Return the error `refused`, extended by a suggestion from the models that the server lists."""
    path, key, name = vendor.listing
    try:
        async with asyncio.timeout(_LIST_TIMEOUT):
            listed = find_json_at(await _get_json(client, path), key)
    except TimeoutError:
        listed = None
    named = (
        [str(find_json_at(one, name)) for one in listed if find_json_at(one, name)] if isinstance(listed, list) else []
    )
    names = [name.removeprefix("models/") for name in named]
    if not names or model in names:  # the server's own message says more
        return refused
    return ModelNotFound(f"{client.shown} has no model {model!r}; {suggest_name(model, names)}")


async def _get_json(client: HttpClient, path: str, body: bytes | None = None) -> Any:
    """Return the JSON at `path`, if any: some servers return an HTML page for every path."""
    try:
        return await client.get(path, body)
    except ModelError:
        return None


def _list_models(answer: Any) -> list[Mapping[str, Any]]:
    models = find_json_at(answer, "data")
    return [model for model in models if isinstance(model, Mapping)] if isinstance(models, list) else []


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

    It is probed once, but again if they did not work the first time, or ten minutes ago. Raises `ModelError`.
    """
    known = PROBED.get(identity)
    if known is None or (known.problem and (not known.is_certain or time.monotonic() > known.since + _ASK_AGAIN)):
        found = await probe_calls(ask)
        if found.problem:
            logger.info("%s cannot call tools natively: %s", title, found.problem)
            if known is not None and known.problem:  # one bad reply may be chance
                found = replace(found, is_certain=True)
        PROBED[identity] = known = found
        remember(identity)
    return known.problem


async def probe_calls(ask: Callable[[Ask], Chunks]) -> Probed:
    """Find out whether tool calls work. Transient failures are retried as usual.

    Raises `ModelError`, also for a refusal that is not about tools, but about the key, the account or the model.
    """
    request = Ask(Prompt(_QUESTION), _QUESTION.content, lambda _: Reply(""), tools=(_ADD,))
    try:
        for most in _MAX_TOKENS:
            reply = await _read_reply(ask(replace(request, max_tokens=most)))
            if reply.calls or reply.finish != "length":
                break
        problem = _describe_problem(reply)
        return Probed(problem, not problem, time.monotonic())
    except (ModelNotFound, WindowExceeded):
        raise
    except ModelRefused as refused:
        if refused.status not in _OF_TOOLS or _OF_ACCOUNT.search(str(refused)):
            raise
        return Probed(f"tool calls are refused: {refused}", True, time.monotonic())


async def _read_reply(chunks: Chunks) -> Reply:
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, Reply):
                return chunk
    raise AssertionError("a reply ends with a Reply")


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
    to this `api` if the server refused the other.
    Of the fields of an assistant's turn, the server rejects those in `turns_without`, and misses those in
    `turns_want`.
    """

    without: frozenset[str] = frozenset()
    most: int | None = None
    in_words: frozenset[str] = frozenset()
    turns_without: frozenset[str] = frozenset()
    turns_want: frozenset[str] = frozenset()
    api: Api | None = None

    def __or__(self, other: Adapted) -> Adapted:
        if other == _NOTHING:  # of most servers; this is asked for each request
            return self
        most = [one.most for one in (self, other) if one.most is not None]
        sets = ("without", "in_words", "turns_without", "turns_want")
        merged = {name: getattr(self, name) | getattr(other, name) for name in sets}
        return Adapted(most=min(most, default=None), api=other.api or self.api, **merged)


_NOTHING = Adapted()
LEARNED: dict[Identity, Adapted] = {}


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
    most, api = values.get("most"), values.get("api")
    named = {name: values.get(name) for name in ("without", "turns_without", "turns_want")}
    sets = {
        name: frozenset(one for one in found if isinstance(one, str))
        for name, found in named.items()
        if isinstance(found, list)
    }
    most = most if isinstance(most, int) and most > 0 else None
    learn(identity, Adapted(most=most, api=api if api in ("chat", "responses") else None, **sets))
    if values.get("calls_tools") is True:
        PROBED.setdefault(identity, Probed("", True, time.monotonic()))


def remember(identity: Identity) -> None:
    """Keep what is known of the model for later processes, if possible."""
    if not _is_kept(identity[0]):
        return
    probed = PROBED.get(identity)
    calls_tools = probed is not None and not probed.problem
    known = asdict(find_adapted(identity))
    del known["in_words"]  # which are of an agent's tools
    values = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in known.items()}
    kept = _read_file() | {_hash_identity(identity): {"calls_tools": calls_tools, **values, "at": time.time()}}
    latest = sorted(kept.items(), key=lambda item: item[1]["at"])[-_MOST:]
    path = _find_file()
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            json.dump(dict(latest), file)
        partial.replace(path)


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
