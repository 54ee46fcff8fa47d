"""Amazon Bedrock: Claude in Anthropic's format, and models with open weights in OpenAI's.

Addresses: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html and
inference-chat-completions.html. Signatures: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from ...errors import ModelRefused, UsageError
from ...net.http_client import Sign, Unsigned, build_bearer_header
from ..settings import Settings
from ..vendor import Vendor
from ..wires import chat, messages
from .anthropic import VERSION, read_kinds

_HOST = re.compile(r"//bedrock-(runtime|mantle)\.([\w-]+)\.")
_UNRESERVED = "-_.~"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An AWS access key. `token`: of a session, if it is for one."""

    access_key: str
    secret_key: str
    token: str = ""


def sign_request(
    request: Unsigned, credentials: Credentials, region: str, service: str, at: datetime
) -> dict[str, str]:
    """Return the headers by which AWS knows who sends the request at this time (Signature Version 4)."""
    url, stamp = urlsplit(request.url), at.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": url.netloc.rpartition("@")[2], "x-amz-date": stamp}
    headers |= {"x-amz-security-token": credentials.token} if credentials.token else {}
    query = sorted((quote(name, _UNRESERVED), quote(value, _UNRESERVED)) for name, value in parse_qsl(url.query, True))
    names = ";".join(sorted(headers))
    path = quote(url.path or "/", f"/{_UNRESERVED}")
    canonical = [request.method, path, "&".join(f"{name}={value}" for name, value in query)]
    canonical += [f"{name}:{headers[name]}" for name in sorted(headers)]
    canonical += ["", names, hashlib.sha256(request.body).hexdigest()]
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = f"Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    del headers["host"]  # the client sends it
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {signed}"}


def _connect(settings: Settings) -> tuple[Settings, Vendor]:
    """Return the address in the region, the sign-in by an API key or AWS's credentials, and the model's vendor."""
    if not settings.model:
        raise UsageError("Amazon Bedrock has many models; name one: bedrock:MODEL")
    is_claude = "claude" in settings.model or settings.dialect == "anthropic"
    vendor = _CLAUDE if is_claude else VENDOR
    base_url = settings.base_url or os.environ.get("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "")
    host = _HOST.search(base_url)
    region = host[2] if host else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    if not region and (session := _open_session()):
        region = session.get_config_variable("region") or ""
    if not (region or base_url):
        raise UsageError("Amazon Bedrock needs a region: set AWS_REGION")
    base_url = base_url or f"https://bedrock-runtime.{region}.amazonaws.com"
    key = settings.api_key or os.environ.get("AWS_BEARER_TOKEN_BEDROCK")
    if key or settings.sign is not None:
        return replace(settings, base_url=base_url, api_key=key), vendor
    access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    token = os.environ.get("AWS_SESSION_TOKEN", "")
    given = Credentials(access, secret, token) if access and secret else None
    sign = _make_signer(given, region or "us-east-1", "bedrock-mantle" if host and host[1] == "mantle" else "bedrock")
    # It is named as the key so that what one account is refused is not taken as refused for another.
    named = given.access_key if given else None
    return replace(settings, base_url=base_url, api_key=named, sign=sign), replace(vendor, headers=lambda key: {})


def _open_session() -> Any:
    """Return botocore's session, which knows profiles, single sign-on and the roles of machines, if it is installed."""
    try:
        return import_module("botocore.session").get_session()
    except ImportError:
        return None


def _make_signer(given: Credentials | None, region: str, service: str) -> Sign:
    """Return what signs requests with the access key that is given, or else with what botocore finds."""
    session = None if given else _open_session()
    source: Any = session.get_credentials() if session else None
    if given is None and source is None:
        known = "" if session else "; profiles, single sign-on and roles are known to botocore: pip install botocore"
        keys = "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise UsageError(f"Amazon Bedrock needs a key: set {keys}{known}")

    async def sign(request: Unsigned) -> Mapping[str, str]:
        try:
            found: Any = given or await asyncio.to_thread(source.get_frozen_credentials)
        except Exception as error:
            raise ModelRefused(f"AWS's credentials cannot be refreshed: {error}") from None
        credentials = Credentials(found.access_key, found.secret_key, found.token or "")
        return {**VERSION, **sign_request(request, credentials, region, service, datetime.now(UTC))}

    return sign


VENDOR = Vendor(  # of models with open weights
    "Amazon Bedrock",
    "",
    chat.CHAT,
    root="/openai/v1",
    takes_files=True,
    hosts=r"bedrock-(runtime|mantle)\..*",
    priced_as="aws",
    listed_as="amazon-bedrock",
    connect=_connect,
)
_CLAUDE = replace(
    VENDOR,
    chat=messages.CloudMessages(),
    root="/anthropic/v1",
    dialect="anthropic",
    headers=lambda key: {**build_bearer_header(key), **VERSION},
    reads=read_kinds,
)
