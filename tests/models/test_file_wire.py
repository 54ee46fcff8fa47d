"""Images in the wire format of each vendor, and which models are said to see."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fakes.asking import reply, request
from fakes.engines import ENGINES, model
from fakes.pictures import jpeg, png
from retinue import Message, PromptModel, UsageError
from retinue.core.files import read_file
from retinue.core.prompt import Prompt
from retinue.core.protocols import list_readable_kinds
from retinue.models.reply_limits import limit_replies

ONE, OTHER = read_file(png()), read_file(jpeg(), "low")
SHOWN = Prompt(Message("user", "What is this?", files=(ONE, OTHER)))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def parts_of_openai() -> list[Mapping[str, Any]]:
    first = {"url": f"data:image/png;base64,{b64(ONE.data)}"}
    second = {"url": f"data:image/jpeg;base64,{b64(OTHER.data)}", "detail": "low"}
    return [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": first},
        {"type": "image_url", "image_url": second},
    ]


def block(data: bytes, media_type: str) -> Mapping[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": b64(data)}}


MESSAGES: Mapping[str, Mapping[str, Any]] = {
    **{name: {"role": "user", "content": parts_of_openai()} for name in ENGINES},
    "anthropic": {
        "role": "user",
        "content": [
            block(ONE.data, "image/png"),
            block(OTHER.data, "image/jpeg"),
            {"type": "text", "text": "What is this?"},
        ],
    },
    "gemini": {
        "role": "user",
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": b64(ONE.data)}},
            {"inlineData": {"mimeType": "image/jpeg", "data": b64(OTHER.data)}},
            {"text": "What is this?"},
        ],
    },
    "ollama": {"role": "user", "content": "What is this?", "images": [b64(ONE.data), b64(OTHER.data)]},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_images_as_each_vendor_documents_them(engine: str) -> None:
    with ENGINES[engine]() as server:
        server.replies += ["A red square.", "Red."]
        shows = model(server, sees=True)
        assert reply(shows, request(SHOWN)).text == "A red square."
        more = SHOWN.add(Message("assistant", "A red square."), Message("user", "Which color?"))
        assert reply(shows, request(more)).text == "Red."
        first, second = (one.body["contents" if engine == "gemini" else "messages"] for one in server.asked)
        assert first == [MESSAGES[engine]]
        assert second[0] == MESSAGES[engine]


@pytest.mark.parametrize(("engine", "told"), [("ollama", True), ("llamacpp", True)])
def test_a_server_that_can_tell_is_asked_once(engine: str, told: bool) -> None:
    for sees in (told, False):
        with ENGINES[engine]() as server:
            server.sees = sees
            chosen = model(server)
            for one in (chosen, limit_replies(chosen, ["x"])):
                assert asyncio.run(list_readable_kinds(one)) == ({"image"} if sees else set())
            asked = [one.path for one in server.requests]
            assert len([path for path in asked if path in ("/api/show", "/props")]) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_set_is_believed(engine: str) -> None:
    with ENGINES[engine]() as server:
        assert asyncio.run(model(server, sees=False).sees()) == set()
        assert asyncio.run(model(server, sees=True).sees()) == {"image"}
        assert asyncio.run(model(server, sees=["pdf", "audio"]).sees()) == {"pdf", "audio"}
        assert not server.requests


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        *((f"openai:{name}", "image pdf") for name in ("gpt-4o", "gpt-4.1-mini", "gpt-5-mini", "o3", "o4-mini")),
        ("openai:gpt-4-turbo", "image pdf"), ("openai:ft:gpt-4o-2024-08-06:a::b", "image pdf"),
        *((f"openai:{name}", "") for name in ("gpt-4", "gpt-4-0613", "gpt-3.5-turbo", "o1-mini", "o3-mini")),
        ("openai:gpt-4-turbo-preview", ""), ("openai:gpt-4o-audio-preview", "audio"),
        ("anthropic:claude-sonnet-4-5", "image pdf"), ("anthropic:claude-3-opus-20240229", "image pdf"),
        ("anthropic:claude-3-haiku-20240307", "image pdf"), ("anthropic:claude-2.1", ""),
        ("huggingface:meta-llama/Llama-3.1-8B-Instruct", ""), ("cohere:command-a-03-2025", ""),
        ("gemini:gemini-3.8-flash", "image pdf audio"), ("openrouter:google/gemini-2.5-flash", "image pdf audio"),
        ("openrouter:anthropic/claude-sonnet-4.5", "image pdf"),
    ],
)  # fmt: skip
def test_models_whose_vendor_says_it_elsewhere(name: str, kinds: str) -> None:
    assert asyncio.run(PromptModel(name, api_key="k").sees()) == set(kinds.split())


def test_several_models_in_order_read_what_each_of_them_reads() -> None:
    models = [PromptModel(name, api_key="k") for name in ("gemini:gemini-3.8-flash", "openai:gpt-5-mini")]
    assert asyncio.run(PromptModel(models=models).sees()) == {"image", "pdf"}


def test_a_server_of_unknown_kind_is_not_taken_to_see() -> None:
    with ENGINES["openai"]() as server:
        server.owned_by = None  # type: ignore[attr-defined]
        assert asyncio.run(model(server, dialect=None).sees()) == set()


def test_an_image_without_its_bytes_is_not_sent() -> None:
    with ENGINES["anthropic"]() as server:
        lost = Prompt(Message("user", "What?", files=(replace(ONE, data=b""),)))
        with pytest.raises(UsageError, match=f"the bytes of the file {ONE.id[:12]} are not at hand"):
            reply(model(server), request(lost))
        assert not server.asked
