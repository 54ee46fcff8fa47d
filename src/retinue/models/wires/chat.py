"""OpenAI's wire formats, chat and completions, which most vendors and servers speak as well.

What of a reply with calls is beside its text comes back in the next request as it was: `reasoning_content` (DeepSeek,
Kimi, GLM, Qwen, Fireworks), `reasoning` (vLLM, Groq, Cerebras, Together), `reasoning_details` (OpenRouter, MiniMax) and
the `extra_content` of calls (Gemini).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.values import Message, Usage
from ...errors import ModelRefused, UsageError
from ...net.error_mapping import is_about_parameter
from .. import wire_format
from ..wire_format import Encoded, PartialReply, Terms, find_count_at, find_json_at, find_objects_at, find_text_at

_NO_CALLS = "tool_choice.none"
_TEXTS = ("reasoning_content", "reasoning")  # where engines send thoughts, in the order of preference
_LISTS = ("reasoning_details", "thinking_blocks")  # of OpenRouter, and of LiteLLM for Anthropic's models
_APART = (*_TEXTS, *_LISTS)
_SHOWN = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}  # of the types in these
_MOST = 1024  # tokens of a completion; without a limit, servers stop after 16 or never
_NO_THOUGHT = " "
"""For a turn of another vendor, or of a person. Kimi wants any text; DeepSeek refuses an empty one and takes this:
https://github.com/NousResearch/hermes-agent/pull/18263"""


def encode_openai_thinking(terms: Terms) -> dict[str, Any]:
    """Return how much to think, in OpenAI's words. Raises `UsageError` for a number of tokens, which has none."""
    if terms.thinking_tokens is not None:
        raise UsageError(
            f"thinking_tokens: {terms.model or 'this server'} takes no number of tokens; set `effort` instead, or use"
            " the server's own parameter in `options`"
        )
    thinking = {"reasoning_effort": terms.effort, "verbosity": terms.verbosity}
    return {name: value for name, value in thinking.items() if value}


class Chat(wire_format.Wire):
    """Conversations. `thinking` returns the parameters of how much to think, and `prepare` changes a message."""

    name, path = "chat", "/chat/completions"
    dispensable = frozenset(
        ("stop", "temperature", "stream_options", "response_format", "structured_outputs", "grammar", "max_tokens")
    ) | {"parallel_tool_calls", "reasoning_split"}
    turn_fields = frozenset((*_APART, "extra_content"))

    def __init__(
        self,
        thinking: Callable[[Terms], dict[str, Any]] = encode_openai_thinking,
        prepare: Callable[[Message], Message] = lambda message: message,
    ) -> None:
        self.thinking = thinking
        self.prepare = prepare

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters = wire_format.select_given(
            model=terms.model,
            temperature=terms.temperature,
            max_tokens=terms.max_tokens,
            stop=list(terms.stop) or None,
            stream=terms.stream or None,
            stream_options={"include_usage": True} if terms.stream else None,
            **self.thinking(terms),
        )
        if terms.tools and not (terms.tool_choice == "none" and _NO_CALLS in terms.without):
            parameters["tools"] = wire_format.encode_functions(terms.tools, terms.model, terms.in_words)
            parameters["tool_choice"] = terms.tool_choice
        return parameters

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        turns, ids = self.encode_turns(kept, new)
        return replace(wire_format.append_messages(kept, turns), ids=ids)

    def encode_turns(self, kept: Encoded, new: Sequence[Message]) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
        """Return the messages that follow those `kept`, and the vendor's ids of the last calls."""
        turns: list[dict[str, Any]] = []
        ids = kept.ids
        for message in map(self.prepare, new):
            turn: dict[str, Any] = {"role": message.role, "content": message.content.strip()}
            if message.calls:
                turn = _restore_turn(message)
                ids = {call.id: sent["id"] for call, sent in zip(message.calls, turn["tool_calls"], strict=True)}
            elif message.role == "tool":
                turn["tool_call_id"] = ids.get(message.call_id, message.call_id)
            else:
                turn["content"] = wire_format.encode_content(message)
            if message.role == "assistant":
                for name in kept.turns_without:
                    for part in (turn, *turn.get("tool_calls", ())):
                        part.pop(name, None)
                turn |= {name: turn.get(name) or _NO_THOUGHT for name in kept.turns_want - kept.turns_without}
            turns.append(turn)
        return turns, ids

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        choices = find_objects_at(body, "choices")
        if choices:
            index = choices[0].get("index") or 0
            arriving.choice = index if arriving.choice is None else arriving.choice
            if index == arriving.choice:  # of several choices, each event of a stream has one
                self.read_choice(choices[0], arriving)
        elif not body.get("choices"):
            arriving.failed = arriving.failed or _find_error(body)
        if counted := body.get("usage"):
            arriving.count(_read_usage(counted))

    def read_choice(self, choice: Mapping[str, Any], arriving: PartialReply) -> None:
        """Add a choice with a message, or with the next piece of one, to the reply."""
        delta, message = choice.get("delta"), choice.get("message")
        inner = delta if isinstance(delta, dict) else message if isinstance(message, dict) else {}
        content = inner.get("content")
        said = map(wire_format.read_text, (choice.get("text"), content, inner.get("refusal")))
        arriving.said += next(filter(None, said), "")
        arriving.separates = arriving.separates or not isinstance(content, str | None) or any(map(inner.get, _APART))
        arriving.reasoning += wire_format.read_thoughts(content)
        _read_thoughts(inner, arriving, whole=inner is not delta)
        if calls := inner.get("tool_calls"):
            arriving.add_calls(calls, lambda at, piece: piece.get("index") if inner is delta else at)
        if isinstance(called := inner.get("function_call"), dict):  # of the time before there could be several
            arriving.add_call("function_call", called)
        arriving.end(choice.get("finish_reason"))
        if error := choice.get("error"):  # OpenRouter
            arriving.failed = error

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the thoughts and the calls, if the vendor gave anything beside what a call always has."""
        calls = arriving.list_whole_calls()
        if not arriving.turn and not any(call.extra for call in calls):
            return None
        kept: list[dict[str, Any]] = []
        for call in calls:
            arguments = call.arguments if call.given is None else json.dumps(call.given, ensure_ascii=False)
            given = {"id": call.id, "extra_content": call.extra}
            made = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
            kept.append(made | {name: value for name, value in given.items() if value})
        return {**(arriving.turn or {}), "tool_calls": kept}

    def find_refused(self, refused: ModelRefused, sent: Mapping[str, Any]) -> str:
        """Return whether it is forbidding calls that a server refuses; then the tools are left out. GLM takes only
        `auto`: https://docs.z.ai/api-reference/llm/chat-completion"""
        return _NO_CALLS if sent.get("tool_choice") == "none" and is_about_parameter(refused, "tool_choice") else ""


class Completions(Chat):
    """Texts to go on with."""

    name, path = "completions", "/completions"
    turn_fields = frozenset()

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        return super().build_parameters(terms) | {"max_tokens": _MOST if terms.max_tokens is None else terms.max_tokens}

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        return Encoded(kept.messages + b"".join([wire_format.to_json(message.content)[1:-1] for message in new]))

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        return b'%b, "prompt": "%b"}' % (head, encoded.messages)


CHAT = Chat()
COMPLETIONS = Completions(thinking=lambda terms: {})


def _restore_turn(message: Message) -> dict[str, Any]:
    """Return an assistant's turn as its vendor wrote it, as far as it wants that back."""
    turn: dict[str, Any] = {"role": message.role, "content": message.content.strip() or None}
    calls = wire_format.encode_function_calls(message.calls)
    kept = json.loads(message.state.turn) if message.state else {}
    for call, sent, made in zip(message.calls, calls, kept.pop("tool_calls", ()), strict=False):
        function = made.pop("function")
        if function["name"] == call.tool and wire_format.read_arguments(function["arguments"]) == call.tool_input:
            sent["function"] = function
        sent |= made
    return {**turn, **kept, "tool_calls": calls}


def _read_thoughts(inner: Mapping[str, Any], arriving: PartialReply, *, whole: bool) -> None:
    """Read what the vendor wants back. An empty text counts: https://github.com/craft-ai-agents/craft-agents-oss/issues/703"""
    turn, shown = arriving.turn or {}, ""
    for key in _APART:
        value = inner.get(key)
        if value is None:
            continue
        said = ""
        if key in _LISTS and isinstance(value, list):
            details = turn[key] = turn[key] if isinstance(turn.get(key), list) else []
            said = "".join([_add_detail(details, one, whole=whole) for one in find_objects_at(value)])
        elif isinstance(value, str):
            turn[key], said = find_text_at(turn, key) + value, value
        else:
            turn[key] = value
        shown = shown or said
    arriving.turn = turn or None
    arriving.reasoning += shown


def _add_detail(details: list[dict[str, Any]], piece: dict[str, Any], *, whole: bool) -> str:
    """Add an item of such a list, or the next piece of the last one, and return what may be shown of it.

    The sequence must come back as it was: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens. Only texts
    come in pieces. MiniMax sends the text so far with each:
    https://platform.minimax.io/docs/api-reference/text-openai-api
    """
    last = details[-1] if details else {}
    key = _SHOWN.get(str(piece.get("type")), "")
    said, begun = find_text_at(piece, key), find_text_at(last, key)
    names = ("type", "index", "id")
    differs = any(None not in (last.get(name), piece.get(name)) and last[name] != piece[name] for name in names)
    if whole or not key or last.get("type") != piece.get("type") or differs:
        details.append(dict(piece))
        return said
    if begun and said.startswith(begun) and str(piece.get("format")).startswith("MiniMax"):
        said = said[len(begun) :]
    last |= {name: value for name, value in piece.items() if value is not None} | {key: begun + said}
    return said


def _find_error(body: Mapping[str, Any]) -> Any:
    """Return what a body without choices gives as an error, in the form of vendors that answer it with status 200."""
    if find_json_at(body, "base_resp", "status_code"):  # MiniMax
        return body["base_resp"]
    said = [find_text_at(body, key) for key in ("message", "detail", "msg", "error_msg")]
    return body.get("errors") or (body if any(said) else "")


def _read_usage(counted: Any) -> Usage:
    """Return the tokens. xAI counts thoughts beside the reply, which shows in the total:
    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/grok/capabilities/reasoning"""
    asked, said = find_count_at(counted, "prompt_tokens"), find_count_at(counted, "completion_tokens")
    thought = find_count_at(counted, "completion_tokens_details", "reasoning_tokens")
    if thought and find_json_at(counted, "total_tokens") == asked + said + thought:
        said += thought
    cached = find_count_at(counted, "prompt_tokens_details", "cached_tokens")
    written = find_count_at(counted, "prompt_tokens_details", "cache_write_tokens")
    return Usage(asked, said, cached, 1, reasoning_tokens=thought, cache_write_tokens=written)
