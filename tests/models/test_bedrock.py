"""Amazon Bedrock: its addresses, its sign-in, its signature, and its words for errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from fakes.asking import chunks, reply, retries
from fakes.engines import ENGINES, SOON, model
from fakes.loopback import Loopback
from fakes.scripted_server import Answer, failure
from fakes.vendors import VendorServer
from retinue import Agent, PromptModel, tool
from retinue.errors import ModelRefused, UsageError, WindowExceeded
from retinue.models.vendors.bedrock import Credentials, sign_request
from retinue.net.http_client import Unsigned
from retinue.testing import SCRIPT

QUESTION = "What is 12 + 30, and what about Åbo?"


@tool(effects="read")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects="read")
def look(what: str) -> str:
    """Look something up."""
    return f"nothing about {what}"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[VendorServer]:
    with VendorServer("bedrock") as server:
        yield server


def test_claude_thinks_on_bedrock(server: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.address)  # to which the path is added
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", server.key)
    for name in server.vendor.models:
        for stream in (True, False):
            there = PromptModel(f"bedrock:{name}", effort="low", stream=stream)
            assert Agent(there, [add, look]).run(QUESTION).answer == SCRIPT[-1].text
    assert server.refusals == []
    assert server.asked[-1].headers["authorization"] == f"Bearer {server.key}"
    blocks = server.asked[-1].body["messages"][-1]["content"]
    assert [block.get("cache_control") for block in blocks] == [None, {"type": "ephemeral"}]


def test_requests_are_signed_with_the_access_key(server: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in {**given, "AWS_SESSION_TOKEN": "of/a+session="}.items():
        monkeypatch.setenv(name, value)
    there = PromptModel("claude-opus-4-7", engine="bedrock", base_url=server.address)
    assert Agent(there, [add, look]).run(QUESTION).answer == SCRIPT[-1].text
    headers = server.asked[-1].headers
    at = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert headers["x-amz-security-token"] == "of/a+session="
    assert f"Credential={server.key}/{at:%Y%m%d}/eu-west-1/bedrock/aws4_request" in headers["authorization"]
    assert headers["anthropic-version"] == "2023-06-01"
    server.fail = ["wrong_key"]
    with pytest.raises(ModelRefused, match="is the API key right"):
        reply(there)


def test_what_signs_is_told_of_each_request() -> None:
    seen: list[tuple[str, str, bool]] = []

    async def sign(request: Unsigned) -> dict[str, str]:
        seen.append((request.method, request.url, b"Hello?" in request.body))
        return {"X-Signature": f"{len(seen)}"}

    with ENGINES["vllm"]() as server:
        server.replies += [failure(429, retry_after="0"), "ok"]
        assert reply(PromptModel(base_url=server.url, api_key="k", sign=sign, retries=SOON)).text == "ok"
        assert [one.headers["X-Signature"] for one in server.requests] == [f"{at + 1}" for at in range(len(seen))]
    chat = f"{server.url}/v1/chat/completions"
    assert seen == [("GET", f"{server.url}/v1/models", False), ("POST", chat, True), ("POST", chat, True)]


# AWS's published test suite, and what botocore 1.44.8 makes of a path that is encoded twice, and a body:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
_AT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
_KEY = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
_ROOT = "https://example.amazonaws.com/"
VECTORS = {
    ("GET", _ROOT, ""): "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ("POST", _ROOT, ""): "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ("GET", f"{_ROOT}?Param2=value2&Param1=value1", ""): (
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
    ),
    ("POST", f"{_ROOT}model/a%3Ab%2Fc/invoke", '{"a": 1}'): (
        "15cb37c7f704efd7a49adb747df81abb84ab01d6ff333f2de90e71f18c3a6233"
    ),
}


def test_the_signature_is_that_of_the_published_vectors() -> None:
    for (method, url, body), signature in VECTORS.items():
        signed = sign_request(Unsigned(method, url, body.encode()), _KEY, "us-east-1", "service", _AT)
        assert signed == {
            "x-amz-date": "20150830T123600Z",
            "Authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            f"SignedHeaders=host;x-amz-date, Signature={signature}",
        }


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="name one: bedrock:MODEL"):
        PromptModel("bedrock")
    with pytest.raises(UsageError, match="AWS_REGION"):
        PromptModel("bedrock:openai.gpt-oss-120b", api_key="k")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    with pytest.raises(UsageError, match="AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID"):
        PromptModel("bedrock:openai.gpt-oss-120b")
    with pytest.raises(UsageError, match="no completions"):
        PromptModel("bedrock:us.anthropic.claude-opus-5", api_key="k", api="completions")


def test_open_weights_speak_openais_format() -> None:
    seen: list[Any] = []

    async def answer(http: web.Request) -> web.Response:
        seen.append((http.path, http.headers["Authorization"], await http.json()))
        message = {"role": "assistant", "content": "<reasoning>Six by seven.</reasoning>42"}
        return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    served = Loopback(app)
    served.start()
    try:
        there = PromptModel("bedrock:openai.gpt-oss-120b-1:0", base_url=served.url, api_key="k", stream=False)
        assert reply(there).text == "42"
    finally:
        served.stop()
    path, key, body = seen[0]
    assert (path, key, body["model"]) == ("/openai/v1/chat/completions", "Bearer k", "openai.gpt-oss-120b-1:0")


def refused(status: int, kind: str, message: str, key: str = "message") -> Answer:
    return Answer(status=status, body=json.dumps({key: message}), headers={"x-amzn-errortype": f"{kind}:http://aws/"})


PASSING = (
    refused(429, "ThrottlingException", "Too many tokens, please wait before trying again."),
    refused(429, "ThrottlingException", "Too many tokens per day, please wait before trying again."),
    refused(400, "ThrottlingException", "Too many requests"),
    refused(429, "ModelNotReadyException", "Model is not ready for inference. Retry your request."),
    refused(424, "ModelErrorException", "The request failed due to an error while processing the model."),
    refused(408, "ModelTimeoutException", "The request took too long to process."),
    refused(503, "ServiceUnavailableException", "Bedrock is unable to process your request."),
)
FINAL = (
    (refused(400, "ValidationException", "Input is too long for requested model."), WindowExceeded),
    (refused(400, "ValidationException", "The provided model identifier is invalid."), ModelRefused),
    (refused(403, "AccessDeniedException", "User: arn:aws:… is not authorized", "Message"), ModelRefused),
    (refused(403, "ExpiredTokenException", "The security token included in the request is expired"), ModelRefused),
)


def test_awss_words_for_errors() -> None:
    """https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html"""
    with ENGINES["anthropic"]() as server:
        for answer in PASSING:
            server.replies += [answer, "ok"]
            assert len(retries(chunks(model(server)))) == 1, answer.body
        for answer, kind in FINAL:
            server.replies += [answer]
            with pytest.raises(ModelRefused) as error:
                chunks(model(server))
            assert type(error.value) is kind, answer.body
            assert json.loads(str(answer.body)).popitem()[1][:20] in str(error.value)
