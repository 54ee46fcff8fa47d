"""What is replaced by `***` in every text, and what is not: a word is no secret, wherever it is given as one."""

from __future__ import annotations

import base64

import pytest

from retinue import Agent, PromptModel, tool
from retinue._internal import redaction
from retinue._internal.redaction import (
    redact,
    register_named_secrets,
    register_secret,
    register_url_secrets,
    strip_address_secrets,
)
from retinue.config.environment import mask_secrets
from retinue.store.engines import engine_of

WORDS = [
    "k",
    "key",
    "lm-studio",
    "ollama",
    "postgres",
    "Password",
    "not-needed",
    "sk-no-key-required",
    "EMPTY",
    "no key",
]
SECRETS = ["sk-3f9a7c", "hunter22", "a1b2c3d4", "correct-horse-battery-staple", "kXqPzRvTnWbLmDsC9"]


@pytest.fixture(autouse=True)
def unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_forms", set())
    monkeypatch.setattr(redaction, "_any_form", [])


def test_words_stay_and_secrets_go_wherever_they_are_given() -> None:
    for word in WORDS:
        register_secret(word)
        register_named_secrets({"API_KEY": word, "Authorization": f"Bearer {word}"})
        register_url_secrets(f"https://{word}:{word}@host/?key={word}".replace(" ", ""))
        engine_of(f"postgresql://{word}:{word}@127.0.0.1/{word}".replace(" ", "")).dispose()
        PromptModel("m", engine="openai", base_url="http://127.0.0.1:9/v1", api_key=word)
        text = f"in postgresql, {word} is a word; {base64.b64encode(word.encode()).decode()}"
        assert redact(text) == text
    for secret in SECRETS:
        register_secret(secret)
        for form in (secret, base64.b64encode(secret.encode()).decode().rstrip("=")):
            assert redact(f"it is {form}.") == "it is ***."


def test_of_a_databases_address_the_password_is_a_secret_and_the_user_is_none() -> None:
    for url in ("postgresql://app_user_1@host/x", "postgresql://app_user_1:s3cret-pass@host/x"):
        register_url_secrets(url)
    assert redact("app_user_1 and s3cret-pass") == "app_user_1 and ***"
    register_url_secrets("https://t0ken-of-a-user@host/x")
    assert redact("t0ken-of-a-user") == "***"


def test_an_address_is_shown_and_exported_without_what_its_parameters_hold() -> None:
    for name in ("key", "tok", "code", "auth", "sig", "api-key", "x_token", "pwd", "access"):
        url = f"http://u:p@host:8000/v1?{name}=s3cret-of-{name}&version=2024-06-01#s3cret"
        assert strip_address_secrets(url) == "http://***@host:8000/v1"
        exported = mask_secrets({"base_url": url}, "M")["base_url"]
        assert f"{name}=${{M_BASE_URL_KEY}}&version=2024-06-01" in exported
        model = PromptModel(engine="vllm", base_url=url.replace("u:p@", ""))
        assert "s3cret" not in f"{model!r} {model.name}"


def test_what_a_tool_says_of_a_secret_is_in_no_log_and_before_no_model() -> None:
    secret = "sk-of-a-tool-7d81f2"
    register_secret(secret)

    @tool(effects="read")
    def tell(query: str) -> str:
        """Tell."""
        if query == "fail":
            raise RuntimeError(f"refused: {secret}")
        return f"it is {secret}, or {base64.b64encode(secret.encode()).decode()}"

    script = [
        {"when": "refused", "finish": "done"},
        {"when": "it is", "call": {"tool": "tell", "input": {"query": "fail"}}},
        {"call": {"tool": "tell", "input": {"query": "tell"}}},
    ]
    agent = Agent(PromptModel(engine="scripted", script=script), tools=[tell], strategy="tool_calling")
    events = repr(agent.run("Which?").events)
    assert "it is ***, or ***" in events
    assert "refused: ***" in events
    assert secret not in events
