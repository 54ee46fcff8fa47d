"""Azure OpenAI: its addresses, its ways to sign in, and its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fakes.asking import chunks, reply, retries
from fakes.responses_server import CHAT, SOON, Json, ModelServer, events, refused, response, said
from retinue import ModelRefused, PromptModel
from retinue.errors import ModelNotFound, UsageError
from retinue.models.vendors.azure import entra_id


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as at:
        yield at


V1, DATED = "/openai/v1/responses", "/openai/deployments/prod/chat/completions"
ADDRESSES: Mapping[str, tuple[str, Json, Json, str, Json, Json]] = {
    # the endpoint after the host, the environment, the settings; then the path, the query and a header
    "v1": ("", {}, {"api_key": "k"}, V1, {}, {"api-key": "k"}),
    "v1, as the portal shows it": ("/openai/v1/", {}, {"api_key": "k"}, V1, {}, {"api-key": "k"}),
    "v1, of a project": ("/api/projects/p/openai/v1", {}, {"api_key": "k"}, "/api/projects/p" + V1, {}, {}),
    "a preview of v1": ("/?api-version=preview", {}, {"api_key": "k"}, V1, {"api-version": "preview"}, {}),
    "chat": ("", {}, {"api_key": "k", "api": "chat"}, "/openai/v1/chat/completions", {}, {}),
    "a dated version": (
        "",
        {"OPENAI_API_VERSION": "2024-10-21"},
        {"api_key": "k"},
        DATED,
        {"api-version": "2024-10-21"},
        {"api-key": "k"},
    ),
    "a deployment's address": (
        f"{DATED}?api-version=2025-01-01-preview",
        {},
        {"api_key": "k"},
        DATED,
        {"api-version": "2025-01-01-preview"},
        {},
    ),
    "v1 in spite of a version": ("/openai/v1", {"OPENAI_API_VERSION": "2024-10-21"}, {"api_key": "k"}, V1, {}, {}),
    "a dated version with Responses": (
        "",
        {"OPENAI_API_VERSION": "2025-04-01-preview"},
        {"api_key": "k", "api": "responses"},
        "/openai/responses",
        {"api-version": "2025-04-01-preview"},
        {},
    ),
    "a key of the environment": ("", {"AZURE_OPENAI_API_KEY": "k2"}, {}, V1, {}, {"api-key": "k2"}),
    "a token": (
        "",
        {"AZURE_OPENAI_API_KEY": "k2", "AZURE_OPENAI_AD_TOKEN": "t"},
        {},
        V1,
        {},
        {"Authorization": "Bearer t"},
    ),
    "a given key and a token": ("", {"AZURE_OPENAI_AD_TOKEN": "t"}, {"api_key": "k"}, V1, {}, {"api-key": "k"}),
    "a provider of tokens": (
        "",
        {},
        {"sign": entra_id(lambda: "fresh")},
        V1,
        {},
        {"Authorization": "Bearer fresh"},
    ),
}


def test_azures_addresses_and_its_ways_to_sign_in(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.rule = lambda asked: (200, response(said("fine")) if "responses" in asked.path else CHAT, {})
    for name, (endpoint, env, settings, path, query, headers) in ADDRESSES.items():
        with monkeypatch.context() as patch:
            for variable in ("OPENAI_API_VERSION", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"):
                patch.delenv(variable, raising=False)
            for variable, value in {"AZURE_OPENAI_ENDPOINT": server.url + endpoint, **env}.items():
                patch.setenv(variable, value)
            assert reply(PromptModel("azure:prod", **settings)).text == "fine", name
        asked = server.asked[-1]
        assert (name, asked.path, asked.params) == (name, path, query)
        assert headers.items() <= asked.headers.items(), name
        assert not {"api-key", "Authorization"} <= asked.headers.keys()
    for missing in (
        {"base_url": ""},
        {"base_url": "https://x.openai.azure.com"},
        {"base_url": server.url, "api_key": "k", "model": ""},
    ):
        with pytest.raises(UsageError):
            PromptModel(missing.pop("model", "prod"), engine="azure", **missing)


def azure_model(server: ModelServer, **settings: Any) -> PromptModel:
    return PromptModel("azure:prod", base_url=server.url, api_key=f"k{len(server.asked)}", retries=SOON, **settings)


def test_a_token_that_cannot_be_had_is_an_error_of_the_model(server: ModelServer) -> None:
    def token() -> str:
        raise RuntimeError("you are not signed in")

    with pytest.raises(ModelRefused, match="you are not signed in"):
        reply(PromptModel("azure:prod", base_url=server.url, sign=entra_id(token)))


def test_azures_words(server: ModelServer) -> None:
    found = {"violence": {"filtered": True, "severity": "medium"}, "hate": {"filtered": False, "severity": "safe"}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": found}
    server.rule = lambda asked: refused(
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "prompt",
        "content_filter",
        innererror=inner,
    )
    with pytest.raises(ModelRefused, match=r"content management policy.*filtered: violence"):
        reply(azure_model(server))
    server.rule = lambda asked: None
    server.instead += [
        (
            429,
            {"error": {"code": "429", "message": "Requests have exceeded the call rate limit."}},
            {"Retry-After": "0"},
        )
    ]
    assert len(retries(chunks(azure_model(server)))) == 1
    server.rule = lambda asked: refused(
        "The API deployment for this resource does not exist.", None, "DeploymentNotFound", 404
    )
    with pytest.raises(ModelNotFound):
        reply(azure_model(server))
    head = {
        "choices": [],
        "created": 0,
        "id": "",
        "model": "",
        "object": "",
        "prompt_filter_results": [{"prompt_index": 0}],
    }
    said_so = {
        "choices": [{"index": 0, "delta": {"content": "Hi."}, "content_filter_results": found, "finish_reason": None}]
    }
    after = {
        "choices": [{"index": 0, "content_filter_results": found, "content_filter_offsets": {}, "finish_reason": None}]
    }
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}
    server.rule = lambda asked: events(head, said_so, after, end)
    got = reply(azure_model(server, api="chat"))
    assert (got.text, got.finish) == ("Hi.", "content_filter")
