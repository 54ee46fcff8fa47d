"""Finds secrets in a text: keys in the formats that vendors publish, private keys, tokens, passwords in addresses, what
stands beside a word such as "secret" and looks random, and the exact secrets that this process uses."""

from __future__ import annotations

import re
from collections import Counter
from math import log2

from .._internal.redaction import find_registered
from ..core.schema.json_schema import compile_pattern
from .personal_data import Finding, make_readable

_VENDORS = r"""
    (?:AKIA|ASIA|ABIA|ACCA) [A-Z2-7]{16}
    gh[pousr]_ W{36,}
    github_pat_ W{22}_W{59}
    gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)- B{20,}
    sk-(?:proj|svcacct|admin|ant|or|lf)- B{24,}
    sk- W{32,}
    AIza B{35}
    GOCSPX- B{28}
    ya29\. B{30,}
    xox[abeoprs]- [A-Za-z0-9-]{20,}
    xapp-[0-9]- [A-Za-z0-9-]{30,}
    https://hooks\.slack\.com/(?:services|workflows)/ [A-Za-z0-9/]{20,}
    (?:sk|rk)_(?:live|test)_ W{16,}
    whsec_ [A-Za-z0-9+/=]{24,}
    \bSK H{32}\b
    \bAC H{32}:H{32}
    SG\. B{22}\.B{43}
    \bkey- H{32}\b
    npm_ W{36}
    pypi-AgE B{50,}
    hf_ W{30,}
    do[opr]_v1_ H{64}
    shp(?:at|ss|ca|pa)_ [0-9a-fA-F]{32}
    \b[0-9]{8,10}:AA B{32,33}
    https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/ [0-9]+/B{40,}
    (?:AccountKey|SharedAccessKey)= [A-Za-z0-9+/]{40,}={0,2}
    \bdapi H{32}
    hv[sb]\. B{24,}
    \b[A-Za-z0-9]{14}\.atlasv1\. B{60,}
    glsa_ W{32}_H{8}
    glc_ [A-Za-z0-9+/=]{32,}
    lin_api_ W{40}
    ntn_ [0-9]{11}W{35}
    \bsecret_ W{43}\b
    PMAK- H{24}-H{34}
    dp\.(?:pt|st|ct|sa)\. W{40,}
    NRAK- [A-Z0-9]{27}
    gsk_ W{40,}
    \br8_ W{37}
    xai- W{70,}
    pplx- W{40,}
    AGE-SECRET-KEY-1 [0-9A-Z]{58}
    sq0(?:atp|csp)- B{22,}
    \bEAAA B{60}
    \bpat W{14}\.H{64}
    sntry[su]_ [A-Za-z0-9=_+/-]{60,}
    pul- H{40}
    dckr_[op]at_ B{27}
    fig[dou]_ B{40}
    ATATT3 [A-Za-z0-9_=-]{100,}
    CFPAT- B{43}
    rubygems_ H{48}
    sbp_ H{40}
    tskey-[a-z]+- B{20,}
""".split("\n")[1:-1]
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
    r"(?P<private_key>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----)?)"
    r"|\b(?P<jwt>ey[JI][A-Za-z0-9_-]{10,}\.ey[JI][A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)"
    r"|[a-z][a-z0-9+.-]*://[^\s:/?#@]*:(?P<password>[^\s/?#@]{3,})@",
    _NAMED,
)
_NO_SECRET_NAMES = re.compile(
    r"(cache|primary|foreign|partition|sort|idempotency|public|page|next|max|min|tokenizer|file|path|name|url|id|hash|"
    r"keyboard|author|monkey|turkey|hockey|storage|dict|row|group|object|map|lookup)[-_ ]?(key|token|secret|auth)s?\b|_path", re.I
)  # fmt: skip
_CODE = re.compile(r"[A-Za-z_][\w]*(\.[A-Za-z_]\w*)+|[a-z]+([_-][a-z]+)+|\$.*|[*xX.]+|%.*|(?=.*(your|example|placeholder|change|replace))"
                   r"[\w-]+|/.*|[A-Za-z]+|[\d.,:-]+", re.I)  # fmt: skip
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
