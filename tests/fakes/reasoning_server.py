"""A model that thinks, and wants its thoughts back with each call that it made, as DeepSeek does.

    with reasoning_server() as server:
        agent = Agent(model(server), [add], strategy="tool_calling")

It calls each tool that it is offered once for each question, one after the other, and then says what they gave. "both"
in a question: it calls all at once. DeepSeek's rule: https://api-docs.deepseek.com/guides/thinking_mode, "Tool calls".
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from .openai_server import Answer, OpenAIServer, Request, failure

INPUTS: dict[str, Any] = {
    "add": {"a": 1, "b": 2},
    "get_weather": {"location": "Paris"},
    "calculator": {"expression": "1+2"},
}
REFUSAL = "The `reasoning_content` in the thinking mode must be passed back to the API."


def reasoning_server() -> OpenAIServer:
    """Return the server."""
    server = OpenAIServer("openai")
    made: list[tuple[str, list[str]]] = []  # thoughts, each with the calls that it led to
    numbers = itertools.count(1)

    def answer(request: Request) -> Answer:
        messages = request.body["messages"]
        for one in messages:
            if one.get("tool_calls") and (one.get("reasoning_content"), _calls(one)) not in made:
                return failure(400, REFUSAL, code="invalid_request_error")
        last = max(at for at, one in enumerate(messages) if one["role"] == "user" and isinstance(one["content"], str))
        said = messages[last:]
        done = {call["function"]["name"] for one in said for call in one.get("tool_calls", ())}
        left = [
            name for name in (tool["function"]["name"] for tool in request.body.get("tools", ())) if name not in done
        ]
        thought = f"Thought {next(numbers)}: what is missing?"
        if left:
            calls = [(name, INPUTS[name]) for name in (left if "both" in str(said[0]["content"]) else left[:1])]
            made.append((thought, [json.dumps(one) for one in calls]))
            return Answer("", calls=calls, reasoning=thought)
        results = " and ".join(one["content"] for one in said if one["role"] == "tool")
        return Answer(f"It is {results or 'fine'}.", reasoning=thought)

    server.always = answer
    return server


def _calls(message: dict[str, Any]) -> list[str]:
    functions = [call["function"] for call in message["tool_calls"]]
    return [json.dumps((one["name"], json.loads(one["arguments"]))) for one in functions]
