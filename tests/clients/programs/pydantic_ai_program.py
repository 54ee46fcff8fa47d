"""pydantic-ai: Responses, streamed; and a person's approval as a function, for it knows no other form."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from reporting import KEY, URL, report


def agent(model: str, *tools) -> Agent:
    return Agent(OpenAIResponsesModel(model, provider=OpenAIProvider(base_url=URL, api_key=KEY)), tools=tools)


def human_input(tool: str, arguments: dict) -> str:
    """Ask a person."""
    return "approve"


def ask(model: str, question: str) -> str:
    return "".join(agent(model).run_stream_sync(question).stream_text(delta=True))


report(ask, approved=agent("waiter", human_input).run_sync("Please book a table.").output)
