"""Converts the result of a tool call to the text that a model reads."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from ..errors import ToolError

MAX_RESULT = 1024 * 1024  # bytes


def result_text(result: CallToolResult) -> str:
    """Return the result's text, with notes in place of other content. Raises `ToolError` if the result is an error or
    larger than 1 MiB."""
    text = "\n".join(_parts(result))
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if len(text.encode(errors="replace")) > MAX_RESULT:
        raise ToolError(f"the result is larger than {MAX_RESULT:,} bytes")
    if result.is_error:
        raise ToolError(text or "it failed and does not say why")
    return text


def _parts(result: CallToolResult) -> Iterator[str]:
    for part in result.content:
        match part:
            case TextContent():
                yield part.text
            case ImageContent() | AudioContent():
                yield f"({part.type}, {part.mime_type}, {len(part.data) * 3 // 4:,} bytes: not shown)"
            case ResourceLink():
                yield f"({part.name}: {part.uri})"
            case EmbeddedResource(resource=TextResourceContents(text=text)):
                yield text
            case _:
                yield f"({part.type}: not shown)"
