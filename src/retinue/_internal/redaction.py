"""Redaction of the secrets used by this process.

Code that receives a secret registers it with `register_secret`. Foreign text (a vendor's error, a tool's result, a
traceback) may repeat it, so it passes through `redact` before it reaches a model, a log or a database.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

NAMES = re.compile(
    r"(^|[_-])(api_?key|key|token|secret|password|passwd|authorization|credentials?|sig)$", re.IGNORECASE
)
_LEAST = 8  # characters; anything shorter is too likely to be a word
_forms: set[str] = set()
_any_form: list[re.Pattern[str]] = []


def register_secret(*secrets: str) -> None:
    """Register secrets: `redact` replaces them, encoded forms (base64, URLs, JSON) included."""
    for secret in secrets:
        if len(secret) >= _LEAST and secret not in _forms:
            raw = secret.encode("utf-8", "replace")
            _forms.update((secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1]))
            _forms.update(coded(raw).decode().rstrip("=") for coded in (b64encode, urlsafe_b64encode))
            _any_form[:] = [re.compile("|".join(map(re.escape, sorted(_forms, key=len, reverse=True))))]


def register_named_secrets(values: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
    """Register the values whose names suggest secrets: variables, headers, query parameters."""
    for name, value in dict(values).items():
        if NAMES.search(name):
            register_secret(value, value.partition(" ")[2])  # `Bearer KEY`


def register_url_secrets(url: str) -> None:
    """Register the password and the keys in a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password)
        register_secret(password, parts.password, f"{user}:{password}")  # sent in base64
    elif parts.username:
        register_secret(unquote(parts.username), parts.username)
    register_named_secrets(parse_qsl(parts.query))


def redact(text: str) -> str:
    """Replace secrets in `text` with `***`."""
    return _any_form[0].sub("***", text) if _any_form else text


def redacted_excerpt(text: str, most: int = 60) -> str:
    """Return the beginning of a text from a file, such as an address, without the secrets in it."""
    register_url_secrets(text)
    return redact(text)[:most]
