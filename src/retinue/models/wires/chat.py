"""OpenAI's wire formats, chat and completions, which most vendors and servers speak as well.

What of a reply with calls is beside its text comes back in the next request as it was: `reasoning_content` (DeepSeek,
Kimi, GLM, Qwen, Fireworks), `reasoning` (vLLM, Groq, Cerebras, Together), `reasoning_details` (OpenRouter, MiniMax) and
the `extra_content` of calls (Gemini).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.values import Message, Usage
from ...errors import ModelRefused, UsageError
from ...net.error_mapping import is_about_parameter
from ..wire_format import (
    Encoded,
    PartialCall,
    PartialReply,
    Terms,
    Wire,
    append_messages,
    encode_content,
    encode_function_calls,
    encode_functions,
    find_json_at,
    read_arguments,
    read_text,
    read_text_or_empty,
    read_thoughts,
    read_token_count,
    to_json,
)

_NO_CALLS = "tool_choice.none"
_TEXTS = ("reasoning_content", "reasoning")  # where engines send thoughts, in the order of preference
_LISTS = ("reasoning_details", "thinking_blocks")  # of OpenRouter, and of LiteLLM for Anthropic's models
_APART = (*_TEXTS, *_LISTS)
_MOST = 1024  # tokens of a completion; without a limit, servers stop after 16 or never


def encode_openai_thinking(terms: Terms) -> dict[str, Any]:
    """Return how much to think, in OpenAI's words. Raises `UsageError` for a number of tokens, which has none."""
    if terms.thinking_tokens is not None:
        raise UsageError(
            f"thinking_tokens: {terms.model or 'this server'} takes no number of tokens; set `effort` instead, or use"
            " the server's own parameter in `options`"
        )
    thinking = {"reasoning_effort": terms.effort} if terms.effort else {}
    return thinking | ({"verbosity": terms.verbosity} if terms.verbosity else {})


class _ChatOrText(Wire):
    """What conversations and texts have in common."""

    dispensable = frozenset(
        (
            *("stop", "temperature", "stream_options", "response_format", "structured_outputs", "grammar"),
            *("max_tokens", "parallel_tool_calls", "reasoning_split"),
        )
    )

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters: dict[str, Any] = {"model": terms.model}
        if terms.temperature is not None:
            parameters["temperature"] = terms.temperature
        if terms.max_tokens is not None:
            parameters["max_tokens"] = terms.max_tokens
        if terms.stop:
            parameters["stop"] = list(terms.stop)
        if terms.stream:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
        return parameters

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        choices = body.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            index = choices[0].get("index") or 0
            arriving.choice = index if arriving.choice is None else arriving.choice
            if index == arriving.choice:  # of several choices, each event of a stream has one
                _read_choice(choices[0], arriving)
        elif not choices:
            arriving.failed = arriving.failed or _find_error(body)
        if counted := body.get("usage"):
            arriving.usage = _read_usage(counted)
            arriving.counted = True


class Chat(_ChatOrText):
    """Conversations. `thinking` returns the parameters of how much to think, and `prepare` changes a message."""

    name, path = "chat", "/chat/completions"
    turn_fields = frozenset((*_APART, "extra_content"))

    def __init__(
        self,
        thinking: Callable[[Terms], dict[str, Any]] = encode_openai_thinking,
        prepare: Callable[[Message], Message] | None = None,
    ) -> None:
        self.thinking = thinking
        self.prepare = prepare

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters = super().build_parameters(terms) | self.thinking(terms)
        if terms.tools and not (terms.tool_choice == "none" and _NO_CALLS in terms.without):
            parameters |= {
                "tools": encode_functions(terms.tools, terms.model, terms.in_words),
                "tool_choice": terms.tool_choice,
            }
        return parameters

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        turns, ids = self.encode_turns(kept, new)
        return replace(append_messages(kept, turns), ids=ids)

    def encode_turns(self, kept: Encoded, new: Sequence[Message]) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
        """Return the messages that follow those `kept`, and the vendor's ids of the last calls."""
        turns: list[dict[str, Any]] = []
        ids = kept.ids
        for message in map(self.prepare, new) if self.prepare else new:
            turn = _restore_turn(message) if message.calls else _encode_message(message, ids)
            if message.calls:
                ids = {call.id: sent["id"] for call, sent in zip(message.calls, turn["tool_calls"], strict=True)}
            if message.role == "assistant":
                _leave_out(turn, kept.turns_without)
                turn |= {name: turn.get(name) or _NO_THOUGHT for name in kept.turns_want - kept.turns_without}
            turns.append(turn)
        return turns, ids

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the thoughts and the calls, if the vendor gave anything beside what a call always has."""
        calls = arriving.list_whole_calls()
        if not arriving.turn and not any(call.extra for call in calls):
            return None
        return {**(arriving.turn or {}), "tool_calls": [_keep_call(call) for call in calls]}

    def find_refused(self, refused: ModelRefused, sent: Mapping[str, Any]) -> str:
        """Return whether it is forbidding calls that a server refuses; then the tools are left out. GLM takes only
        `auto`: https://docs.z.ai/api-reference/llm/chat-completion"""
        return _NO_CALLS if sent.get("tool_choice") == "none" and is_about_parameter(refused, "tool_choice") else ""


CHAT = Chat()


class Completions(_ChatOrText):
    """Texts to go on with."""

    name, path = "completions", "/completions"

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        return super().build_parameters(terms) | {"max_tokens": _MOST if terms.max_tokens is None else terms.max_tokens}

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        return Encoded(kept.messages + b"".join([to_json(message.content)[1:-1] for message in new]))

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        return b'%b, "prompt": "%b"}' % (head, encoded.messages)


COMPLETIONS = Completions()


def _leave_out(turn: dict[str, Any], names: Collection[str]) -> None:
    for part in (turn, *turn.get("tool_calls", ())) if names else ():
        for name in names:
            part.pop(name, None)


def _restore_turn(message: Message) -> dict[str, Any]:
    """Return an assistant's turn as its vendor wrote it, as far as it wants that back."""
    turn: dict[str, Any] = {"role": message.role, "content": message.content.strip() or None}
    calls = encode_function_calls(message.calls)
    if message.state is None:
        return turn | {"tool_calls": calls}
    kept = json.loads(message.state.turn)
    for call, sent, made in zip(message.calls, calls, kept.pop("tool_calls"), strict=False):
        is_same = (
            made["function"]["name"] == call.tool and read_arguments(made["function"]["arguments"]) == call.tool_input
        )
        sent |= made if is_same else {name: made[name] for name in made if name != "function"}
    return {**turn, **kept, "tool_calls": calls}


def _encode_message(message: Message, ids: Mapping[str, str]) -> dict[str, Any]:
    content = message.content.strip()
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": ids.get(message.call_id, message.call_id), "content": content}
    return {"role": message.role, "content": encode_content(message) if message.files else content}


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


_SHOWN = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}  # of the types in these
_NO_THOUGHT = " "
"""For a turn of another vendor, or of a person. Kimi wants any text; DeepSeek refuses an empty one and takes this:
https://github.com/NousResearch/hermes-agent/pull/18263"""


def _read_choice(choice: Mapping[str, Any], arriving: PartialReply) -> None:
    delta, message = choice.get("delta"), choice.get("message")
    inner = delta if isinstance(delta, dict) else message if isinstance(message, dict) else {}
    content = inner.get("content")
    arriving.said += read_text(choice.get("text")) or read_text(content) or read_text(inner.get("refusal"))
    arriving.separates = arriving.separates or not isinstance(content, str | None) or any(map(inner.get, _APART))
    arriving.reasoning += read_thoughts(content)
    _read_thoughts(inner, arriving, whole=inner is not delta)
    if calls := inner.get("tool_calls"):
        arriving.add_calls(calls, _get_index if inner is delta else _get_place)
    if isinstance(called := inner.get("function_call"), dict):  # of the time before there could be several
        arriving.add_call("function_call", called)
    arriving.end(choice.get("finish_reason"))
    if error := choice.get("error"):  # OpenRouter
        arriving.failed = error


def _read_thoughts(inner: Mapping[str, Any], arriving: PartialReply, *, whole: bool) -> None:
    """Read what the vendor wants back. An empty text counts: https://github.com/craft-ai-agents/craft-agents-oss/issues/703"""
    found = {key: inner[key] for key in _APART if inner.get(key) is not None}
    if not found:
        return
    turn = arriving.turn = arriving.turn or {}
    shown = ""
    for key, value in found.items():
        if key in _LISTS and isinstance(value, list):
            details = turn[key] = turn[key] if isinstance(turn.get(key), list) else []
            said = "".join([_add_detail(details, one, whole=whole) for one in value if isinstance(one, dict)])
        elif isinstance(value, str):
            turn[key], said = read_text_or_empty(turn.get(key)) + value, value
        else:
            turn[key], said = value, ""
        shown = shown or said
    arriving.reasoning += shown


def _add_detail(details: list[dict[str, Any]], piece: dict[str, Any], *, whole: bool) -> str:
    """Add an item of such a list, or the next piece of the last one, and return what may be shown of it.

    The sequence must come back as it was: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens. Only texts
    come in pieces. MiniMax sends the text so far with each:
    https://platform.minimax.io/docs/api-reference/text-openai-api
    """
    last = details[-1] if details else {}
    key = _SHOWN.get(str(piece.get("type")), "")
    said = read_text_or_empty(piece.get(key))
    names = ("type", "index", "id")
    differs = any(None not in (last.get(name), piece.get(name)) and last[name] != piece[name] for name in names)
    if whole or not key or not last or last.get("type") != piece.get("type") or differs:
        details.append(dict(piece))
        return said
    begun = read_text_or_empty(last.get(key))
    if begun and said.startswith(begun) and str(piece.get("format")).startswith("MiniMax"):
        said = said[len(begun) :]
    last |= {name: value for name, value in piece.items() if value is not None} | {key: begun + said}
    return said


def _keep_call(call: PartialCall) -> dict[str, Any]:
    arguments = call.arguments if call.given is None else json.dumps(call.given, ensure_ascii=False)
    made: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    made |= {"id": call.id} if call.id else {}
    return made | {"extra_content": call.extra} if call.extra else made


def _find_error(body: Mapping[str, Any]) -> Any:
    """Return what a body without choices gives as an error, in the form of vendors that answer it with status 200."""
    outcome = body.get("base_resp")  # MiniMax
    if isinstance(outcome, dict) and outcome.get("status_code"):
        return outcome
    said = [body.get(key) for key in ("message", "detail", "msg", "error_msg")]
    return body.get("errors") or (body if any(isinstance(one, str) and one for one in said) else "")


def _get_index(_: int, piece: Any) -> Any:
    return piece.get("index")


def _get_place(at: int, _: Any) -> Any:
    return at


def _read_usage(counted: Any) -> Usage:
    """Return the tokens. xAI counts thoughts beside the reply, which shows in the total:
    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/grok/capabilities/reasoning"""
    asked, said = (
        read_token_count(find_json_at(counted, "prompt_tokens")),
        read_token_count(find_json_at(counted, "completion_tokens")),
    )
    cached = read_token_count(find_json_at(counted, "prompt_tokens_details", "cached_tokens"))
    written = read_token_count(find_json_at(counted, "prompt_tokens_details", "cache_write_tokens"))
    thought = read_token_count(find_json_at(counted, "completion_tokens_details", "reasoning_tokens"))
    if thought and find_json_at(counted, "total_tokens") == asked + said + thought:
        said += thought
    return Usage(asked, said, cached, 1, reasoning_tokens=thought, cache_write_tokens=written)
