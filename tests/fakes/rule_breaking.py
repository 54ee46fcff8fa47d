"""Ways to break each rule of the stand-ins for vendors, by the rule's name: what it wants is left out of a request.

Each changes a faithful client's request in place; in those where there is nothing to change yet, it changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from retinue.testing import Asked

Json = dict[str, Any]
Change = Callable[[Asked], None]


@dataclass(frozen=True)
class Break:
    """How a rule is broken, with a model if only some have it, and of one vendor if only that has it so."""

    change: Change
    model: str = ""
    vendor: str = ""


# ── where things are ─────────────────────────────────────────────────────────────────────────────


def messages(asked: Asked) -> list[Json]:
    found: list[Json] = asked.body["messages"]
    return found


def calling(asked: Asked) -> Iterator[Json]:
    """Messages with calls, in the form of chats."""
    yield from (one for one in messages(asked) if one.get("tool_calls"))


def blocks(asked: Asked, kind: str) -> Iterator[tuple[list[Json], Json]]:
    """Blocks of Anthropic's, with the list that they are in."""
    for message in messages(asked):
        content = message["content"] if isinstance(message["content"], list) else []
        yield from ((content, block) for block in list(content) if block["type"] == kind)


def items(asked: Asked, kind: str) -> Iterator[Json]:
    """Items of OpenAI's Responses."""
    yield from (one for one in list(asked.body["input"]) if one.get("type") == kind)


def parts(asked: Asked, kind: str) -> Iterator[tuple[list[Json], Json]]:
    """Parts of Gemini's, with the list that they are in."""
    for content in asked.body["contents"]:
        yield from ((content["parts"], part) for part in list(content["parts"]) if kind in part)


# ── changes ──────────────────────────────────────────────────────────────────────────────────────


def setting(name: str, value: Any) -> Change:
    return lambda asked: asked.body.update({name: value})


def without(name: str) -> Change:
    return lambda asked: (asked.body.pop(name, None), None)[1]


def without_in_calling(name: str) -> Change:
    def change(asked: Asked) -> None:
        for message in calling(asked):
            message.pop(name, None)

    return change


def changed_in_calling(name: str) -> Change:
    def change(asked: Asked) -> None:
        for message in calling(asked):
            if isinstance(message.get(name), str):
                message[name] = message[name].strip() + "."

    return change


def in_calling(act: Callable[[Json], object]) -> Change:
    def change(asked: Asked) -> None:
        for message in calling(asked):
            act(message)

    return change


def on_blocks(kind: str, act: Callable[[list[Json], Json], object]) -> Change:
    def change(asked: Asked) -> None:
        for content, block in blocks(asked, kind):
            act(content, block)

    return change


def on_items(kind: str, act: Callable[[list[Json], Json], object]) -> Change:
    def change(asked: Asked) -> None:
        for item in items(asked, kind):
            act(asked.body["input"], item)

    return change


def on_parts(kind: str, act: Callable[[list[Json], Json], object]) -> Change:
    def change(asked: Asked) -> None:
        for content, part in parts(asked, kind):
            act(content, part)

    return change


def removed(among: list[Json], one: Json) -> None:
    among.remove(one)


def field_set(name: str, value: Any) -> Callable[[list[Json], Json], object]:
    return lambda _, one: one.update({name: value})


def field_gone(name: str) -> Callable[[list[Json], Json], object]:
    return lambda _, one: one.pop(name, None)


def moved_to_end(among: list[Json], one: Json) -> None:
    among.remove(one)
    among.append(one)


def first_tool(act: Callable[[Json], object]) -> Change:
    def change(asked: Asked) -> None:
        tool = asked.body["tools"][0]
        declared = tool.get("functionDeclarations", [tool])[0]
        act(declared.get("function", declared))

    return change


def deeper(act: Change) -> Change:
    """The same for a request's own copy of its tools, which a client uses again and again."""

    def change(asked: Asked) -> None:
        asked.body = copy.deepcopy(asked.body)
        act(asked)

    return change


def tools_last(asked: Asked) -> None:
    """Put a message of the user between a call and its result."""
    for at, message in reversed(list(enumerate(messages(asked)))):
        if message.get("tool_calls"):
            messages(asked).insert(at + 1, {"role": "user", "content": "Well?"})


def without_results(asked: Asked) -> None:
    asked.body["messages"] = [one for one in messages(asked) if one["role"] != "tool"]


def without_calls(asked: Asked) -> None:
    asked.body["messages"] = [one for one in messages(asked) if not one.get("tool_calls")]


def user_after_tool(asked: Asked) -> None:
    if messages(asked)[-1]["role"] == "tool":
        messages(asked).append({"role": "user", "content": "Go on."})


def another_speaks_last(asked: Asked) -> None:
    messages(asked).append({"role": "assistant", "content": "The answer is"})


def reversed_details(message: Json) -> None:
    message["reasoning_details"].reverse()


def signature_of(message: Json, value: str | None) -> None:
    call = message["tool_calls"][0]
    call.pop("extra_content")
    if value:
        call["extra_content"] = {"google": {"thought_signature": value}}


def signature_in_another_call(message: Json) -> None:
    if len(message["tool_calls"]) > 1:
        message["tool_calls"][1]["extra_content"] = message["tool_calls"][0].pop("extra_content")


def signature_in_a_part_of_its_own(among: list[Json], part: Json) -> None:
    if "thoughtSignature" in part:
        among.insert(0, {"text": "", "thoughtSignature": part.pop("thoughtSignature")})


def changed_signature(_: list[Json], part: Json) -> None:
    if "thoughtSignature" in part:
        part["thoughtSignature"] = "QUJD"


def text_between(among: list[Json], block: Json) -> None:
    among.insert(0, {"type": "text", "text": "Here you are."})


def thinking_without_its_part(message: Json) -> None:
    message["content"] = [one for one in message["content"] if one["type"] != "thinking"]


def arguments_changed(message: Json) -> None:
    message["tool_calls"][0]["function"]["arguments"] = '{"a": 1}'


def fewer_calls(asked: Asked) -> None:
    for message in calling(asked):
        gone = [call["id"] for call in message["tool_calls"][1:]]
        message["tool_calls"] = message["tool_calls"][:1]
        asked.body["messages"] = [one for one in messages(asked) if one.get("tool_call_id") not in gone]


def ids_of(value: str) -> Change:
    def change(asked: Asked) -> None:
        for message in messages(asked):
            for call in message.get("tool_calls", []):
                call["id"] = value
            if "tool_call_id" in message:
                message["tool_call_id"] = value

    return change


def no_version(asked: Asked) -> None:
    asked.headers = {name: value for name, value in asked.headers.items() if name != "anthropic-version"}
    asked.body.pop("anthropic_version", None)


def assistant_first(asked: Asked) -> None:
    messages(asked).insert(0, {"role": "assistant", "content": "Hi."})


def without_thoughts(asked: Asked) -> None:
    for kind in ("thinking", "redacted_thinking"):
        on_blocks(kind, removed)(asked)


def empty_message(asked: Asked) -> None:
    messages(asked).insert(0, {"role": "user", "content": ""})


def closed_but_optional(declared: Json) -> None:
    declared["strict"] = True
    declared["parameters"] = {**declared["parameters"], "additionalProperties": False, "required": []}


def schema_with(**words: Any) -> Change:
    return first_tool(lambda declared: declared.update({"parameters": {**declared["parameters"], **words}}))


def not_an_object(declared: Json) -> None:
    name = "input_schema" if "input_schema" in declared else "parameters"
    declared[name] = {"type": "string"}


BREAKS: dict[str, list[Break]] = {
    # OpenAI Responses
    "state is asked for": [Break(without("store")), Break(without("include"))],
    "reasoning comes back": [
        Break(on_items("reasoning", removed)), Break(on_items("reasoning", moved_to_end)),
    ],
    "items are unmodified": [
        Break(on_items("reasoning", field_set("encrypted_content", "c29tZXRoaW5n"))),
        Break(on_items("reasoning", field_gone("encrypted_content"))),
        Break(on_items("reasoning", field_gone("summary"))),
        Break(on_items("reasoning", field_set("summary", [{"type": "summary_text", "text": "Other."}]))),
        Break(on_items("function_call", field_set("arguments", "{}"))),
        Break(on_items("message", field_gone("phase"))),
    ],
    "calls have outputs": [
        Break(on_items("function_call_output", removed)),
        Break(on_items("function_call_output", field_set("call_id", "c"))),
    ],
    "no sampling of reasoning": [
        Break(setting("temperature", 0.5)), Break(setting("top_p", 0.5)),
        Break(setting("reasoning", {"effort": "low"}), "gpt-4.1", "openai"),
    ],
    "strict schemas are closed": [
        Break(first_tool(not_an_object)), Break(first_tool(lambda one: one.update(strict=True))),
        Break(first_tool(closed_but_optional)),
    ],
    "parameters are known": [
        Break(setting("thinking", {"type": "enabled"})),
        Break(lambda asked: (asked.body.get("input") or asked.body["messages"])[0].update(reasoning_content="Hm.")),
    ],
    # chat
    "results follow their calls": [
        Break(tools_last), Break(without_results), Break(without_calls),
    ],
    "calls are unmodified": [Break(in_calling(arguments_changed)), Break(fewer_calls)],
    "schemas are valid": [
        Break(first_tool(not_an_object)), Break(first_tool(lambda one: one.update(strict=True))),
        Break(first_tool(closed_but_optional)), Break(setting("tools", [])),
        Break(lambda asked: asked.body.update(tool_choice="auto", tools=None)),
    ],
    "reasoning models take no sampling": [
        Break(setting("max_tokens", 100)), Break(setting("temperature", 0)), Break(setting("stop", ["\n"])),
        Break(setting("top_p", 0.9)),
    ],
    "no tools beside reasoning": [Break(without("reasoning_effort")), Break(setting("reasoning_effort", "low"))],
    "deepseek reasoning comes back": [
        Break(without_in_calling("reasoning_content")), Break(changed_in_calling("reasoning_content")),
    ],
    "old reasoner wants no thoughts": [
        Break(lambda asked: messages(asked)[0].update(reasoning_content="Hm."), "deepseek-reasoner-r1"),
    ],
    "kimi reasoning comes back": [
        Break(without_in_calling("reasoning_content")), Break(changed_in_calling("reasoning_content")),
    ],
    "kimi samples as it does": [Break(setting("temperature", 0.2)), Break(setting("top_p", 0.5))],
    "glm reasoning comes back": [
        Break(without_in_calling("reasoning_content")), Break(changed_in_calling("reasoning_content")),
    ],
    "glm chooses tools itself": [Break(setting("tool_choice", "required"))],
    "details come back in order": [
        Break(without_in_calling("reasoning_details")), Break(in_calling(reversed_details)),
        Break(in_calling(lambda one: one["reasoning_details"][0].pop("signature"))),
        Break(in_calling(lambda one: one["reasoning_details"].pop())),
    ],
    "gemini signature comes back": [
        Break(in_calling(lambda one: signature_of(one, None))),
        Break(in_calling(lambda one: signature_of(one, "QUJD"))),
        Break(in_calling(signature_in_another_call)),
    ],
    "mistral ids have nine characters": [Break(ids_of("call_1")), Break(ids_of("call-0001"))],
    "mistral roles alternate": [Break(user_after_tool), Break(another_speaks_last)],
    "mistral fields are known": [
        Break(setting("stream_options", {"include_usage": True})), Break(setting("max_completion_tokens", 9)),
        Break(in_calling(lambda one: one.update(reasoning_content="Hm."))),
    ],
    "mistral thoughts come back": [Break(in_calling(thinking_without_its_part))],
    "groq fields are known": [
        Break(in_calling(lambda one: one.update(reasoning_content=one.pop("reasoning")))),
        Break(setting("reasoning_format", "raw")),
    ],
    "grok takes no stops": [Break(setting("stop", ["\n"])), Break(setting("reasoning_effort", "low"))],
    # Anthropic
    "its version is named": [Break(no_version)],
    "fields are known": [
        Break(setting("reasoning_effort", "low")),
        Break(first_tool(not_an_object), vendor="anthropic|bedrock"),
        Break(assistant_first, vendor="anthropic|bedrock"),
        Break(lambda asked: messages(asked)[0].update(role="system"), vendor="anthropic|bedrock"),
        Break(setting("generationConfig", {"maxTokens": 3}), vendor="gemini|vertex"),
        Break(on_parts("functionCall", field_set("thought_id", "1")), vendor="gemini|vertex"),
        Break(empty_message, vendor="cohere"),
    ],
    "results follow tool uses": [
        Break(on_blocks("tool_result", removed)), Break(on_blocks("tool_result", text_between)),
        Break(on_blocks("tool_use", removed)), Break(on_blocks("tool_result", field_set("tool_use_id", "toolu_1"))),
        Break(on_blocks("tool_use", lambda _, one: one.update(id="functions.add:0"))),
    ],
    "max tokens fit the model": [Break(without("max_tokens")), Break(setting("max_tokens", 200_000))],
    "texts are not blank": [
        Break(empty_message), Break(another_speaks_last), Break(lambda asked: messages(asked)[0].update(content="\n ")),
    ],
    "signatures are its own": [
        Break(on_blocks("thinking", field_set("signature", "c29tZXRoaW5n"))),
        Break(on_blocks("thinking", field_set("thinking", "Other."))),
        Break(on_blocks("redacted_thinking", field_set("data", "c29tZXRoaW5n"))),
    ],
    "thinking comes back unmodified": [
        Break(on_blocks("thinking", removed)), Break(on_blocks("redacted_thinking", removed)),
        Break(on_blocks("thinking", moved_to_end)),
        Break(without_thoughts),
    ],
    "thinking has a budget": [
        Break(setting("thinking", {"type": "enabled", "budget_tokens": 1000}), "claude-sonnet-4-5"),
        Break(setting("thinking", {"type": "enabled", "budget_tokens": 4000}), "claude-sonnet-4-5"),
    ],
    "thinking is of the models kind": [
        Break(setting("thinking", {"type": "adaptive"}), "claude-sonnet-4-5"),
        Break(setting("thinking", {"type": "enabled", "budget_tokens": 2000}), "claude-opus-4-7"),
    ],
    "thinking cannot be turned off": [Break(setting("thinking", {"type": "disabled"}), "claude-mythos-5")],
    "thinking is bound to what came before": [
        Break(lambda asked: messages(asked)[0].update(content=f"Question {len(messages(asked))}"), "claude-opus-5-5"),
        Break(lambda asked: asked.body.update(system=f"Step {len(messages(asked))}"), "claude-opus-5-5"),
        Break(setting("thinking", {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}})),
    ],
    "no sampling beside thinking": [
        Break(setting("temperature", 0.5), "claude-sonnet-4-5"), Break(setting("top_p", 0.5), "claude-sonnet-4-5"),
        Break(setting("top_k", 5), "claude-sonnet-4-5"), Break(setting("temperature", 1), "claude-opus-4-7"),
    ],
    "no forced tool beside thinking": [
        Break(setting("tool_choice", {"type": "any"})), Break(setting("tool_choice", {"type": "tool", "name": "add"})),
    ],
    # Gemini
    "signatures come back": [
        Break(on_parts("functionCall", field_gone("thoughtSignature"))),
        Break(on_parts("functionCall", signature_in_a_part_of_its_own)),
    ],
    "signatures are valid": [
        Break(on_parts("functionCall", changed_signature)),
        Break(on_parts("functionCall", lambda _, one: one["functionCall"].update(args={}))),
    ],
    "calls have no ids": [
        Break(on_parts("functionCall", lambda _, one: one["functionCall"].update(id="x"))),
        Break(on_parts("functionResponse", lambda _, one: one["functionResponse"].update(id="x"))),
    ],
    "calls have their responses": [
        Break(on_parts("functionResponse", removed)),
        Break(on_parts("functionResponse", lambda _, one: one["functionResponse"].update(name="other"))),
        Break(on_parts("functionResponse", lambda _, one: one["functionResponse"].update(id="other")), vendor="gemini"),
        Break(on_parts("functionResponse", lambda _, one: one["functionResponse"].update(response="ok"))),
    ],
    "roles alternate": [
        Break(lambda asked: asked.body["contents"].insert(0, {"role": "model", "parts": [{"text": "Hi."}]})),
        Break(lambda asked: asked.body["contents"].insert(0, {"role": "user", "parts": [{"text": "Hi."}]})),
        Break(lambda asked: asked.body["contents"][0].update(role="assistant")),
        Break(lambda asked: asked.body["contents"][0].update(parts=[])),
        Break(lambda asked: asked.body["contents"].append({"role": "model", "parts": [{"text": "Hi."}]})),
    ],
    "schemas are of its subset": [
        Break(schema_with(additionalProperties=False)),
        Break(schema_with(properties={"a": {"type": ["integer", "null"]}})),
        Break(schema_with(properties={"a": {"type": "array"}})),
        Break(schema_with(properties={"a": {"type": "integer", "enum": [1, 2]}})),
    ],
    "thinking is configured once": [
        Break(setting("generationConfig", {"thinkingConfig": {"thinkingLevel": "low", "thinkingBudget": 10}})),
        Break(setting("generationConfig", {"thinkingConfig": {"thinkingLevel": "low"}}), "gemini-2.5-flash"),
    ],
    # Cohere and Ollama
    "thoughts come back": [
        Break(in_calling(thinking_without_its_part), vendor="cohere"),
        Break(without_in_calling("thinking"), vendor="ollama"), Break(changed_in_calling("thinking"), vendor="ollama"),
    ],
    "fields have their types": [
        Break(in_calling(arguments_changed)), Break(lambda asked: messages(asked)[0].update(content=["Hi."])),
    ],
    "caching is marked": [
        Break(lambda asked: asked.body.update(system=[{"type": "text", "text": "a", "cache_control": {}}] * 5)),
    ],
    "caching is marked in blocks": [Break(setting("cache_control", {"type": "ephemeral"}))],
}  # fmt: skip
