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

from ...core.values import AgentAction, Message, Usage
from .. import wire_format
from ..schemas import declare_tool
from ..wire_format import Encoded, PartialReply, Terms, find_count_at, find_json_at, find_objects_at, find_text_at

_LEAST = 16  # tokens: https://github.com/vectorize-io/hindsight/issues/58
_MAX_ID = 64  # characters: https://github.com/RooCodeInc/Roo-Code/pull/10763
_SAMPLED = ("temperature", "top_p", "parallel_tool_calls", "user", "safety_identifier", "prompt_cache_key")


class Responses(wire_format.Wire):
    """The Responses API."""

    name, path = "responses", "/responses"
    dispensable = frozenset(("include", "stream", "text.format", "parallel_tool_calls", "reasoning.summary"))
    sampling = {name: name for name in _SAMPLED}
    results_have_files = True

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters = wire_format.select_given(
            model=terms.model,
            store=False,
            include=["reasoning.encrypted_content"],
            stream=terms.stream or None,
            temperature=terms.temperature,
            max_output_tokens=None if terms.max_tokens is None else max(terms.max_tokens, _LEAST),
            reasoning=wire_format.select_given(effort=terms.effort or None, summary=terms.summary or None) or None,
            text={"verbosity": terms.verbosity} if terms.verbosity else None,
        )
        if terms.tools:
            # By default a schema would be made strict, so that optional arguments became required:
            # https://developers.openai.com/api/docs/guides/migrate-to-responses
            declared = [declare_tool(tool, terms.model, terms.in_words) for tool in terms.tools]
            parameters["tools"] = [{"type": "function", "strict": False, **one} for one in declared]
            parameters["tool_choice"] = terms.tool_choice
        return parameters

    def add_options(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return wire_format.merge_options(parameters, options, ("tools", "include"))

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
        return replace(wire_format.append_messages(kept, items), ids=ids)

    def write_body(self, head: bytes, encoded: Encoded) -> bytes:
        return b'%b, "input": [%b]}' % (head, encoded.messages)

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        turn: _Turn = arriving.turn or _Turn()
        arriving.turn = turn
        delta = find_text_at(body, "delta")
        match body.get("type"):
            case "response.output_item.added" if find_json_at(body, "item", "type") == "message":
                turn.comments = find_json_at(body, "item", "phase") == "commentary"
            case "response.output_text.delta" | "response.refusal.delta":
                turn.add_text(delta, arriving)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                turn.add_thought(delta, body.get("summary_index", 0), arriving)
            case "response.output_item.done":
                turn.add_item(body.get("item"), arriving)
            case "response.completed" | "response.incomplete" | "response.failed":
                turn.end(body.get("response"), arriving)
            case "error":
                arriving.failed = {name: body[name] for name in body if name != "type"}
            case None if body.get("object") == "response" or "output" in body:
                turn.end(body, arriving)

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return the items of the turn that can be sent back.

        A call that was cut off is left out. So is reasoning without its content, which only a server that stores it
        knows ("Items are not persisted when `store` is set to false",
        https://github.com/langchain-ai/langchain/pull/38372), and with it the ids by which the other items refer to it.
        """
        whole = [call.id for call in arriving.list_whole_calls()]
        known, has_unknown = list[dict[str, Any]](), False
        for item in arriving.turn.items:
            if item.get("type") == "reasoning" and not (item.get("encrypted_content") or item.get("content")):
                has_unknown = True
            elif item.get("type") != "function_call" or item.get("call_id", "") in whole:
                known.append(item)
        if has_unknown:
            known = [{name: item[name] for name in item if name != "id"} for item in known]
        return _drop_last_reasoning(known)


RESPONSES = Responses()


def _encode_content(message: Message) -> str | list[dict[str, Any]]:
    """Return what is in a message or in a tool's result: its text, or parts.

    https://platform.openai.com/docs/guides/pdf-files, and the SDK's `ResponseInputAudioParam`.
    """
    text = message.content.strip()
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": text}] if text else []
    for file in message.files:
        if file.kind == "pdf":
            parts.append({"type": "input_file", **wire_format.encode_pdf(file)})
        elif file.kind == "audio":
            parts.append(wire_format.encode_audio(file))
        else:
            url = wire_format.encode_data_url(file)
            parts.append({"type": "input_image", "image_url": url, "detail": file.detail})
    return parts if message.files else text


def _encode_call(call: AgentAction) -> dict[str, Any]:
    arguments = wire_format.encode_arguments(call)
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
    made = _find_calls(items)
    for call, item in zip(message.calls, made, strict=False):
        if (
            item.get("name") != call.tool
            or wire_format.read_arguments(find_text_at(item, "arguments")) != call.tool_input
        ):
            item |= {"name": call.tool, "arguments": wire_format.encode_arguments(call)}
            item.pop("id", None)  # which is that of the item as it was
        item["call_id"] = item.get("call_id") or call.id
    return [*items, *map(_encode_call, message.calls[len(made) :])]


def _find_calls(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in items if item.get("type") == "function_call"]


def _drop_last_reasoning(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items without reasoning at their end: "Item 'rs_…' of type 'reasoning' was provided without its
    required following item", https://github.com/openai/openai-node/issues/1567."""
    while items and items[-1].get("type") == "reasoning":
        items = items[:-1]
    return items


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

    def add_text(self, text: str, arriving: PartialReply) -> None:
        """Pass on the text of a message. A commentary is what is said beside calls; before an answer, it is reasoning.

        https://developers.openai.com/api/docs/guides/deployment-checklist#set-up-the-assistant-phase-parameter
        """
        is_next, self.in_text = not self.in_text, True
        if self.comments:
            self.aside += f"\n\n{text}" if is_next and self.aside else text
            return
        if self.aside:
            self.add_thought(self.aside, "aside", arriving)
            self.aside, self.part = "", None
        arriving.said += f"\n\n{text}" if is_next and self.has_text else text
        self.has_text = True

    def add_thought(self, text: str, part: Any, arriving: PartialReply) -> None:
        """Pass on what may be shown of the model's thoughts, of which this is a `part`."""
        arriving.add_thought(f"\n\n{text}" if part != self.part and self.has_thoughts else text)
        self.part, self.has_thoughts = part, True

    def add_item(self, item: Any, arriving: PartialReply) -> None:
        """Take an item that is whole, or that will not go on. Of what was streamed, it has nothing new."""
        if not isinstance(item, dict):
            return
        self.items.append(item)
        match item.get("type"):
            case "message":
                if not self.in_text:
                    self.comments = item.get("phase") == "commentary"
                    self.add_text(wire_format.read_text(item.get("content")), arriving)
                self.in_text = self.comments = False
            case "function_call":
                arriving.add_call(None, {**item, "id": item.get("call_id")}, arriving.calls.values())
            case "reasoning":
                thoughts = item.get("summary") or item.get("content")
                for number, part in enumerate(find_objects_at(thoughts) if self.part is None else ()):
                    self.add_thought(find_text_at(part, "text"), number, arriving)
                arriving.separates, self.part = True, None

    def end(self, response: Any, arriving: PartialReply) -> None:
        """Take the whole response, which repeats the items that were streamed."""
        items = find_objects_at(response, "output")
        streamed = [str(item.get("type")) for item in self.items]
        in_order = items if len(items) > len(self.items) else self.items
        for item in items:  # of a kind, those come first that were streamed to their end
            if (kind := str(item.get("type"))) in streamed:
                streamed.remove(kind)
            else:
                self.add_item(item, arriving)
        self.items = in_order
        if arriving.calls or not self.has_text:
            arriving.said += f"\n\n{self.aside}" if self.aside and self.has_text else self.aside
        if counted := find_json_at(response, "usage"):
            arriving.count(_read_usage(counted))
        status = find_json_at(response, "status") or "completed"
        if status in ("completed", "incomplete"):
            reason = "max_output_tokens" if status == "incomplete" else "stop"
            arriving.end(find_json_at(response, "incomplete_details", "reason") or reason)
        else:
            arriving.failed = find_json_at(response, "error") or f"the response is {status}"


def _read_usage(counted: Any) -> Usage:
    return Usage(
        find_count_at(counted, "input_tokens"),
        find_count_at(counted, "output_tokens"),
        find_count_at(counted, "input_tokens_details", "cached_tokens"),
        1,
        reasoning_tokens=find_count_at(counted, "output_tokens_details", "reasoning_tokens"),
        cache_write_tokens=find_count_at(counted, "input_tokens_details", "cache_write_tokens"),
    )
