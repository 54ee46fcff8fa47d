"""Compaction items: one item that holds a conversation as a model sees it, kept by the client and sent again. Of a long
one, it has a summary in the place of the older turns.

The content is authenticated with HMAC-SHA256 under a secret of the database, for one tenant: content of other tenants,
or altered content, is refused. It holds only that tenant's text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from ...agent import Agent
from ...core.events import EARLIER
from ...core.loop.compaction import Window, choose_summarized, summarize_in_pieces
from ...core.loop.sent_prompts import SentPrompt
from ...core.protocols import SummaryTask
from ...core.values import Usage
from ...errors import ModelError
from ...run.summaries import summarize
from ...store.api_keys import server_secret
from ...store.tenant_view import TenantView
from ..content.conversation import read_turn
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..http.request_body import MAX_BYTES

TYPE = "compaction"
_BEGIN = "rc1."  # version prefix of the content
_SECRET = "compaction"
_SHORT = 4_000  # characters of a conversation that is kept verbatim
_SIZE = hashlib.sha256().digest_size


def choose_turns(agent: Agent, turns: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """Return the places of the turns that a summary is to stand for: none of a short conversation, nor where the
    agent's hooks judge what its model is asked."""
    sent, judged = _read_turns(turns), any(one.point in ("before_model", "after_model") for one in agent.hooks)
    return () if judged or sent.size < _SHORT else choose_summarized(sent, sent.size, ())


async def summarize_turns(
    agent: Agent, turns: Sequence[Mapping[str, Any]], places: Sequence[int]
) -> tuple[Sequence[Mapping[str, Any]], Usage]:
    """Return the turns with a summary in the place of these, and what that used. If the model fails, they stay."""
    sent, model = _read_turns(turns), agent.spec.context.model or agent.model
    try:
        window = Window((await model.abilities()).window)
    except ModelError:
        return turns, Usage()
    told = tuple(replace(sent.messages[at], files=()) for at in places)
    users = tuple(one.content for one in sent.messages if one.role == "user")
    task = SummaryTask(told, users, (), window.count(sent.size // 8), 0)
    made = await summarize_in_pieces(partial(summarize, model), task, window.room(task.tokens) or sent.size)
    if not made.text:
        return turns, made.usage
    kept = [{"role": "user", "content": made.text} if at == places[-1] else one for at, one in enumerate(turns)]
    return [one for at, one in enumerate(kept) if at not in places[:-1]], made.usage


def _read_turns(turns: Sequence[Mapping[str, Any]]) -> SentPrompt:
    sent = SentPrompt(EARLIER)
    sent.extend(None, list(map(read_turn, turns)))
    return sent


def make_secret(connection: Connection, scope: TenantView) -> None:
    """Generate the secret of the database if it does not exist."""
    server_secret(connection, _SECRET, make=True)


def seal_compaction(connection: Connection, tenant: str, items: Sequence[Mapping[str, Any]]) -> str:
    """Return the content of a compaction item for `items`. Call `make_secret` once before."""
    text = zlib.compress(json.dumps(items, ensure_ascii=False).encode())
    whole = _mac(server_secret(connection, _SECRET), tenant, text) + text
    return _BEGIN + base64.urlsafe_b64encode(whole).decode()


def expand_compactions(connection: Connection, tenant: str, items: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Replace compaction items in `items` by the items they hold. Raises `ApiError` (400) if one was not created for
    `tenant`, or if they hold too much."""
    there, left = list[Object](), MAX_BYTES
    for item in items:
        if item["type"] != TYPE:
            there.append(dict(item))
            continue
        text = _open(connection, tenant, item["encrypted_content"], left)
        left -= len(text)
        there += json.loads(text)
    return there


def _open(connection: Connection, tenant: str, content: str, most: int) -> bytes:
    key = server_secret(connection, _SECRET)
    try:
        whole = base64.urlsafe_b64decode(content.removeprefix(_BEGIN).encode("ascii"))
    except (ValueError, binascii.Error):
        whole = b""
    mac, text = whole[:_SIZE], whole[_SIZE:]
    known = key and content.startswith(_BEGIN) and hmac.compare_digest(mac, _mac(key, tenant, text))
    if not known:
        message = "Invalid 'encrypted_content' of a compaction item: it was not created here for you, or was altered."
        raise ApiError(400, message, param="input", code="invalid_encrypted_content")
    opening = zlib.decompressobj()
    told = opening.decompress(text, most + 1)
    if len(told) > most:
        raise ApiError(400, "Invalid 'input': the compaction items hold more than 20 MB.", param="input")
    return told


def _mac(key: bytes, tenant: str, text: bytes) -> bytes:
    return hmac.digest(key, tenant.encode() + b"\0" + text, "sha256")
