"""openai-python, with a loop of its own."""

from openai import OpenAI
from telling import KEY, QUESTIONS, URL, WEATHER, get_weather, tell

client = OpenAI(base_url=URL, api_key=KEY, max_retries=0)
FUNCTION = {"name": "get_weather", "parameters": WEATHER}


def ask(api: str, streamed: bool, asks: bool) -> tuple[list[str], str]:
    return (chat if api == "chat" else responses)(streamed, asks)


def chat(streamed: bool, asks: bool) -> tuple[list[str], str]:
    messages, answers, thoughts = [], [], ""
    more = {"extra_body": {"include_reasoning": True}} if asks else {}
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        while messages[-1]["role"] != "assistant":
            asked = {
                "model": "thinks",
                "messages": messages,
                "tools": [{"type": "function", "function": FUNCTION}],
                **more,
            }
            if streamed:
                with client.chat.completions.stream(**asked) as stream:
                    for event in stream:
                        if event.type == "chunk" and event.chunk.choices:
                            thoughts += getattr(event.chunk.choices[0].delta, "reasoning_content", None) or ""
                    said = stream.get_final_completion()
            else:
                said = client.chat.completions.create(**asked)
                thoughts += getattr(said.choices[0].message, "reasoning_content", None) or ""
            assert said.usage is None or said.usage.completion_tokens_details.reasoning_tokens > 0
            message = said.choices[0].message
            calls = message.tool_calls or []
            messages.append({"role": "assistant", "content": message.content})
            if calls:
                messages[-1]["tool_calls"] = [
                    {
                        "id": one.id,
                        "type": "function",
                        "function": one.function.model_dump(include={"name", "arguments"}),
                    }
                    for one in calls
                ]
                messages += [{"role": "tool", "tool_call_id": one.id, "content": get_weather("")} for one in calls]
        answers.append(messages[-1]["content"])
    return answers, thoughts


def responses(streamed: bool, asks: bool) -> tuple[list[str], str]:
    items, answers, thoughts = [], [], ""
    more = {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]} if asks else {}
    for question in QUESTIONS:
        items.append({"role": "user", "content": question})
        calls = [None]
        while calls:
            asked = {
                "model": "thinks",
                "input": items,
                "tools": [{"type": "function", **FUNCTION}],
                "store": False,
                **more,
            }
            if streamed:
                with client.responses.stream(**asked) as stream:
                    for event in stream:
                        thoughts += event.delta if event.type == "response.reasoning_summary_text.delta" else ""
                    said = stream.get_final_response()
            else:
                said = client.responses.create(**asked)
                shown = [part.text for one in said.output if one.type == "reasoning" for part in one.summary]
                thoughts += "".join(shown)
            assert said.usage.output_tokens_details.reasoning_tokens > 0
            items += [one.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for one in said.output]
            calls = [one.call_id for one in said.output if one.type == "function_call"]
            items += [{"type": "function_call_output", "call_id": one, "output": get_weather("")} for one in calls]
        answers.append(said.output_text)
    return answers, thoughts


tell(ask)
