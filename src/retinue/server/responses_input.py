"""The input of a response: as it is kept, and as a conversation for an agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .assigning import text_of
from .chat_starting import conversation
from .item_models import kind_of
from .objects import Object

SYSTEM = ("system", "developer")
_ANSWERS = ("function_call_output", "mcp_approval_response")
Items = Sequence[Mapping[str, Any]]


def as_items(given: Any) -> list[Object]:
    """The input as items, in the one form in which they are kept: without ids, contents as parts."""
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    return [_kept(one) for one in given or ()]


def _kept(item: Mapping[str, Any]) -> Object:
    kept: Object = {name: value for name, value in item.items() if value is not None and name != "id"}
    match kind_of(item):
        case "message" as kind:
            kept |= {"content": _parts(item["content"], assistant=item["role"] == "assistant"), "status": "completed"}
        case "function_call" as kind:
            kept |= {"status": "completed"}
        case "function_call_output" as kind:
            output = item["output"]
            kept |= {"output": output if isinstance(output, str) else _parts(output), "status": "completed"}
        case "reasoning" as kind:
            kept |= {"summary": item.get("summary") or []}
        case "item_reference" as kind:
            kept |= {"id": item["id"]}
        case kind:
            pass
    return {**kept, "type": kind}


def _parts(content: Any, *, assistant: bool = False) -> list[Object]:
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return [_part(part, assistant=assistant) for part in parts]


def _part(part: Mapping[str, Any], *, assistant: bool) -> Object:
    if part["type"] == "refusal" and assistant:
        return dict(part)
    if part["type"] in ("input_text", "output_text", "refusal"):
        text = part["text"] if "text" in part else part["refusal"]
        if assistant:
            return {"type": "output_text", "text": text, "annotations": part.get("annotations") or [], "logprobs": []}
        return {"type": "input_text", "text": text}
    return {"detail": "auto", **part} if part["type"] == "input_image" else dict(part)


def answers_at_the_end(items: Items) -> list[tuple[str, str]]:
    """What the last items say to calls that wait, by the calls' ids; a word on an approval as `decision` reads it."""
    answers: list[tuple[str, str]] = []
    for item in reversed(items):
        if item["type"] not in _ANSWERS:
            break
        answers.insert(0, _answer(item))
    return answers


def _answer(item: Mapping[str, Any]) -> tuple[str, str]:
    if item["type"] == "function_call_output":
        return item["call_id"], words(item["output"])
    call = f"call_{item['approval_request_id'].partition('_')[2]}"
    if item["approve"]:
        return call, "approve"
    return call, json.dumps({"decision": "reject", "message": item.get("reason") or ""})


def turns(items: Items) -> list[dict[str, str]]:
    """The items as a conversation; what came of calls is told with the question. What the server's own tools did, its
    answers tell of."""
    return conversation(list(_said(items)))


def _said(items: Items) -> Iterator[Mapping[str, Any]]:
    for item in items:
        match item["type"]:
            case "message" if item["role"] not in SYSTEM:
                yield {"role": item["role"], "content": words(item["content"])}
            case "function_call":
                call = {"id": item["call_id"], "function": {"name": item["name"], "arguments": item["arguments"]}}
                yield {"role": "assistant", "content": "", "tool_calls": [call]}
            case "function_call_output":
                yield {"role": "tool", "tool_call_id": item["call_id"], "content": words(item["output"])}


def rules(items: Items) -> list[str]:
    """What the items of the system say."""
    return [words(item["content"]) for item in items if item["type"] == "message" and item["role"] in SYSTEM]


def unanswered(items: Items) -> str | None:
    """The id of a call that an item says something to, but no item makes."""
    calls = {item["call_id"] for item in items if item["type"] == "function_call"}
    outputs = (item["call_id"] for item in items if item["type"] == "function_call_output")
    return next((call for call in outputs if call not in calls), None)


def words(content: Any) -> str:
    """The text of a content."""
    return content if isinstance(content, str) else text_of(list(map(_told, content)))


def _told(part: Mapping[str, Any]) -> Mapping[str, Any]:
    match part:
        case {"text": str() as text} | {"refusal": str() as text}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str() as url}:
            return {"type": "image_url", "image_url": {"url": url}}
    return part


def count(texts: Iterable[str]) -> int:
    """About how many tokens texts are; engines count by themselves what they are asked."""
    return sum(len(text) // 3 + 4 for text in texts)
