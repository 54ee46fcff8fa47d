"""A bare loop on aiohttp, next to which Retinue's is measured: the same requests and tool calls, and no checks."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from retinue import tool

QUESTION = "What is there to note?"
_INSTRUCTIONS = "x" * 900  # as many characters as Retinue's, which a server reads anyway


@tool(effects="read")
async def note(fact: str) -> str:
    """Note a fact."""
    return f"{fact} is noted, and here is a sentence of some length that a tool might give back."


async def with_text(session: aiohttp.ClientSession, url: str, steps: int) -> None:
    """A run whose prompt is one text, and whose tool is called by lines of the reply."""
    prompt = _INSTRUCTIONS
    for step in range(steps):
        prompt += "Final Answer:" if step == steps - 1 else "Thought:"
        body = {"model": "m", "stream": True, "prompt": prompt}
        text = ""
        for choice in await _choices(session, f"{url}/completions", body):
            text += choice["text"]
        if step < steps - 1:
            given = text.split("Action Input: ", 1)[1].strip()
            prompt += f"{text}Observation: {await note.something(given)}\n"


async def with_native_calls(session: aiohttp.ClientSession, url: str, steps: int) -> None:
    """A run whose prompt is a list of messages, and whose tool is called natively."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Use the tools to find out what you need."},
        {"role": "user", "content": QUESTION},
    ]
    parameters = {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}
    about = {"name": "note", "description": "Note a fact.", "parameters": parameters}
    tools = [{"type": "function", "function": about}]
    for step in range(steps):
        body = {"model": "m", "stream": True, "tools": tools, "messages": messages}
        if step == steps - 1:
            body["tool_choice"] = "none"
        call, name, arguments = "", "", ""
        for choice in await _choices(session, f"{url}/chat/completions", body):
            for piece in choice["delta"].get("tool_calls", ()):
                call = piece.get("id") or call
                name += piece["function"].get("name", "")
                arguments += piece["function"].get("arguments", "")
        if step < steps - 1:
            function = {"name": name, "arguments": arguments}
            made = {"id": call, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
            seen = await note.something(**json.loads(arguments))
            messages.append({"role": "tool", "tool_call_id": call, "content": seen})


async def _choices(session: aiohttp.ClientSession, url: str, body: Any) -> list[Any]:
    choices = []
    async with session.post(url, data=json.dumps(body)) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                choices += json.loads(line[6:])["choices"]
    return choices
