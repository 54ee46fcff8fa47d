"""Redaction of the secrets used by this process.

Code that receives a secret registers it with `register_secret`. Foreign text (a vendor's error, a tool's result, a
traceback) may repeat it, so it passes through `redact` before it reaches a model, a log or a database. What is replaced
there is replaced in every text, so a word is no secret: local servers want keys such as `lm-studio`, and the default
password of a database is its name.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

NAMES = re.compile(
    r"(^|[_-])(api_?key|key|token|secret|password|passwd|authorization|credentials?|sig)$", re.IGNORECASE
)
PARAMETERS = re.compile(
    rf"{NAMES.pattern}|(^|[_.-])(tok|code|auth|pass|pwd|pat|jwt|sas|session|signature|access|login)$", re.IGNORECASE
)
"""Names of secrets in the query of an address, where more names are usual than elsewhere."""
_LEAST, _LONGEST_WORD = 8, 19  # characters
_WORDS = re.compile(r"([A-Z]?[a-z]+|[A-Z]+)([-_. :]([A-Z]?[a-z]+|[A-Z]+))*")
_forms: set[str] = set()
_any_form: list[re.Pattern[str]] = []
_also: list[Callable[[], Collection[str]]] = []


def register_secret(*secrets: str) -> None:
    """Register secrets: `redact` replaces them, encoded forms (base64, URLs, JSON) included. Words are left out."""
    for secret in secrets:
        if secret not in _forms and not _is_word(secret):
            _forms.update(encode_secret(secret))
            _any_form[:] = [re.compile("|".join(map(re.escape, sorted(_forms, key=len, reverse=True))))]


def encode_secret(secret: str) -> Iterator[str]:
    """Yield the forms in which texts may have a secret: as it is, in a URL, in JSON, and in base64, by itself or within
    something longer."""
    raw = secret.encode("utf-8", "replace")
    yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1])
    for coded in (b64encode, urlsafe_b64encode):
        yield coded(raw).decode().rstrip("=")
        for before, skipped in ((0, 0), (1, 2), (2, 3)):  # bytes before it, and characters that depend on them
            inner = coded(b"\0" * before + raw).decode()[skipped : (before + len(raw)) // 3 * 4]
            if len(inner) >= _LEAST:
                yield inner


def redact_also(known: Callable[[], Collection[str]]) -> None:
    """Have `redact` replace what `known` returns at that time, too: the secrets of those for whom something is done
    here, which are none in the texts of others."""
    _also.append(known)


def _is_word(secret: str) -> bool:
    """Whether a text is so short, or so plain, that ordinary texts have it."""
    return len(secret) < _LEAST or (len(secret) <= _LONGEST_WORD and _WORDS.fullmatch(secret) is not None)


def register_named_secrets(
    values: Mapping[str, str] | Iterable[tuple[str, str]], names: re.Pattern[str] = NAMES
) -> None:
    """Register the values whose names suggest secrets: variables, headers, query parameters."""
    for name, value in dict(values).items():
        if names.search(name) and "${" not in value:  # which stands for one
            register_secret(value, value.partition(" ")[2])  # `Bearer KEY`


def register_url_secrets(url: str) -> None:
    """Register the password and the keys in a URL; a user of HTTP without a password is a token. The name of a
    database's user is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password)
        register_secret(password, parts.password)
        if not _is_word(password):
            register_secret(f"{user}:{password}")  # sent in base64
    elif parts.username and parts.scheme in ("http", "https"):
        register_secret(unquote(parts.username), parts.username)
    register_named_secrets(parse_qsl(parts.query), PARAMETERS)


def strip_address_secrets(url: str) -> str:
    """Return a server's address for messages, logs and events: without a user, and without a query, any part of which
    may be a key."""
    return redact(re.sub("//[^/?#]*@", "//***@", re.split("[?#]", url, maxsplit=1)[0]))


def redact(text: str) -> str:
    """Replace secrets in `text` with `***`."""
    for form in sorted((form for known in _also for form in known()), key=len, reverse=True):
        text = text.replace(form, "***")
    return _any_form[0].sub("***", text) if _any_form else text


def find_registered(text: str) -> list[tuple[int, int]]:
    """Return where the secrets are that `redact` would replace in `text`."""
    return [one.span() for one in _any_form[0].finditer(text)] if _any_form else []


def redact_excerpt(text: str, most: int = 60) -> str:
    """Return the beginning of a text from a file, such as an address, without the secrets in it."""
    register_url_secrets(text)
    return redact(text)[:most]
