"""A response that searches files, as assistants do; the call is shown as one of the server's own tools."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from fakes.app_server import Serving
from retinue import Agent, PromptModel

SCRIPT = [
    {"when": "^Where is Kim", "call": {"tool": "file_search", "input": {"query": "Kim"}}},
    {"say": "In the kitchen."},
]


def test_a_response_searches_the_stores_that_its_tool_names(tmp_path: Path) -> None:
    agent = Agent(PromptModel(script=SCRIPT), name="agent", strategy="tool_calling")
    with Serving(tmp_path, {"agent": agent}) as served:
        form = aiohttp.FormData({"purpose": "assistants"})
        form.add_field("file", b"Kim is in the kitchen.", filename="kim.txt", content_type="text/plain")
        file = served.ask("POST", "/v1/files", data=form).body["id"]
        store = served.ask("POST", "/v1/vector_stores", {"file_ids": [file]}).body["id"]
        asked = {"input": "Where is Kim?", "tools": [{"type": "file_search", "vector_store_ids": [store]}]}
        call, message = served.ask("POST", "/v1/responses", asked).body["output"]
        assert (call["type"], call["name"], call["status"]) == ("mcp_call", "file_search", "completed")
        assert "Kim is in the kitchen." in call["output"]
        assert message["content"][0]["text"] == "In the kitchen."
        asked["tools"] = [{"type": "file_search", "vector_store_ids": ["vs_nobodys"]}]
        said = served.ask("POST", "/v1/responses", asked)
        assert (said.status, said.error["message"]) == (400, "No vector store found with id 'vs_nobodys'.")
