"""pydantic-ai."""

from pydantic_ai import Agent
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, ThinkingPart, ThinkingPartDelta
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from telling import KEY, QUESTIONS, URL, get_weather, tell

MODELS = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}
ASKING = {"chat": {"extra_body": {"include_reasoning": True}}, "responses": {"openai_reasoning_summary": "auto"}}


def ask(api: str, streamed: bool, asks: bool) -> tuple[list[str], str]:
    model = MODELS[api]("thinks", provider=OpenAIProvider(base_url=URL, api_key=KEY))
    agent = Agent(model, tools=[get_weather], model_settings=ASKING[api] if asks else None)
    answers, thoughts, history = [], "", []

    async def listen(context, events) -> None:
        nonlocal thoughts
        async for event in events:
            if isinstance(event, PartStartEvent) and isinstance(event.part, ThinkingPart):
                thoughts += event.part.content
            if isinstance(event, PartDeltaEvent) and isinstance(event.delta, ThinkingPartDelta):
                thoughts += event.delta.content_delta or ""

    for question in QUESTIONS:
        more = {"event_stream_handler": listen} if streamed else {}
        result = agent.run_sync(question, message_history=history, **more)
        if not streamed:
            parts = [part for message in result.new_messages() for part in message.parts]
            thoughts += "".join(part.content for part in parts if isinstance(part, ThinkingPart))
        answers.append(result.output)
        history = result.all_messages()
    return answers, thoughts


tell(ask)
