"""A scripted model that reads: its rules are functions of what a chat has said so far, so that what it says depends on
what tools have returned.

    with OpenAIServer() as server:
        server.always = reading({"calculator": average})
        ... PromptModel(base_url=server.url) ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from .scripted_server import Answer, Request, failure

Said: TypeAlias = "str | Sequence[tuple[str, Any]]"  # an answer, or calls of tools with their inputs


class Chat(NamedTuple):
    """What an agent's model was told: its `system` message, the `task`, and the outputs of each step's tools."""

    system: str
    task: str
    seen: tuple[tuple[str, ...], ...]


def reading(rules: Mapping[str, Callable[[Chat], Said]]) -> Callable[[Request], Answer]:
    """What a server says `always`: the rule of the agent's first tool decides, or that under `""` without tools."""

    def answer(request: Request) -> Answer:
        tools = [tool["function"]["name"] for tool in request.body.get("tools", ())]
        if tools == ["add"]:  # the question whether it can call tools at all
            return Answer(calls=[("add", {"a": 19, "b": 23})])
        name = tools[0] if tools else ""
        if name not in rules:
            return failure(400, f"no rule for an agent with the tools {tools}")
        said = rules[name](_chat(request.body["messages"]))
        return Answer(said) if isinstance(said, str) else Answer(calls=list(said))

    return answer


def _chat(messages: Sequence[Mapping[str, Any]]) -> Chat:
    system = "\n".join(str(one["content"]) for one in messages if one["role"] == "system")
    task = next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")
    steps: list[tuple[str, ...]] = []
    for one in messages:
        if one["role"] == "assistant":
            steps.append(())
        elif one["role"] == "tool":
            steps[-1] = (*steps[-1], str(one["content"]))
    return Chat(system, task, tuple(step for step in steps if step))
