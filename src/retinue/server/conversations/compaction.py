"""Compaction items: one item that holds a conversation as a model sees it, kept by the client and sent again.

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
from typing import Any

from sqlalchemy import Connection

from ...store.api_keys import server_secret
from ...store.tenant_view import TenantView
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..http.request_body import MAX_BYTES

TYPE = "compaction"
_BEGIN = "rc1."  # version prefix of the content
_SECRET = "compaction"
_SIZE = hashlib.sha256().digest_size


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
