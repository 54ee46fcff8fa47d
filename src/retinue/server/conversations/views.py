"""The stored and displayed form of items: content as parts, with a status."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..http.objects import Object
from .schemas import kind_of

# prefixes of item ids, by type
PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "compaction": "cmp",
}
_WITH_STATUS = (
    "message",
    "function_call",
    "function_call_output",
    "mcp_call",
    "file_search_call",
    "code_interpreter_call",
)


# fields that are shown only if `include` asks for them
_ASKED_FOR = {
    "file_search_call": ("results", "file_search_call.results"),
    "code_interpreter_call": ("outputs", "code_interpreter_call.outputs"),
    "reasoning": ("encrypted_content", "reasoning.encrypted_content"),
}


def item_view(item: Object, include: Collection[str]) -> Object:
    """Return an item without the fields that need an `include` the request lacks."""
    key, asking = _ASKED_FOR.get(item["type"], ("", ""))
    return {**item, key: None} if key in item and asking not in include else item


def stored_item(item: Mapping[str, Any]) -> Object:
    """Return a validated item in its stored form: with its type, and with its id if it had one."""
    kind = kind_of(item)
    form: Object = {name: value for name, value in item.items() if value is not None} | {"type": kind}
    if kind in _WITH_STATUS:
        form.setdefault("status", "completed")
    match kind:
        case "message":
            form["content"] = _parts(item["content"], assistant=item["role"] == "assistant")
        case "function_call_output" | "custom_tool_call_output" if not isinstance(item["output"], str):
            form["output"] = _parts(item["output"])
        case "reasoning":
            form.setdefault("summary", [])
    return form


def _parts(content: str | Sequence[Mapping[str, Any]], *, assistant: bool = False) -> list[Object]:
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return [_part(part, assistant=assistant) for part in parts]


def _part(part: Mapping[str, Any], *, assistant: bool) -> Object:
    """Convert a content part: an assistant's text is output, all other text is input, whatever type it was sent as."""
    match part["type"]:
        case "input_text" | "output_text" if assistant:
            noted = {name: part.get(name) or [] for name in ("annotations", "logprobs")}
            return {"type": "output_text", "text": part["text"], **noted}
        case "input_text" | "output_text":
            return {"type": "input_text", "text": part["text"]}
        case "refusal" if not assistant:
            return {"type": "input_text", "text": part["refusal"]}
        case "input_image":
            return {"detail": "auto", **part}
    return dict(part)
