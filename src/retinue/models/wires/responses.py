"""OpenAI's Responses API, without anything stored at the vendor: each request carries the whole conversation.

https://developers.openai.com/api/docs/guides/reasoning (reasoning items are sent back with what followed them)
https://developers.openai.com/api/docs/api-reference/responses
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from ...core.tools.tool import Tool
from ...core.values import AgentAction, File, Message, Usage
from ..tool_schemas import declare_tool
from ..wire_format import (
    Encoded,
    PartialReply,
    Terms,
    Wire,
    append_messages,
    choose_file_name,
    encode_audio,
    encode_data_url,
    find_json_at,
    merge_options,
    merge_parameters,
    parse_input_object,
    read_arguments,
    read_text,
    read_text_or_empty,
    read_token_count,
)

_LEAST = 16  # tokens: https://github.com/vectorize-io/hindsight/issues/58
_MAX_ID = 64  # characters: https://github.com/RooCodeInc/Roo-Code/pull/10763
_ENCRYPTED = "reasoning.encrypted_content"
_SAMPLED = frozenset(("temperature", "top_p", "parallel_tool_calls", "user", "safety_identifier", "prompt_cache_key"))


class Responses(Wire):
    """The Responses API."""

    name, path = "responses", "/responses"
    dispensable = frozenset(("include", "stream", "text.format", "parallel_tool_calls", "reasoning.summary"))
    results_have_files = True

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters: dict[str, Any] = {"model": terms.model, "store": False, "include": [_ENCRYPTED]}
        if terms.stream:
            parameters["stream"] = True
        if terms.temperature is not None:
            parameters["temperature"] = terms.temperature
        if terms.max_tokens is not None:
            parameters["max_output_tokens"] = max(terms.max_tokens, _LEAST)
        asked = {"effort": terms.effort, "summary": terms.summary}
        if reasoning := {name: value for name, value in asked.items() if value}:
            parameters["reasoning"] = reasoning
        if terms.verbosity:
            parameters["text"] = {"verbosity": terms.verbosity}
        if terms.tools:
            tools = [_declare(tool, terms) for tool in terms.tools]
            parameters |= {"tools": tools, "tool_choice": terms.tool_choice}
        return parameters

    def add_options(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return merge_options(parameters, options, ("tools", "include"))

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return merge_parameters(parameters, {name: options[name] for name in _SAMPLED & set(options)})

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        items: list[dict[str, Any]] = []
        ids = kept.ids
        for message in new:
            content = _encode_content(message)
            if message.role == "tool":
                call_id = ids.get(message.call_id) or _shorten_id(message.call_id)
                items.append({"type": "function_call_output", "call_id": call_id, "output": content})
            elif message.calls and message.state:
                turn = _restore_turn(message)
                items += turn
                ids = {call.id: item["call_id"] for call, item in zip(message.calls, _find_calls(turn), strict=False)}
            else:
                if content or not message.calls:
                    items.append({"role": message.role, "content": content})
                items += map(_encode_call, message.calls)
                ids = {} if message.calls else ids
        return replace(append_messages(kept, items), ids=ids)

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        return b'%b, "input": [%b]}' % (head, encoded.messages)

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        turn: _Turn = arriving.turn or _Turn()
        arriving.turn = turn
        delta = read_text_or_empty(body.get("delta"))
        match body.get("type"):
            case "response.output_item.added" if find_json_at(body, "item", "type") == "message":
                turn.comments = find_json_at(body, "item", "phase") == "commentary"
            case "response.output_text.delta" | "response.refusal.delta":
                _add_text(delta, arriving, turn)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                _add_thought(delta, body.get("summary_index", 0), arriving, turn)
            case "response.output_item.done":
                _add_item(body.get("item"), arriving, turn)
            case "response.completed" | "response.incomplete" | "response.failed":
                _read_end(body.get("response"), arriving, turn)
            case "error":
                arriving.failed = {name: body[name] for name in body if name != "type"}
            case None if body.get("object") == "response" or "output" in body:
                _read_end(body, arriving, turn)

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the items of the turn that can be sent back.

        A call that was cut off is left out. So is reasoning without its content, which only a server that stores it
        knows ("Items are not persisted when `store` is set to false",
        https://github.com/langchain-ai/langchain/pull/38372), and with it the ids by which the other items refer to it.
        """
        turn: _Turn = arriving.turn
        whole = [call.id for call in arriving.list_whole_calls()]
        items = [item for item in turn.items if item.get("type") != "function_call" or item.get("call_id", "") in whole]
        known = [
            item
            for item in items
            if item.get("type") != "reasoning" or item.get("encrypted_content") or item.get("content")
        ]
        if len(known) < len(items):
            known = [{name: item[name] for name in item if name != "id"} for item in known]
        return _drop_last_reasoning(known)


RESPONSES = Responses()


def _declare(tool: Tool, terms: Terms) -> dict[str, Any]:
    """Describe a tool. By default its schema would be made strict, so that optional arguments became
    required: https://developers.openai.com/api/docs/guides/migrate-to-responses."""
    return {"type": "function", "strict": False, **declare_tool(tool, terms.model, terms.in_words)}


# ── the conversation ─────────────────────────────────────────────────────────────────────────────


def _encode_content(message: Message) -> str | list[dict[str, Any]]:
    """Return what is in a message or in a tool's result: its text, or parts."""
    text = message.content.strip()
    if not message.files:
        return text
    files = list(map(_encode_file, message.files))
    return [{"type": "input_text", "text": text}, *files] if text else files


def _encode_file(file: File) -> dict[str, Any]:
    """https://platform.openai.com/docs/guides/pdf-files, and the SDK's `ResponseInputAudioParam`."""
    match file.kind:
        case "pdf":
            return {"type": "input_file", "filename": choose_file_name(file), "file_data": encode_data_url(file)}
        case "audio":
            return {"type": "input_audio", "input_audio": encode_audio(file)}
    return {"type": "input_image", "image_url": encode_data_url(file), "detail": file.detail}


def _encode_call(call: AgentAction) -> dict[str, Any]:
    arguments = json.dumps(parse_input_object(call.tool_input), ensure_ascii=False)
    return {"type": "function_call", "call_id": _shorten_id(call.id), "name": call.tool, "arguments": arguments}


def _shorten_id(id: str) -> str:  # noqa: A002
    """Return a call's id as OpenAI takes it; those of other vendors and of clients may be longer."""
    return id if len(id) <= _MAX_ID else f"call_{sha256(id.encode()).hexdigest()[:48]}"


def _restore_turn(message: Message) -> list[dict[str, Any]]:
    """Return an assistant's turn as the model wrote it, up to the last of its calls that was taken.

    A call that was repaired, or edited by a person, is sent as it was made. What follows the last call is left out with
    the calls not taken, as reasoning must be followed by what it led to.
    """
    items: list[dict[str, Any]] = json.loads(message.state.turn if message.state else "[]")
    if not_taken := _find_calls(items)[len(message.calls) :]:
        items = _drop_last_reasoning(items[: items.index(not_taken[0])])
    for call, item in zip(message.calls, _find_calls(items), strict=False):
        arguments = read_text_or_empty(item.get("arguments"))
        if item.get("name") != call.tool or read_arguments(arguments) != call.tool_input:
            item |= {"name": call.tool, "arguments": _encode_call(call)["arguments"]}
            item.pop("id", None)  # which is that of the item as it was
        item["call_id"] = item.get("call_id") or call.id
    return [*items, *map(_encode_call, message.calls[len(_find_calls(items)) :])]


def _find_calls(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in items if item.get("type") == "function_call"]


def _drop_last_reasoning(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items without reasoning at their end: "Item 'rs_…' of type 'reasoning' was provided without its
    required following item", https://github.com/openai/openai-node/issues/1567."""
    kept = list(items)
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    return kept


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Turn:
    """The items that have arrived, and where the reply is.

    `in_text`, `part`: a part of the message, or which part of the thoughts, that arrives was passed on. `comments`: the
    message is a commentary, and `aside` is what the last of them say. `has_text`, `has_thoughts`: there were some.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    in_text: bool = False
    part: Any = None
    comments: bool = False
    aside: str = ""
    has_text: bool = False
    has_thoughts: bool = False


def _add_text(text: str, arriving: PartialReply, turn: _Turn) -> None:
    """Pass on the text of a message. A commentary is what is said beside calls; before an answer, it is reasoning.

    https://developers.openai.com/api/docs/guides/deployment-checklist#set-up-the-assistant-phase-parameter
    """
    is_next, turn.in_text = not turn.in_text, True
    if turn.comments:
        turn.aside += f"\n\n{text}" if is_next and turn.aside else text
        return
    if turn.aside:
        _add_thought(turn.aside, "aside", arriving, turn)
        turn.aside, turn.part = "", None
    arriving.said += f"\n\n{text}" if is_next and turn.has_text else text
    turn.has_text = True


def _add_thought(text: str, part: Any, arriving: PartialReply, turn: _Turn) -> None:
    """Pass on what may be shown of the model's thoughts, of which this is a `part`."""
    arriving.reasoning += f"\n\n{text}" if part != turn.part and turn.has_thoughts else text
    turn.part, arriving.separates, turn.has_thoughts = part, True, True


def _add_item(item: Any, arriving: PartialReply, turn: _Turn) -> None:
    """Take an item that is whole, or that will not go on. Of what was streamed, it has nothing new."""
    if not isinstance(item, dict):
        return
    turn.items.append(item)
    match item.get("type"):
        case "message":
            if not turn.in_text:
                turn.comments = item.get("phase") == "commentary"
                _add_text(read_text(item.get("content")), arriving, turn)
            turn.in_text = turn.comments = False
        case "function_call":
            piece = {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")}
            arriving.add_call(None, piece, arriving.calls.values())
        case "reasoning":
            thoughts = item.get("summary") or item.get("content")
            for number, part in enumerate(thoughts if isinstance(thoughts, list) and turn.part is None else ()):
                _add_thought(read_text_or_empty(find_json_at(part, "text")), number, arriving, turn)
            arriving.separates, turn.part = True, None


def _read_end(response: Any, arriving: PartialReply, turn: _Turn) -> None:
    output = find_json_at(response, "output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    streamed = [str(item.get("type")) for item in turn.items]
    in_order = items if len(items) > len(turn.items) else turn.items
    for item in items:  # of a kind, those come first that were streamed to their end
        if (kind := str(item.get("type"))) in streamed:
            streamed.remove(kind)
        else:
            _add_item(item, arriving, turn)
    turn.items = in_order
    if arriving.calls or not turn.has_text:
        arriving.said += f"\n\n{turn.aside}" if turn.aside and turn.has_text else turn.aside
    if counted := find_json_at(response, "usage"):
        arriving.usage = _read_usage(counted)
        arriving.counted = True
    status = find_json_at(response, "status") or "completed"
    if status in ("completed", "incomplete"):
        is_cut = status == "incomplete"
        arriving.end(
            find_json_at(response, "incomplete_details", "reason") or ("max_output_tokens" if is_cut else "stop")
        )
    else:
        arriving.failed = find_json_at(response, "error") or f"the response is {status}"


def _read_usage(counted: Any) -> Usage:
    return Usage(
        read_token_count(find_json_at(counted, "input_tokens")),
        read_token_count(find_json_at(counted, "output_tokens")),
        read_token_count(find_json_at(counted, "input_tokens_details", "cached_tokens")),
        1,
        reasoning_tokens=read_token_count(find_json_at(counted, "output_tokens_details", "reasoning_tokens")),
        cache_write_tokens=read_token_count(find_json_at(counted, "input_tokens_details", "cache_write_tokens")),
    )
