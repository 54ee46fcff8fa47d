"""The server's own tools, declared by a request as an MCP server: fewer of them, more approvals, and no reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fakes.app_server import Serving
from retinue import Agent, Pipeline, PromptModel, tool
from retinue.server.agents.deployment import as_agent

SCRIPT = [
    {"when": "not a valid tool", "say": "There is no such tool."},
    {"when": "two tables", "call": [{"tool": "book", "input": {"place": place}} for place in ("Nopi", "Rules")]},
    {"when": "table", "call": {"tool": "book", "input": {"place": "Nopi"}}},
    {"when": "look", "call": {"tool": "look", "input": {"place": "Nopi"}}},
    {"when": "booked", "say": "It is booked."},
    {"when": "refused", "say": "Then not."},
    {"when": "free", "say": "There is room."},
    {"say": "Hello."},
]


@tool
def book(place: str) -> str:
    """Books a table."""
    return "booked"


@tool(effects="read")
def look(place: str) -> str:
    """Is there a table?"""
    return "free"


def waiter(*, asks: bool) -> Agent:
    agent = Agent(PromptModel(script=SCRIPT), strategy="tool_calling", name="waiter")
    agent.add_tool(replace(book, approval=asks))
    agent.add_tool(look)
    return agent


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    agents = {"waiter": waiter(asks=True), "quick": waiter(asks=False)}
    agents["plain"] = Agent(PromptModel(script=SCRIPT), strategy="tool_calling", name="plain")
    echo = as_agent(Pipeline(name="echo"))
    with Serving(tmp_path_factory.mktemp("declared"), {**agents, "echo": echo}) as served:
        yield served


def ask(at: Serving, said: Any, model: str = "quick", **more: Any) -> Any:
    answer = at.ask("POST", "/v1/responses", {"model": model, "input": said, **more})
    assert answer.status == 200, answer.text
    return answer.body


def declared(label: str, **rules: Any) -> list[dict[str, Any]]:
    return [{"type": "mcp", "server_label": label, **rules}]


def types(response: Any) -> list[str]:
    """The types of its items; `gone` for a call of a tool that it did not have."""
    return ["gone" if one.get("status") == "failed" else one["type"] for one in response["output"]]


APPROVED = ["mcp_approval_request"]
DONE = ["mcp_call", "message"]
GONE = ["gone", "message"]


@pytest.mark.parametrize(
    ("rules", "booking", "looking"),
    [
        ({}, DONE, DONE),
        ({"require_approval": "never"}, DONE, DONE),
        ({"require_approval": "always"}, APPROVED, APPROVED),
        ({"require_approval": {"always": {"tool_names": ["book"]}}}, APPROVED, DONE),
        ({"require_approval": {"never": {"tool_names": ["look"]}}}, APPROVED, DONE),
        ({"require_approval": {"never": {"read_only": True}}}, APPROVED, DONE),
        ({"require_approval": {"always": {"read_only": True}}}, DONE, APPROVED),
        ({"require_approval": {}}, DONE, DONE),
        ({"server_description": "Tables."}, DONE, DONE),
        ({"allowed_tools": ["look"]}, GONE, DONE),
        ({"allowed_tools": {"read_only": True}}, GONE, DONE),
        ({"allowed_tools": []}, GONE, GONE),
        ({"allowed_tools": ["book"], "require_approval": "always"}, APPROVED, GONE),
    ],
)
def test_what_is_declared_takes_tools_away_and_adds_approvals(
    at: Serving, rules: Any, booking: list[str], looking: list[str]
) -> None:
    tools = declared("quick", **rules)
    assert types(ask(at, "A table, please.", tools=tools)) == booking
    assert types(ask(at, "Have a look.", tools=tools)) == looking


@pytest.mark.parametrize(
    "rules", [{}, {"require_approval": "never"}, {"require_approval": {"never": {"tool_names": ["book"]}}}]
)
def test_no_approval_can_be_waived(at: Serving, rules: Any) -> None:
    assert types(ask(at, "A table, please.", "waiter", tools=declared("waiter", **rules))) == APPROVED


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (declared("other"), "there is no MCP server 'other' here; the tools of this model have the label 'quick'."),
        (declared("quick", server_url="https://example.com/mcp"), "'server_url' names another server"),
        (declared("quick", server_url="http://[broken"), "'server_url' names another server"),
        (declared("quick", connector_id="connector_gmail"), "'connector_id' names another server"),
        (declared("quick", authorization="secret-1"), "'authorization' names another server"),
        (declared("quick", headers={"X-Key": "secret-1"}), "'headers' names another server"),
        (declared("quick", allowed_tools=["pay"]), "the model 'quick' has no tool 'pay'; it has: book, look."),
        (declared("quick", require_approval={"always": {"tool_names": ["pay"]}}), "has no tool 'pay'"),
        (declared("quick") * 2, "the MCP server 'quick' is declared twice."),
    ],
)
def test_what_leads_elsewhere_is_refused(at: Serving, tools: Any, message: str) -> None:
    for path in ("/v1/responses", "/v1/responses/input_tokens"):
        said = at.ask("POST", path, {"model": "quick", "input": "Hi", "tools": tools})
        assert (said.status, said.error["param"]) == (400, "tools")
        assert message in said.error["message"]
        assert "secret-1" not in said.text


def test_the_servers_own_address_may_be_given(at: Serving) -> None:
    """Some clients must give one."""
    tools = declared("quick", server_url=f"{at.url}/v1", require_approval="always")
    assert types(ask(at, "A table, please.", tools=tools)) == APPROVED


def test_a_pipeline_keeps_its_tool(at: Serving) -> None:
    said = at.ask(
        "POST", "/v1/responses", {"model": "echo", "input": "Hi", "tools": declared("echo", allowed_tools=[])}
    )
    assert (said.status, said.error["message"]) == (
        400,
        "Invalid 'tools': the model 'echo' is a pipeline, and needs its tool.",
    )


def word(item: Any, *, approve: bool = True) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": approve}


def reference(item: Any) -> dict[str, Any]:
    return {"type": "item_reference", "id": item["id"]}


@pytest.mark.parametrize("named", ["by reference", "in full", "not at all"])
def test_each_request_may_stand_before_its_answer(at: Serving, named: str) -> None:
    first = ask(at, "Please book two tables.", "waiter")
    assert types(first) == APPROVED * 2
    said: list[Any] = [{"role": "user", "content": "Please book two tables."}]
    for item in first["output"]:
        said += {"by reference": [reference(item)], "in full": [item], "not at all": []}[named]
        said.append(word(item))
    second = ask(at, said, "waiter")
    assert types(second) == ["mcp_call", "mcp_call", "message"]
    assert ask(at, said, "waiter")["id"] == second["id"]  # sent again, it is the same
    assert [one["approval_request_id"] for one in second["output"][:2]] == [one["id"] for one in first["output"]]


def test_what_was_answered_before_may_be_said_again(at: Serving) -> None:
    """All that was said, with two approvals that were given one after the other."""
    first = ask(at, "A table, please.", "waiter")
    said = [{"role": "user", "content": "A table, please."}, *first["output"], word(first["output"][0])]
    second = ask(at, said, "waiter")
    assert types(second) == DONE
    said += [*second["output"], {"role": "user", "content": "A table again."}]
    third = ask(at, said, "waiter")
    said += [*third["output"], word(third["output"][0], approve=False)]
    fourth = ask(at, said, "waiter")
    assert fourth["output"][-1]["content"][0]["text"] == "Then not."


@pytest.mark.parametrize("between", [True, False])
def test_calls_of_functions_may_stand_before_their_outputs(at: Serving, between: bool) -> None:
    properties = {"properties": {"place": {"type": "string"}}, "type": "object"}
    tools = [{"type": "function", "name": "book", "parameters": properties}]
    said: list[Any] = [{"role": "user", "content": "Please book two tables."}]
    first = ask(at, said, "plain", tools=tools)
    calls = first["output"]
    outputs = [{"type": "function_call_output", "call_id": one["call_id"], "output": "booked"} for one in calls]
    pairs = zip(calls, outputs, strict=True)
    said += [one for pair in pairs for one in pair] if between else [*calls, *outputs]
    second = ask(at, said, "plain", tools=tools)
    assert second["output"][-1]["content"][0]["text"] == "It is booked."
    assert second["id"].startswith(first["id"])  # the run went on: the model was not asked anew


def test_items_of_conversations_are_found_by_reference(at: Serving) -> None:
    items = [{"role": "user", "content": "I am Kim."}]
    made = at.ask("POST", "/v1/conversations", {"items": items}).body
    (item,) = at.ask("GET", f"/v1/conversations/{made['id']}/items").body["data"]
    response = ask(at, [reference(item), {"role": "user", "content": "Hi"}])
    shown = at.ask("GET", f"/v1/responses/{response['id']}/input_items?order=asc").body["data"]
    assert [one["content"][0]["text"] for one in shown] == ["I am Kim.", "Hi"]


@pytest.mark.parametrize("id_", ["mcpr_x", f"mcpr_{'0' * 24}xcallx1x0", f"msg_{'0' * 24}p0o0", "fs_1", "msg_\u00e9"])
def test_a_reference_to_nothing(at: Serving, id_: str) -> None:
    said = at.ask("POST", "/v1/responses", {"input": [{"type": "item_reference", "id": id_}]})
    assert (said.status, said.error["message"]) == (404, f"Item with id '{id_}' not found.")


@pytest.mark.parametrize("tool", [{"vector_store_ids": 5}, {"vector_store_ids": [{}]}, {"ranking_options": 1}])
def test_options_of_hosted_tools_are_checked(at: Serving, tool: Any) -> None:
    said = at.ask("POST", "/v1/responses", {"input": "Hi", "tools": [{"type": "file_search", **tool}]})
    assert (said.status, said.error["code"]) == (400, "invalid_type")
