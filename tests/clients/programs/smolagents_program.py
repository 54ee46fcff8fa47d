"""smolagents: its model, by chat completions, streamed."""

from reporting import KEY, URL, report
from smolagents import OpenAIModel
from smolagents.models import ChatMessage


def ask(model: str, question: str) -> str:
    said = [ChatMessage(role="user", content=question)]
    return "".join(piece.content or "" for piece in OpenAIModel(model, api_base=URL, api_key=KEY).generate_stream(said))


report(ask)
