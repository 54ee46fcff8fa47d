"""Vertex AI: Gemini, and Claude in Anthropic's format, by Google's sign-in or a key of express mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from threading import Lock
from typing import Any

from ..._internal.concurrency import run_in_thread
from ..._internal.redaction import register_secret
from ...errors import ModelRefused, ModelUnavailable, UsageError
from ...net.http_client import Unsigned, build_bearer_header
from ..settings import Settings
from ..vendor import Vendor
from ..wire_format import Terms
from ..wires import generate_content, messages
from . import anthropic, gemini

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_HOSTS = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}
_HINT = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"


class GoogleSignIn:
    """Signs requests with a token of Google's application default credentials: a service account, the metadata server
    of Google's machines, a user's own, or another cloud's identity.

    The token is renewed before it ends, in a thread, and once for all requests that wait for it.
    """

    def __init__(self) -> None:
        self._credentials: Any = None
        self._renewing = Lock()

    async def __call__(self, request: Unsigned) -> Mapping[str, str]:
        """Return the headers with the token. Raises `ModelError`."""
        if not self._is_fresh():
            await run_in_thread(self._renew, self._token)
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers

    @property
    def _token(self) -> str | None:
        return None if self._credentials is None else self._credentials.token

    def _is_fresh(self) -> bool:
        if self._credentials is None:
            return False
        from google.auth.credentials import TokenState

        return bool(self._credentials.token_state is TokenState.FRESH)

    def _renew(self, token: str | None) -> None:
        """Renew the token unless it is no longer `token`, as another request has renewed it meanwhile."""
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
        from google.auth.transport.requests import Request

        with self._renewing:
            try:
                if self._credentials is None:
                    self._credentials, _ = google.auth.default(scopes=[_SCOPE])
                if self._token == token:
                    self._credentials.refresh(Request())
                    register_secret(self._credentials.token)
            except DefaultCredentialsError:
                raise ModelRefused(f"Vertex AI: there are no credentials of Google's; {_HINT}") from None
            except GoogleAuthError as error:
                if self._credentials is not None and self._credentials.valid:
                    return  # the old token has some minutes left
                failed = ModelUnavailable if error.retryable or isinstance(error, TransportError) else ModelRefused
                raise failed(f"Vertex AI: the sign-in failed: {error.args[0] if error.args else error}") from None


def _connect(settings: Settings) -> tuple[Settings, Vendor]:
    """Return the settings with address and sign-in, and the vendor. Raises `UsageError` if something is missing."""
    if not settings.model:
        raise UsageError("Vertex AI has many models; name one: vertex:MODEL")
    project = os.environ.get("GOOGLE_CLOUD_PROJECT")
    key = settings.api_key or (None if project or settings.base_url else os.environ.get("GOOGLE_API_KEY"))
    is_claude = settings.model.rpartition("/")[2].startswith("claude")
    if not (key or settings.base_url or project):
        raise UsageError(
            "Vertex AI needs a project: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION (or GOOGLE_API_KEY, for"
            " express mode)"
        )
    if not key and (find_spec("google") is None or find_spec("google.auth") is None):
        raise UsageError("Vertex AI needs the extra 'vertex': pip install 'retinue[vertex]'")
    version, location = "v1" if is_claude else "v1beta1", os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    host = _HOSTS.get(location, f"{location}-aiplatform.googleapis.com")
    address = f"https://{host}/{version}/projects/{project}/locations/{location}"
    if key:
        address = f"https://aiplatform.googleapis.com/{version}"
    sign = settings.sign or (None if key else GoogleSignIn())
    vendor = _CLAUDE if is_claude else VENDOR
    return replace(settings, base_url=settings.base_url or address, api_key=key, sign=sign), vendor


class _Gemini(generate_content.GenerateContent):
    """Gemini's format, at the address of a publisher."""

    def find_path(self, model: str, stream: bool) -> str:
        """Return the path of a model: Google's own, a tuned one (`endpoints/…`), or one of other `publishers/…`."""
        published = model.startswith(("publishers/", "endpoints/"))
        path = super().find_path(model, stream)
        return path if published else f"/publishers/google{path}"


class _Claude(messages.Messages):
    """Anthropic's format without the model, which the path names:
    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude"""

    def find_path(self, model: str, stream: bool) -> str:
        method = "streamRawPredict" if stream else "rawPredict"
        return f"/publishers/anthropic/models/{model.rpartition('/')[2]}:{method}"

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters = super().build_parameters(terms)
        del parameters["model"]
        return {"anthropic_version": "vertex-2023-10-16", **parameters}


VENDOR = replace(
    gemini.VENDOR,
    title="Vertex AI",
    url="",
    chat=_Gemini(),
    keys=(),
    environment="",
    root="",
    hosts=r"([a-z0-9-]+-)?aiplatform\.([a-z]+\.rep\.)?googleapis\.com",
    listed_as="google-vertex",
    connect=_connect,
)
_CLAUDE = replace(VENDOR, chat=_Claude(), dialect="anthropic", headers=build_bearer_header, reads=anthropic.read_kinds)
