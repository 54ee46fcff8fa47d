"""Haystack: its generator of Responses, streamed."""

from haystack.components.generators.chat import OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from reporting import KEY, URL, report


def ask(model: str, question: str) -> str:
    told: list[str] = []
    generator = OpenAIResponsesChatGenerator(
        api_key=Secret.from_token(KEY), model=model, api_base_url=URL, max_retries=0,
        streaming_callback=lambda chunk: told.append(chunk.content),
    )  # fmt: skip
    reply = generator.run([ChatMessage.from_user(question)])["replies"][0]
    assert "".join(told) == reply.text
    return reply.text


report(ask)
