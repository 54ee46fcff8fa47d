"""Vertex AI: where its models are, and Google's sign-in, with its own library against servers on loopback."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fakes.asking import chunks_async, reply, request
from fakes.loopback import Loopback
from fakes.vendors import VendorServer
from retinue import Agent, ModelRefused, PromptModel, UsageError, tool
from retinue.core.values import Reply
from retinue.models.settings import Settings
from retinue.models.vendors import find_vendor
from retinue.net.retry import Retries
from retinue.testing import SCRIPT

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
)
ENVIRONMENT = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS")
ONCE = Retries(tries=1)


class TokenServer:
    """Google's two givers of tokens: the OAuth server, and the metadata server of its machines.

    `tokens` are given one after the other, the last one again and again; each is good for `seconds`.
    """

    def __init__(self) -> None:
        self.tokens = ["key-of-the-test"]
        self.seconds = 3599
        self.given = 0
        self.refuses = False
        app = web.Application()
        app.router.add_post("/token", self._give)
        app.router.add_get("/computeMetadata/{path:.*}", self._metadata)
        app.router.add_get("/", self._metadata)
        self.loopback = Loopback(app)

    async def _give(self, asked: web.Request) -> web.Response:
        if self.refuses:
            said = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
            return web.json_response(said, status=400)
        await asyncio.sleep(0.05)  # so that others come meanwhile
        self.given += 1
        token = self.tokens[min(self.given, len(self.tokens)) - 1]
        return web.json_response({"access_token": token, "expires_in": self.seconds, "token_type": "Bearer"})

    async def _metadata(self, asked: web.Request) -> web.Response:
        path = asked.match_info.get("path", "")
        if path.endswith("/token"):
            return await self._give(asked)
        account = {"aliases": ["default"], "email": "a@b.example", "scopes": ["x"]}
        said = "a-project" if path.endswith("project-id") else json.dumps(account)
        kind = "text/plain" if path.endswith("project-id") else "application/json"
        return web.Response(text=said, content_type=kind, headers={"Metadata-Flavor": "Google"})


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TokenServer]:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    server = TokenServer()
    server.loopback.start()
    yield server
    server.loopback.stop()


@pytest.fixture
def account(tokens: TokenServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TokenServer:
    """A service account, whose key is in a file."""
    path = tmp_path / "account.json"
    said = {"type": "service_account", "project_id": "a-project", "client_email": "a@b.example", "private_key_id": "1"}
    path.write_text(json.dumps(said | {"private_key": KEY.decode(), "token_uri": f"{tokens.loopback.url}/token"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    return tokens


@tool(effects="read")
def add(a: int, b: int) -> str:
    """Add two integers."""
    return f"{a + b}"


@tool(effects="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is a town."


def model(server: VendorServer, **settings: Any) -> PromptModel:
    return PromptModel(server.model, engine="vertex", base_url=server.url, retries=ONCE, **settings)


def test_gemini_and_claude_by_a_service_account(account: TokenServer) -> None:
    for vendor in ("vertex", "anthropic-vertex"):
        for stream in (True, False):
            with VendorServer(vendor) as server:
                result = Agent(model(server, stream=stream), [add, look]).run("What is 12 + 30, and what about Åbo?")
                assert (result.answer, server.refusals) == (SCRIPT[-1].text, [])
                assert {one.headers["authorization"] for one in server.asked} == {"Bearer key-of-the-test"}
                path, body = server.asked[-1].path, server.asked[-1].body
                claude = f"/publishers/anthropic/models/{server.model}:{'streamRawPredict' if stream else 'rawPredict'}"
                assert (claude in path, "anthropic_version" in body) == (vendor == "anthropic-vertex",) * 2
                assert "model" not in body
    assert account.given == 4  # one for each engine


def test_a_token_is_fetched_once_for_many_requests_and_again_before_it_ends(account: TokenServer) -> None:
    account.tokens, account.seconds = ["first-key-of-the-test", "second-key-of-the-test"], 200
    with VendorServer("vertex") as server:
        one = model(server)

        async def many() -> list[Any]:
            return await asyncio.gather(*(chunks_async(one, request()) for _ in range(5)))

        assert all(isinstance(seen[-1], Reply) for seen in asyncio.run(many()))
        assert account.given == 1
        account.seconds = 3599
        asyncio.run(many())  # the token would end during these
        assert account.given == 2
        used = [one.headers["authorization"] for one in server.asked]
        assert used[-5:] == ["Bearer second-key-of-the-test"] * 5


def test_gemini_by_the_metadata_server(tokens: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from google.auth.compute_engine import _metadata  # which reads the environment when it is imported

    host = tokens.loopback.url.removeprefix("http://")
    monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", False)
    monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)
    monkeypatch.delenv("NO_GCE_CHECK")
    monkeypatch.setenv("GCE_METADATA_IP", host)
    with VendorServer("vertex") as server:
        assert reply(model(server)).text == SCRIPT[-1].text
    assert tokens.given == 1


def test_gemini_by_a_key_of_express_mode(tokens: TokenServer) -> None:
    with VendorServer("vertex") as server:
        assert reply(model(server, api_key=server.key)).text == SCRIPT[-1].text
        assert server.asked[0].headers["x-goog-api-key"] == server.key
        assert "authorization" not in server.asked[0].headers


def test_a_sign_in_that_fails_says_why(account: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    account.refuses = True
    with VendorServer("vertex") as server:
        with pytest.raises(ModelRefused, match=r"the sign-in failed: .*invalid_grant"):
            reply(model(server))
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
        with pytest.raises(ModelRefused, match="there are no credentials of Google's; run `gcloud auth"):
            reply(model(server))
        assert not server.asked


GOOGLES, REGION = "https://aiplatform.googleapis.com", "https://europe-west4-aiplatform.googleapis.com"
ADDRESSES: list[tuple[str, dict[str, str], str]] = [
    ("gemini-3.8-flash", {"PROJECT": "p"}, f"{GOOGLES}/v1beta1/projects/p/locations/global"),
    ("gemini-3.8-flash", {"PROJECT": "p", "LOCATION": "europe-west4"},
     f"{REGION}/v1beta1/projects/p/locations/europe-west4"),
    ("gemini-3.8-flash", {"PROJECT": "p", "LOCATION": "eu"},
     "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu"),
    ("claude-sonnet-4-6@20260101", {"PROJECT": "p"}, f"{GOOGLES}/v1/projects/p/locations/global"),
    ("publishers/anthropic/models/claude-opus-4-8", {"PROJECT": "p"}, f"{GOOGLES}/v1/projects/p/locations/global"),
    ("gemini-3.8-flash", {"KEY": "k"}, f"{GOOGLES}/v1beta1"),
]  # fmt: skip
PATHS = {
    ("gemini-3.8-flash", True): "/publishers/google/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
    ("gemini-3.8-flash", False): "/publishers/google/models/gemini-3.8-flash:generateContent",
    ("publishers/google/models/gemini-3.8-flash", False): "/publishers/google/models/gemini-3.8-flash:generateContent",
    ("endpoints/123", False): "/endpoints/123:generateContent",
    ("claude-opus-4-8", True): "/publishers/anthropic/models/claude-opus-4-8:streamRawPredict",
    ("publishers/anthropic/models/claude-opus-4-8", False): "/publishers/anthropic/models/claude-opus-4-8:rawPredict",
}


def test_where_which_model_is(tokens: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = find_vendor("vertex").connect
    assert connect is not None
    for name, given, address in ADDRESSES:
        with monkeypatch.context() as patch:
            for key, value in given.items():
                patch.setenv("GOOGLE_API_KEY" if key == "KEY" else f"GOOGLE_CLOUD_{key}", value)
            settings, _ = connect(Settings(model=name))
        assert settings.base_url == address, name
        assert (settings.sign is None, settings.api_key) == ("KEY" in given, given.get("KEY")), name
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    for (name, stream), path in PATHS.items():
        wire = connect(Settings(model=name))[1].chat
        assert wire.find_path is not None
        assert wire.find_path(name, stream) == path


def test_what_is_not_given_is_named(tokens: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="needs a project: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"):
        PromptModel("vertex:gemini-3.8-flash")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    with pytest.raises(UsageError, match="name one: vertex:MODEL"):
        PromptModel("vertex")
    monkeypatch.setitem(sys.modules, "google", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'retinue[vertex]'")):
        PromptModel("vertex:gemini-3.8-flash")
