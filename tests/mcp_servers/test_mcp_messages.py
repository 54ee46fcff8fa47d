"""What can be read of a server's odd messages is read, and what cannot is an error at once, not a wait."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes import mcp_misbehaving
from fakes.odd_mcp_server import OddServer
from retinue import ToolError
from retinue._internal.sync_bridge import run_blocking
from retinue.core.tools.tool import Tool
from retinue.mcp import MCPTools
from retinue.mcp.tool_pins import Offer

TEXT = '{"content": [{"type": "text", "text": "%s"}]}'
WHOLE = '{"jsonrpc": "2.0", "id": ID, "result": %s}'
BROKEN = "its answer cannot be read|SSE message|lost during the call|it answered 200"
LINES: Mapping[str, str | None] = {  # in Latin-1, so each character is a byte; what is read, or nothing for an error
    WHOLE % TEXT % "caf\xe9": "caf\ufffd",
    WHOLE % TEXT % "half \\ud83d": "half \ufffd",
    WHOLE % TEXT % "\\ude00 half": "\ufffd half",
    WHOLE % TEXT % "\\ud83d\\ude00 \\ud83d": "😀 \ufffd",
    WHOLE % TEXT % "\\\\ud83d \\ud83d": "\\ud83d \ufffd",
    "\xef\xbb\xbf" + WHOLE % TEXT % "marked": "marked",
    f"[{WHOLE % TEXT % 'one of several'}]": "one of several",
    '[{"jsonrpc": "2.0", "method": "notifications/x"}, 7, %s]' % (WHOLE % TEXT % "the last"): "the last",
    (WHOLE % TEXT % "untyped").replace('"jsonrpc": "2.0", ', ""): "untyped",
    (WHOLE % TEXT % "old").replace('"2.0"', '"1.0"'): "old",
    (WHOLE % TEXT % "a text's").replace("ID", '"ID"'): "a text's",
    (WHOLE % TEXT % "a float's").replace("ID", "ID.0"): "a float's",
    WHOLE % "null": None,
    WHOLE % '"text"': None,
    '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "te': None,
    '{"jsonrpc": "2.0", "id": ID, "error": "out of order"}': None,
    '{"jsonrpc": "2.0", "id": ID, "error": {"code": "E7", "message": "out of order"}}': None,
}
RESULTS: list[tuple[dict[str, Any], str]] = [
    (
        {"content": [{"type": "text", "text": "a"}, {"type": "hologram", "data": "b"}]},
        'a\n{"type": "hologram", "data": "b"}',
    ),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text"}, 7, None]}, 'a\n{"type": "text"}\n7\nnull'),
    ({"content": [{"type": "text", "text": "a", "annotations": "none"}, "b"]}, "a\nb"),
    ({"content": [{"type": "image", "data": "eHh4", "mimeType": 7}]}, "(a file, 7, 3 bytes: not shown)"),
    ({"content": [{"type": "resource", "resource": {"uri": "a b", "text": "c"}}]}, "c"),
    ({"content": [{"type": "resource", "resource": {"uri": "a", "blob": "eHh4"}}]}, "(a, None, 3 bytes: not shown)"),
    ({"content": [{"type": "resource_link", "uri": "a"}]}, "(a resource: a)"),
    ({"content": [], "structuredContent": [1]}, "[1]"),
    ({"structuredContent": {"a": 1}}, '{"a": 1}'),
    ({"content": "a", "isError": "no"}, ""),
]


def called(tool: Tool, way: Mapping[str, Any]) -> str:
    return run_blocking(tool.call({"way": json.dumps(way)}))


def check(tool: Tool, way: Mapping[str, Any], text: str | None) -> None:
    if text is not None:
        assert called(tool, way) == text, way
        return
    with pytest.raises(ToolError, match=f"out of order|{BROKEN}"):
        called(tool, way)


def test_lines_of_a_program(tmp_path: Path) -> None:
    args = ["-S", str(mcp_misbehaving.__file__), "ways", str(tmp_path)]
    server = MCPTools("odd", command=sys.executable, args=args)
    (tool,) = server.tools()
    try:
        for line, text in LINES.items():
            check(tool, {"line": line}, text)
    finally:
        server.stop()


def test_bodies_and_streams() -> None:
    with OddServer() as server:
        odd = MCPTools("odd", url=f"{server.url}/mcp")
        (tool,) = odd.tools()
        for line, text in LINES.items():
            check(tool, {"body": line, "type": "application/json"}, text)
            check(tool, {"body": line, "type": "text/plain"}, text)
            check(tool, {"body": f"event: message\ndata: {line}\n\n", "type": "text/event-stream"}, text)
        assert server.opened == 1
        odd.stop()


def test_a_result_is_taken_part_by_part() -> None:
    with OddServer() as server:
        odd = MCPTools("odd", url=f"{server.url}/mcp")
        (tool,) = odd.tools()
        for result, text in RESULTS:
            if text:
                assert called(tool, {"result": result}) == text
            else:
                with pytest.raises(ToolError, match=r"^a$"):
                    called(tool, {"result": result})
        error = {"code": -32000, "message": "no", "data": {"field": "city", "why": "unknown"}}
        with pytest.raises(ToolError, match=r'^odd: no \({"field": "city", "why": "unknown"}\)$'):
            called(tool, {"error": error})
        odd.stop()


NUMBER, TEXTS = {"type": "integer"}, {"type": "string"}
SCHEMAS: list[tuple[dict[str, Any], dict[str, Any]]] = [  # the properties as sent, and as models see them
    ({"allOf": [{"properties": {"a": NUMBER}}, {"properties": {"b": TEXTS}}]}, {"a": NUMBER, "b": TEXTS}),
    ({"properties": {"a": NUMBER}, "allOf": [{"properties": {"b": TEXTS}}]}, {"a": NUMBER, "b": TEXTS}),
    (
        {"properties": {"a": NUMBER}, "$ref": "#/$defs/b", "$defs": {"b": {"properties": {"b": TEXTS}}}},
        {"a": NUMBER, "b": TEXTS},
    ),
    ({"properties": {"a": {"$ref": "#/$defs/a/anyOf/1"}}, "$defs": {"a": {"anyOf": [TEXTS, NUMBER]}}}, {"a": NUMBER}),
    ({"properties": {"a": {"$ref": "#/%24defs/a"}}, "$defs": {"a": NUMBER}}, {"a": NUMBER}),
    (
        {"properties": {"a": {"$ref": "#/$defs/a", "description": "d"}}, "$defs": {"a": NUMBER}},
        {"a": NUMBER | {"description": "d"}},
    ),
    (
        {"properties": {"a": {"allOf": [NUMBER | {"minimum": 1, "maximum": 9}, {"minimum": 2, "maximum": 5}]}}},
        {"a": NUMBER | {"minimum": 2, "maximum": 5}},
    ),
    ({"properties": {"a": {"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}}}, {"a": {"enum": [2]}}),
    (
        {"properties": {"a": {"$ref": "#/$defs/0"}, "b": {"$ref": "#/required/x"}}, "required": ["a"]},
        {"a": {}, "b": {}},
    ),
]


def test_arguments_that_are_described_elsewhere() -> None:
    for schema, properties in SCHEMAS:
        server = MCPTools("odd", url="http://127.0.0.1:1/")
        (tool,) = server.approved([Offer("say", "Says it.", {"type": "object"} | schema)])
        assert tool.signature.parameters["properties"] == properties, schema
