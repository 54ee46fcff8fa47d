"""Finds secrets in a text: keys in the formats that vendors publish, private keys, tokens, passwords in addresses, what
stands beside a word such as "secret" and looks random, and the exact secrets that this process uses."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from math import log2

from .._internal.redaction import find_registered
from ..core.schema.json_schema import compile_pattern
from .personal_data import Finding, make_readable

_VENDORS = files(__package__).joinpath("key_formats.txt").read_text(encoding="utf-8").splitlines()
"""The keys of vendors by their published formats: how they begin, and after a space what follows. W are letters and
digits, B those of base64 in addresses, H hexadecimal digits."""
_BEGINNINGS = "|".join(line.split()[0] for line in _VENDORS)
_CLASSES = {"W{": "[A-Za-z0-9]{", "B{": "[A-Za-z0-9_-]{", "H{": "[0-9a-f]{"}
_KEY = re.compile("|".join(re.sub("[WBH]{", lambda one: _CLASSES[one[0]], "".join(line.split())) for line in _VENDORS))
_NAMED = (
    r"(?i:[\w.-]*(?:key|token|secret|passw(?:or)?d|passphrase|pwd|credentials?|auth|signature|bearer))"
    r"(?:[\"'`]?\s{0,3}(?:[:=]|=>|:=|is|>)\s{0,3}|[\"'`]?\s+)(?:[\"'`]|(?i:bearer|basic)\s+)?"
    r"(?P<named>[A-Za-z0-9+/_~.!%$^&*#@-]{12,}=*)"
)
_OTHERS = (
    r"(?P<private_key>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----)?)"
    r"|\b(?P<jwt>ey[JI][A-Za-z0-9_-]{10,}\.ey[JI][A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)"
    r"|[a-z][a-z0-9+.-]*://[^\s:/?#@]*:(?P<password>[^\s/?#@]{3,})@",
    _NAMED,
)
_NO_SECRET_NAMES = re.compile(
    r"(cache|primary|foreign|partition|sort|idempotency|public|page|next|max|min|tokenizer|file|path|name|url|id|hash|"
    r"keyboard|author|monkey|turkey|hockey|storage|dict|row|group|object|map|lookup)[-_ ]?(key|token|secret|auth)s?\b"
    "|_path",
    re.I,
)
_CODE = re.compile(
    r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+|[a-z]+([_-][a-z]+)+|\$.*|[*x.]+|%.*|/.*|[a-z]+|[\d.,:-]+"
    r"|(?=.*(your|example|placeholder|change|replace))[\w-]+",
    re.I,
)
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)


def find_secrets(text: str) -> list[Finding]:
    """Return the secrets in `text`, in order and apart from each other. It takes time in proportion to the text."""
    readable = make_readable(text)
    found = [Finding("secret", *span) for span in find_registered(text)]
    done = 0
    for match in compile_pattern(_BEGINNINGS).finditer(readable):
        if match.start() >= done and (key := _KEY.match(readable, match.start())):
            done = key.end()
            found.append(Finding("key", *key.span()))
    for pattern in _OTHERS:
        for match in compile_pattern(pattern).finditer(readable):
            kind, (begin, end) = match.lastgroup, match.span(match.lastindex)
            said = text[begin:end]
            if kind == "named" and not _is_random(text[match.start() : begin], said):
                continue
            if kind != "password" or not said.startswith(("$", "<", "*", "{", "%")):
                found.append(Finding("password" if kind == "named" else kind, begin, end))
    found.sort(key=lambda one: (one.begin, -one.end))
    apart: list[Finding] = []
    for one in found:
        if not apart or one.begin >= apart[-1].end:
            apart.append(one)
    return apart


def _is_random(name: str, value: str) -> bool:
    """Whether what stands beside the name of a secret looks as if it was drawn, and is not a word or code."""
    value = value.rstrip("=.")
    if len(value) < 12 or _NO_SECRET_NAMES.search(name) or _CODE.fullmatch(value) or _UUID.fullmatch(value):
        return False
    entropy = -sum(n / len(value) * log2(n / len(value)) for n in Counter(value).values())
    mixed = any(one.isdigit() for one in value) and any(one.isalpha() for one in value)
    return mixed and entropy > (2.9 if len(value) < 20 else 3.2)
