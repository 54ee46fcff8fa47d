"""What is refused of responses, in OpenAI's words."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from fakes.responses import TOOL, outputs
from fakes.sdk import MARKS, of, refused

pytestmark = MARKS
TYPES = (
    "'message', 'function_call', 'function_call_output', 'custom_tool_call', 'custom_tool_call_output', 'reasoning', "
    "'item_reference', 'mcp_list_tools', 'mcp_call', 'mcp_approval_request', 'mcp_approval_response', "
    "'file_search_call', 'code_interpreter_call', and 'compaction'"
)


@pytest.mark.parametrize(
    ("asked", "message", "code", "param"),
    [
        ({"input": None}, "Missing required parameter: 'input'.", "missing_required_parameter", "input"),
        (
            {"input": [{"type": "bogus"}]},
            f"Invalid value: 'bogus'. Supported values are: {TYPES}.",
            "invalid_value",
            "input[0].type",
        ),
        (
            {"input": [{"role": "king", "content": "Hello"}]},
            "Invalid value: 'king'. Supported values are: 'user', 'assistant', 'system', and 'developer'.",
            "invalid_value",
            "input[0].role",
        ),
        (
            {"input": "Hello", "max_output_tokens": 15},
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 15 instead.",
            "integer_below_min_value",
            "max_output_tokens",
        ),
        (
            {"input": "Hello", "previous_response_id": "resp_x"},
            "Previous response with id 'resp_x' not found.",
            "previous_response_not_found",
            "previous_response_id",
        ),
        (
            {"input": "Hello", "previous_response_id": "resp_x", "conversation": "conv_x"},
            "The parameters 'previous_response_id' and 'conversation' are mutually exclusive. Ensure you are only "
            "providing one of: 'previous_response_id' or 'conversation'.",
            "mutually_exclusive_parameters",
            None,
        ),
        (
            {"input": "Hello", "background": True, "store": False},
            "Background responses must be stored: 'store' must be true.",
            None,
            "background",
        ),
        (
            {"input": "Hello", "tools": [{"type": "web_search"}]},
            "Tool 'web_search' is not enabled on this server (see hosted_tools).",
            None,
            "tools",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "call_x", "output": "1"}]},
            "No tool call found for function call output with call_id call_x.",
            None,
            "input",
        ),
        (
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "mcpr_x", "approve": True}]},
            "No approval request is waiting with id 'mcpr_x'.",
            None,
            "input",
        ),
        (
            {
                "input": "Hello",
                "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": []}]},
            },
            "Invalid type for 'tool_choice.tools[0].name': expected a string, but got an array instead.",
            "invalid_type",
            "tool_choice.tools[0].name",
        ),
        ({"input": []}, "There is no message to answer.", None, None),
    ],
)
async def test_requests_that_are_wrong(client: Any, asked: Any, message: str, code: str | None, param: str) -> None:
    with refused(openai.BadRequestError, message, code, param):
        await of(client.responses.create(model="plain", **asked))


async def test_what_is_not_there(client: Any) -> None:
    with refused(openai.NotFoundError, None, "model_not_found", "model"):
        await of(client.responses.create(model="gpt-4", input="Hello"))
    missing = f"resp_{'0' * 24}"
    for id_ in (missing, f"{missing}x1", "resp_x", "run_x"):
        with refused(openai.NotFoundError, f"Response with id '{id_}' not found."):
            await of(client.responses.retrieve(id_))
    with refused(openai.NotFoundError, "Item with id 'msg_x' not found.", param="input"):
        await of(client.responses.create(model="plain", input=[{"type": "item_reference", "id": "msg_x"}]))
    chat: Any = {"model": "plain", "messages": [{"role": "user", "content": "Hello"}], "store": True}
    said = await of(client.chat.completions.create(**chat))
    with refused(openai.NotFoundError):
        await of(client.responses.retrieve(f"resp_{said.id.partition('-')[2]}"))
    response = await of(client.responses.create(model="plain", input="Hello"))
    with refused(openai.NotFoundError):
        await of(client.chat.completions.retrieve(f"chatcmpl-{response.id.partition('_')[2]}"))


async def test_all_calls_are_answered_together(client: Any) -> None:
    first = await of(client.responses.create(model="plain", input="Compare two cities.", tools=[TOOL]))
    call = first.output[1].call_id
    for said in (outputs(first)[:1], "Hello"):
        with refused(openai.BadRequestError, f"No tool output found for function call {call}.", param="input"):
            given = said if isinstance(said, list) else [*outputs(first)[:1], {"role": "user", "content": said}]
            await of(client.responses.create(model="plain", input=given, previous_response_id=first.id))
    second = await of(client.responses.create(model="plain", input=outputs(first), previous_response_id=first.id))
    assert second.output_text == "Paris 21, London 19."
    branch = await of(  # the same point once more, with another end
        client.responses.create(
            model="plain", input=[*outputs(first), {"role": "user", "content": "Hello"}], previous_response_id=first.id
        )
    )
    assert branch.id.startswith("resp_")
    assert branch.id[:29] != first.id[:29]
