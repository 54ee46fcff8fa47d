"""Converts the result of a tool call to the text that a model reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ..core.file_format import read_file
from ..core.result_text import take_file
from ..errors import DataError, ToolError

MAX_RESULT = 1024 * 1024  # bytes
_MOST = 500  # characters of a part of an unknown type


def result_text(result: Mapping[str, Any]) -> str:
    """Return the text of a server's result, with notes in place of other content. Raises `ToolError` if the result is
    an error, none at all, or larger than 1 MiB."""
    if result.get("resultType", "complete") != "complete":
        raise ToolError(
            "it requires input from a person in the middle of the call (elicitation), which is not supported"
        )
    parts, structured = result.get("content"), result.get("structuredContent")
    if not isinstance(parts, list | str) and structured is None:
        raise ToolError("it answered what is no result of a tool: want a list as its content")
    text = "\n".join(map(_part, [parts] if isinstance(parts, str) else parts or ()))
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
    if len(text.encode(errors="replace")) > MAX_RESULT:
        raise ToolError(f"the result is larger than {MAX_RESULT:,} bytes")
    if result.get("isError"):
        raise ToolError(text or "it failed and does not say why")
    return text


def _file(data: str, uri: str, media_type: Any) -> str:
    """Take a file for the model, or tell of it if models read none such, whatever it is said to be."""
    try:
        content = base64.b64decode(data, validate=True)
        read_file(content)
    except (ValueError, DataError):
        return f"({uri or 'a file'}, {media_type}, {len(data) * 3 // 4:,} bytes: not shown)"
    return take_file(content, uri.rpartition("/")[2][:100])


def _part(part: Any) -> str:
    match part:
        case str(text) | {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio", "data": str(data)}:
            return _file(data, "", part.get("mimeType"))
        case {"type": "resource_link", "uri": str(uri)}:
            return f"({part.get('name') or 'a resource'}: {uri})"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"blob": str(data), **resource}}:
            return _file(data, str(resource.get("uri") or ""), resource.get("mimeType"))
        case _:  # of a type that is not known, or not as its type must be
            said = json.dumps(part, ensure_ascii=False)
            return said if len(said) <= _MOST else f"{said[:_MOST]} …"
