"""Azure OpenAI: deployments, which have names of their own, at an endpoint of one's own.

The address is the v1 API's (`/openai/v1`), or with a dated `api-version` the one before it, in which a deployment has
an address: https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle. The variables are those of OpenAI's
SDK. Of both a key and a token of Entra ID, the token is used, as the SDK does.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import parse_qs, quote, urlsplit

from ..._internal.redaction import register_secret
from ...errors import ModelRefused, UsageError
from ...net.http_client import Sign, Unsigned, build_bearer_header
from ..settings import Settings
from ..vendor import Vendor
from ..wires import chat, responses
from .openai import is_reasoning_model, read_kinds

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)")
_DATED = re.compile(r"\d{4}-\d\d-\d\d")


class _DeploymentChat(chat.Chat):
    """A chat at the address of a deployment."""

    def find_path(self, model: str, stream: bool) -> str:
        return f"/deployments/{quote(model)}/chat/completions"


def entra_id(token: Callable[[], str]) -> Sign:
    """Return the setting `sign` for a token that is asked for before each request.

    `token` is what `azure.identity.get_bearer_token_provider` returns, for example; it is called in a thread.
    """

    async def sign(request: Unsigned) -> Mapping[str, str]:
        try:
            given = await asyncio.to_thread(token)
        except Exception as error:
            raise ModelRefused(f"no token for Azure: {type(error).__name__}: {error}") from error
        register_secret(given)
        return {"Authorization": f"Bearer {given}"}

    return sign


def _connect(settings: Settings) -> tuple[Settings, Vendor]:
    """Complete the settings with the endpoint and the sign-in. Raises `UsageError` if one of them is missing.

    The endpoint may be the address of a deployment, as the portal shows it.
    """
    given = settings.base_url or os.environ.get("AZURE_OPENAI_ENDPOINT", "")
    if not given:
        raise UsageError(
            "Azure needs an endpoint: set AZURE_OPENAI_ENDPOINT (https://NAME.openai.azure.com), or base_url"
        )
    parts = urlsplit(given if "://" in given else f"https://{given}")
    model = settings.model or next(iter(_DEPLOYMENT.findall(parts.path)), "")
    if not model:
        raise UsageError("Azure has many deployments; name one: azure:DEPLOYMENT")
    key, token = settings.api_key, None
    if not key and settings.sign is None:
        token = os.environ.get("AZURE_OPENAI_AD_TOKEN")
        key = token or os.environ.get("AZURE_OPENAI_API_KEY")
        if not key:
            raise UsageError(
                "Azure needs a key or a token: set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN, or pass sign"
            )
    version = parse_qs(parts.query).get("api-version", [os.environ.get("OPENAI_API_VERSION", "")])[0]
    is_dated = _DATED.match(version) and "/openai/v1" not in parts.path
    root, query = ("/openai", f"api-version={version}") if is_dated else ("/openai/v1", parts.query)
    address = parts._replace(path=parts.path.partition("/openai")[0].rstrip("/") + root, query=query).geturl()
    vendor = replace(VENDOR, chat=_DeploymentChat(), suits=is_reasoning_model) if is_dated else VENDOR
    vendor = replace(vendor, headers=build_bearer_header) if token else vendor
    return replace(settings, model=model, base_url=address, api_key=key), vendor


VENDOR = Vendor(
    "Azure",
    "",
    chat.CHAT,
    responses=responses.RESPONSES,
    root="",
    headers=lambda key: {"api-key": key},
    # The name of a deployment does not tell its model. Responses suits every model of OpenAI's that Azure has; others,
    # and regions without it, refuse it, which is learned.
    suits=lambda model: True,
    reads=read_kinds,
    takes_files=True,
    hosts=r".*\.(openai\.azure|services\.ai\.azure|cognitiveservices\.azure)\.com",
    priced_as="azure",
    connect=_connect,
)
