"""`/v1/models` through the SDK: every agent and pipeline of the file is a model."""

from __future__ import annotations

import time
from typing import Any

import openai

from fakes.sdk import MARKS, each, of, refused
from fakes.served import Served
from retinue.server.models.embeddings import MODEL, is_here

pytestmark = MARKS
NAMES = {"plain", "tool_calling", "react", "react_json", "planexec", "waiter", "echo"}


async def test_the_models_are_the_agents_and_pipelines_of_the_file(client: Any) -> None:
    models = [model async for model in each(client.models.list())]
    assert {model.id for model in models} == NAMES | ({MODEL} if is_here() else set())
    assert {model.object for model in models} == {"model"}
    assert all(0 < model.created <= time.time() and model.owned_by for model in models)
    assert await of(client.models.retrieve("react")) == next(model for model in models if model.id == "react")


async def test_there_is_no_other_model(client: Any) -> None:
    with refused(openai.NotFoundError, code="model_not_found", param="model"):
        await of(client.models.retrieve("gpt-4"))


async def test_a_wrong_key_is_refused_and_not_repeated(deployed: Served) -> None:
    with deployed.client(api_key="sk-wrong-0123456789-abcd") as client:
        for call in (client.models.list, client.beta.threads.create, client.beta.assistants.list):
            with refused(openai.AuthenticationError, code="invalid_api_key") as error:
                call()
            assert error.value.body["message"].startswith("Incorrect API key provided: ")
            assert "0123456789" not in str(error.value)
