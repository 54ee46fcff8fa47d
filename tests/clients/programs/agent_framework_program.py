"""Microsoft's Agent Framework: an agent on Responses, streamed."""

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient
from reporting import KEY, URL, report


def ask(model: str, question: str) -> str:
    async def run() -> str:
        stream = Agent(OpenAIChatClient(model=model, base_url=URL, api_key=KEY)).run(question, stream=True)
        return (await stream.get_final_response()).text

    return asyncio.run(run())


report(ask)
