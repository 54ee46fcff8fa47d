"""A tool loop with a vendor's own SDK, streamed and whole: `vendor_sdks.py NAME ADDRESS ROOT KEY MODEL`.

It prints the two answers as JSON. Whatever the model said goes back as the SDK holds it.
"""

import json
import sys

NAME, ADDRESS, ROOT, KEY, MODEL = sys.argv[1:]
QUESTION = "What is 12 + 30, and what about Åbo?"
NUMBERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
SCHEMAS = {
    "add": {"type": "object", "properties": NUMBERS, "required": ["a", "b"]},
    "look": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
}
FUNCTIONS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]


def plain(value):
    return value.model_dump(exclude_none=True)


def openai(stream):
    from openai import OpenAI

    client = OpenAI(base_url=ADDRESS + ROOT, api_key=KEY, max_retries=0)
    items = [{"role": "user", "content": QUESTION}]
    tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
    more = {"store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    while True:
        if stream:
            with client.responses.stream(model=MODEL, input=items, tools=tools, **more) as events:
                for _ in events:
                    pass
                reply = events.get_final_response()
        else:
            reply = client.responses.create(model=MODEL, input=items, tools=tools, **more)
        calls = [item for item in reply.output if item.type == "function_call"]
        output = [plain(item).items() for item in reply.output]  # with what only the SDK's parser adds
        items += [{name: value for name, value in item if not name.startswith("parsed")} for item in output]
        if not calls:
            return reply.output_text
        items += [{"type": "function_call_output", "call_id": one.call_id, "output": "ok"} for one in calls]


def anthropic(stream):
    from anthropic import Anthropic

    client = Anthropic(base_url=ADDRESS, api_key=KEY, max_retries=0)
    messages = [{"role": "user", "content": QUESTION}]
    tools = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
    while True:
        given = {
            "model": MODEL,
            "messages": messages,
            "tools": tools,
            "max_tokens": 4000,
            "thinking": {"type": "adaptive"},
        }
        if stream:
            with client.messages.stream(**given) as events:
                reply = events.get_final_message()
        else:
            reply = client.messages.create(**given)
        messages.append({"role": "assistant", "content": [plain(block) for block in reply.content]})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return reply.content[-1].text
        results = [{"type": "tool_result", "tool_use_id": one.id, "content": "ok"} for one in calls]
        messages.append({"role": "user", "content": results})


def gemini(stream):
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=ADDRESS))
    contents = [types.Content(role="user", parts=[types.Part(text=QUESTION)])]
    declared = [types.FunctionDeclaration(name=name, parameters_json_schema=one) for name, one in SCHEMAS.items()]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    while True:
        given = {"model": MODEL, "contents": contents, "config": config}
        if stream:
            chunks = client.models.generate_content_stream(**given)
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
        else:
            parts = client.models.generate_content(**given).candidates[0].content.parts
        contents.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text for part in parts if part.text and not part.thought)
        results = [types.FunctionResponse(id=one.id, name=one.name, response={"result": "ok"}) for one in calls]
        contents.append(types.Content(role="user", parts=[types.Part(function_response=one) for one in results]))


def mistral(stream):
    from mistralai.client import Mistral

    client = Mistral(api_key=KEY, server_url=ADDRESS)
    messages = [{"role": "user", "content": QUESTION}]
    while True:
        given = {"model": MODEL, "messages": messages, "tools": FUNCTIONS}
        if stream:
            message = {"role": "assistant", "content": [], "tool_calls": []}
            for event in client.chat.stream(**given):
                delta = plain(event.data.choices[0].delta) if event.data.choices else {}
                content = delta.get("content") or []
                message["content"] += [{"type": "text", "text": content}] if isinstance(content, str) else content
                for call in delta.get("tool_calls") or []:
                    if call["index"] == len(message["tool_calls"]):
                        message["tool_calls"].append(call)
                    else:
                        known = message["tool_calls"][call["index"]]["function"]
                        known["arguments"] += call["function"]["arguments"]
        else:
            message = plain(client.chat.complete(**given).choices[0].message)
        messages.append(message)
        if not message.get("tool_calls"):
            return "".join(part["text"] for part in message["content"] if part["type"] == "text")
        messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]


def cohere(stream):
    from cohere import ClientV2

    client = ClientV2(api_key=KEY, base_url=ADDRESS)
    messages = [{"role": "user", "content": QUESTION}]
    while True:
        given = {"model": MODEL, "messages": messages, "tools": FUNCTIONS}
        if stream:
            message = {"role": "assistant", "content": [], "tool_calls": []}
            for event in client.chat_stream(**given):
                told = plain(event).get("delta", {}).get("message", {})
                if event.type == "content-start":
                    message["content"].append(told["content"])
                elif event.type == "content-delta":
                    for name, text in told["content"].items():
                        message["content"][-1][name] += text
                elif event.type == "tool-call-start":
                    message["tool_calls"].append(told["tool_calls"])
                elif event.type == "tool-call-delta":
                    message["tool_calls"][-1]["function"]["arguments"] += told["tool_calls"]["function"]["arguments"]
        else:
            message = plain(client.chat(**given).message)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"][-1]["text"]
        messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]


def ollama(stream):
    from ollama import Client

    client = Client(host=ADDRESS)
    messages = [{"role": "user", "content": QUESTION}]
    while True:
        reply = client.chat(model=MODEL, messages=messages, tools=FUNCTIONS, think=True, stream=stream)
        message = {"role": "assistant", "content": "", "thinking": "", "tool_calls": []}
        for chunk in reply if stream else [reply]:
            for name, value in plain(chunk.message).items():
                message[name] = value if name == "role" else message[name] + value
        messages.append(message)
        if not message["tool_calls"]:
            return message["content"]
        messages += [
            {"role": "tool", "tool_name": one["function"]["name"], "content": "ok"} for one in message["tool_calls"]
        ]


def groq(stream):
    from groq import Groq

    client = Groq(api_key=KEY, base_url=ADDRESS)
    messages = [{"role": "user", "content": QUESTION}]
    while True:
        reply = client.chat.completions.create(model=MODEL, messages=messages, tools=FUNCTIONS, stream=stream)
        message = joined(reply) if stream else plain(reply.choices[0].message)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]


def joined(chunks):
    message = {"role": "assistant", "content": "", "reasoning": "", "tool_calls": []}
    for delta in (plain(chunk.choices[0].delta) for chunk in chunks if chunk.choices):
        for name in ("content", "reasoning"):
            message[name] += delta.get(name, "")
        for call in delta.get("tool_calls", []):
            if call.pop("index") == len(message["tool_calls"]):
                message["tool_calls"].append(call)
            else:
                message["tool_calls"][-1]["function"]["arguments"] += call["function"]["arguments"]
    return {name: value for name, value in message.items() if value}


LOOPS = {
    "openai": openai, "anthropic": anthropic, "gemini": gemini, "mistral": mistral, "cohere": cohere, "ollama": ollama,
    "groq": groq,
}  # fmt: skip
print(json.dumps([LOOPS[NAME](stream) for stream in (True, False)]))
