"""The OpenAI Agents SDK."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from telling import KEY, QUESTIONS, URL, get_weather, tell

set_tracing_disabled(True)


async def run(api: str, streamed: bool, asks: bool) -> tuple[list[str], str]:
    settings, thoughts, answers, said = ModelSettings(), "", [], []
    async with AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as client:
        if api == "chat":
            model = OpenAIChatCompletionsModel("thinks", client)
            settings.extra_body = {"include_reasoning": True} if asks else None
        else:
            model = OpenAIResponsesModel("thinks", client)
            settings.reasoning = Reasoning(summary="auto") if asks else None
        agent = Agent("thinks", model=model, model_settings=settings, tools=[function_tool(get_weather)])
        for question in QUESTIONS:
            said.append({"role": "user", "content": question})
            if streamed:
                result = Runner.run_streamed(agent, said)
                async for event in result.stream_events():
                    if (
                        event.type == "raw_response_event"
                        and event.data.type == "response.reasoning_summary_text.delta"
                    ):
                        thoughts += event.data.delta
            else:
                result = await Runner.run(agent, said)
                shown = [one.raw_item for one in result.new_items if one.type == "reasoning_item"]
                thoughts += "".join(part.text for one in shown for part in one.summary)
            answers.append(result.final_output)
            said = result.to_input_list()
    return answers, thoughts


tell(lambda api, streamed, asks: asyncio.run(run(api, streamed, asks)))
