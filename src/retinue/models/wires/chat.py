"""OpenAI's wire formats, chat and completions, which vLLM, TGI, llama.cpp and Hugging Face speak as well."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.values import Message, Usage
from ..wire_format import (
    Encoded,
    PartialCall,
    PartialReply,
    Terms,
    Wire,
    append_messages,
    content_parts,
    function_calls,
    functions,
    json_at,
    read_arguments,
    text_of,
    text_or_empty,
    to_json,
    token_count,
    with_messages,
)

_MOST = 1024  # tokens of a completion; without a limit, servers stop after 16 or never


def _parameters(terms: Terms) -> dict[str, Any]:
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


def _completion_parameters(terms: Terms) -> dict[str, Any]:
    return _parameters(terms) | {"max_tokens": _MOST if terms.max_tokens is None else terms.max_tokens}


def _chat_parameters(terms: Terms) -> dict[str, Any]:
    parameters = _parameters(terms)
    if terms.effort:
        parameters["reasoning_effort"] = terms.effort
    if terms.verbosity:
        parameters["verbosity"] = terms.verbosity
    if terms.tools:
        parameters |= {"tools": functions(terms.tools, terms.model, terms.in_words), "tool_choice": terms.tool_choice}
    return parameters


def _messages(kept: Encoded, new: Sequence[Message]) -> Encoded:
    turns: list[dict[str, Any]] = []
    ids = kept.ids
    for message in new:
        if message.calls:
            turn = _turn_with_calls(message)
            pairs = zip(message.calls, turn["tool_calls"], strict=True)
            ids = {call.id: sent["id"] for call, sent in pairs}
            turns.append(turn)
        else:
            turns.append(_message(message, ids))
    return replace(append_messages(kept, turns), ids=ids)


def _turn_with_calls(message: Message) -> dict[str, Any]:
    """Return an assistant's turn as its vendor wrote it, as far as it wants that back."""
    turn: dict[str, Any] = {"role": message.role, "content": message.content.strip() or None}
    calls = function_calls(message.calls)
    if message.state is None:
        return turn | {"tool_calls": calls}
    kept = json.loads(message.state.turn)
    for call, sent, made in zip(message.calls, calls, kept.pop("tool_calls"), strict=False):
        is_same = (
            made["function"]["name"] == call.tool and read_arguments(made["function"]["arguments"]) == call.tool_input
        )
        sent |= made if is_same else {name: made[name] for name in made if name != "function"}
    return {**turn, **kept, "tool_calls": calls}


def _message(message: Message, ids: Mapping[str, str]) -> dict[str, Any]:
    content = message.content.strip()
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": ids.get(message.call_id, message.call_id), "content": content}
    return {"role": message.role, "content": content_parts(message) if message.images else content}


def _text(kept: Encoded, new: Sequence[Message]) -> Encoded:
    return Encoded(kept.messages + b"".join([to_json(message.content)[1:-1] for message in new]))


def _with_text(head: bytes, encoded: Encoded) -> bytes:
    return b'%b, "prompt": "%b"}' % (head, encoded.messages)


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


_APART = ("reasoning_content", "reasoning", "reasoning_details")  # where engines send thoughts
_TEXTS = ("reasoning_content", "reasoning")  # those that are texts, in the order of preference


def _read(body: Mapping[str, Any], arriving: PartialReply) -> None:
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        index = choices[0].get("index") or 0
        arriving.choice = index if arriving.choice is None else arriving.choice
        if index == arriving.choice:  # of several choices, each event of a stream has one
            _read_choice(choices[0], arriving)
    elif not choices:
        arriving.failed = arriving.failed or _error_in(body)
    if counted := body.get("usage"):
        arriving.usage = _usage(counted)
        arriving.counted = True


def _read_choice(choice: Mapping[str, Any], arriving: PartialReply) -> None:
    delta, message = choice.get("delta"), choice.get("message")
    inner = delta if isinstance(delta, dict) else message if isinstance(message, dict) else {}
    content = inner.get("content")
    arriving.said += text_of(choice.get("text")) or text_of(content) or text_of(inner.get("refusal"))
    arriving.separates = arriving.separates or not isinstance(content, str | None) or any(map(inner.get, _APART))
    _read_thoughts(inner, arriving)
    if calls := inner.get("tool_calls"):
        arriving.add_calls(calls, _index if inner is delta else _place)
    if isinstance(called := inner.get("function_call"), dict):  # of the time before there could be several
        arriving.add_call("function_call", called)
    arriving.end(choice.get("finish_reason"))
    if error := choice.get("error"):  # OpenRouter
        arriving.failed = error


def _read_thoughts(inner: Mapping[str, Any], arriving: PartialReply) -> None:
    pieces = {key: text for key in _TEXTS if (text := text_or_empty(inner.get(key)))}
    arriving.reasoning += next(iter(pieces.values()), "")
    if pieces:
        turn: dict[str, str] = arriving.turn or {}
        arriving.turn = turn | {key: turn.get(key, "") + text for key, text in pieces.items()}


def _kept_turn(arriving: PartialReply) -> Any:
    """Return the thoughts and the calls, if the vendor gave anything beside what a call always has."""
    calls = arriving.whole_calls()
    if not arriving.turn and not any(call.extra for call in calls):
        return None
    return {**(arriving.turn or {}), "tool_calls": [_kept_call(call) for call in calls]}


def _kept_call(call: PartialCall) -> dict[str, Any]:
    arguments = call.arguments if call.given is None else json.dumps(call.given, ensure_ascii=False)
    made: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    made |= {"id": call.id} if call.id else {}
    return made | {"extra_content": call.extra} if call.extra else made


def _error_in(body: Mapping[str, Any]) -> Any:
    """Return what a body without choices gives as an error, in the form of vendors that answer it with status 200."""
    outcome = body.get("base_resp")  # MiniMax
    if isinstance(outcome, dict) and outcome.get("status_code"):
        return outcome
    said = [body.get(key) for key in ("message", "detail", "msg", "error_msg")]
    return body.get("errors") or (body if any(isinstance(one, str) and one for one in said) else "")


def _index(_: int, piece: Any) -> Any:
    return piece.get("index")


def _place(at: int, _: Any) -> Any:
    return at


def _usage(counted: Any) -> Usage:
    """Return the tokens. xAI counts thoughts beside the reply, which shows in the total:
    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/grok/capabilities/reasoning"""
    asked, said = token_count(json_at(counted, "prompt_tokens")), token_count(json_at(counted, "completion_tokens"))
    cached = token_count(json_at(counted, "prompt_tokens_details", "cached_tokens"))
    written = token_count(json_at(counted, "prompt_tokens_details", "cache_write_tokens"))
    thought = token_count(json_at(counted, "completion_tokens_details", "reasoning_tokens"))
    if thought and json_at(counted, "total_tokens") == asked + said + thought:
        said += thought
    return Usage(asked, said, cached, 1, reasoning_tokens=thought, cache_write_tokens=written)


_DISPENSABLE = frozenset(
    (
        *("stop", "temperature", "stream_options", "response_format", "structured_outputs", "grammar", "max_tokens"),
        *("parallel_tool_calls", "reasoning_effort", "verbosity"),
    )
)
CHAT = Wire(
    "chat", "/chat/completions", _chat_parameters, _messages, with_messages, _read, _DISPENSABLE, keep=_kept_turn
)
COMPLETIONS = Wire("completions", "/completions", _completion_parameters, _text, _with_text, _read, _DISPENSABLE)
