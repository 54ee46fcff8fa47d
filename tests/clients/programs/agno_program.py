"""Agno: an agent on Responses, streamed."""

from agno.agent import Agent
from agno.models.openai import OpenAIResponses
from reporting import KEY, URL, report


def ask(model: str, question: str) -> str:
    agent = Agent(model=OpenAIResponses(id=model, base_url=URL, api_key=KEY, max_retries=0), telemetry=False)
    told = []
    for event in agent.run(question, stream=True):
        if event.event == "RunError":
            raise RuntimeError(event.content)
        told.append(event.content or "")
    return "".join(told)


report(ask)
