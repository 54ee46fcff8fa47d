"""Assistants: an agent of the file with a client's settings on top."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fakes.app_server import Serving, answering
from retinue import Agent, PromptModel, tool


def function(name: str, **parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": parameters}
    return {"type": "function", "function": {"name": name, "description": "It.", "parameters": schema, "strict": False}}


WISHES: dict[str, Any] = {
    "model": "agent-1",
    "name": "Guide",
    "description": "Knows the way.",
    "instructions": "Be brief.",
    "tools": [function("get-weather", place={"type": "string"}), {"type": "code_interpreter"}, {"type": "file_search"}],
    "tool_resources": {"code_interpreter": {"file_ids": ["file-1"]}},
    "metadata": {"team": "a"},
    "temperature": 0.5,
    "top_p": 1,
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    "reasoning_effort": "low",
}


def test_an_assistant_comes_back_as_it_was_made(on_both: Serving) -> None:
    made = on_both.ask("POST", "/v1/assistants", WISHES).body
    assert made["id"].startswith("asst_")
    assert len(made["id"]) == 29
    assert made == {"id": made["id"], "object": "assistant", "created_at": made["created_at"], **WISHES}
    assert on_both.ask("GET", f"/v1/assistants/{made['id']}").body == made


def test_what_is_not_said_is_there_all_the_same(served: Serving) -> None:
    made = served.ask("POST", "/v1/assistants", {"model": "agent-1", "metadata": None, "tools": None}).body
    rest = dict.fromkeys(set(WISHES) - {"model"}) | {"tools": [], "metadata": {}, "response_format": "auto"}
    assert {key: made[key] for key in WISHES} == rest | {"model": "agent-1"}


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ({}, {}),
        ({"name": "Other"}, {"name": "Other"}),
        ({"name": None, "temperature": None}, {"name": None, "temperature": None}),
        ({"tools": [{"type": "file_search"}]}, {"tools": [{"type": "file_search"}]}),
        ({"tools": None, "metadata": None}, {"tools": [], "metadata": {}}),
        ({"metadata": {"k": "v"}}, {"metadata": {"k": "v"}}),
        ({"response_format": "auto"}, {"response_format": "auto"}),
    ],
)
def test_only_what_is_sent_changes(served: Serving, change: dict[str, Any], after: dict[str, Any]) -> None:
    made = served.ask("POST", "/v1/assistants", WISHES).body
    assert served.ask("POST", f"/v1/assistants/{made['id']}", change).body == made | after
    assert served.ask("GET", f"/v1/assistants/{made['id']}").body == made | after


def test_one_that_is_deleted_is_gone(served: Serving) -> None:
    id_ = served.ask("POST", "/v1/assistants", WISHES).body["id"]
    deleted = {"id": id_, "object": "assistant.deleted", "deleted": True}
    assert served.ask("DELETE", f"/v1/assistants/{id_}").body == deleted
    for method in ("GET", "POST", "DELETE"):
        said = served.ask(method, f"/v1/assistants/{id_}", {} if method == "POST" else None)
        assert (said.status, said.error["message"]) == (404, f"No assistant found with id '{id_}'.")
        assert (said.error["type"], said.error["param"], said.error["code"]) == ("invalid_request_error", None, None)


def test_the_list_is_newest_first_and_comes_in_pages(served: Serving) -> None:
    made = [served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"] for _ in range(5)]
    newest = made[::-1]

    def ids(query: str) -> tuple[list[str], bool]:
        page = served.ask("GET", f"/v1/assistants?{query}").body
        found = [one["id"] for one in page["data"]]
        assert (page["object"], page["first_id"], page["last_id"]) == ("list", found[0], found[-1])
        return found, page["has_more"]

    assert ids("limit=5")[0] == newest
    assert ids("limit=2") == (newest[:2], True)
    assert ids(f"limit=2&after={newest[1]}") == (newest[2:4], True)
    assert ids(f"limit=2&before={newest[3]}") == (newest[1:3], True)
    assert ids(f"limit=1&order=asc&after={made[1]}") == ([made[2]], True)
    assert ids(f"order=asc&after={made[3]}") == ([made[4]], False)


@tool(effects="read")
def get_weather(place: str) -> str:
    """The weather of a place."""
    return "sunny"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    agents = {"agent-1": answering(), "with-tool": Agent(PromptModel(script=["x"]), [get_weather], name="with-tool")}
    with Serving(tmp_path_factory.mktemp("two"), agents) as served:
        yield served


@pytest.mark.parametrize(
    ("wishes", "status", "param", "words"),
    [
        ({}, 400, "model", "Missing required parameter: 'model'."),
        ({"model": "gpt-4"}, 404, "model", "The model 'gpt-4' does not exist; there are: agent-1"),
        ({"model": "with-tool", "tools": [function("get_weather")]}, 400, "tools", "already has a tool 'get_weather'"),
        ({"model": "with-tool", "tools": [function("get-weather")]}, 400, "tools", "already has a tool 'get-weather'"),
        ({"model": "agent-1", "tools": [function("a"), function("a")]}, 400, "tools", "two tools are called 'a'."),
        (
            {"model": "agent-1", "tools": [function("a", **{"b\nc": {}})]},
            400,
            "tools[0].function.parameters",
            "cannot be called 'b\\nc'",
        ),
    ],
)
def test_what_no_agent_can_be(two: Serving, wishes: dict[str, Any], status: int, param: str, words: str) -> None:
    said = two.ask("POST", "/v1/assistants", wishes)
    assert (said.status, said.error["param"]) == (status, param)
    assert words in said.error["message"]


def test_a_change_is_checked_with_what_was_there(two: Serving) -> None:
    made = two.ask("POST", "/v1/assistants", {"model": "agent-1", "tools": [function("get_weather")]}).body
    assert two.ask("POST", f"/v1/assistants/{made['id']}", {"model": "with-tool"}).status == 400
    assert two.ask("GET", f"/v1/assistants/{made['id']}").body == made


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({"agent_config": {}}, {"model": "agent-1"}),
        ({"agent_config": {"agent_name": "with-tool"}}, {"model": "with-tool"}),
        ({"agent_config": {"agent_name": "with-tool"}, "model": "Intel/neural-chat-7b"}, {"model": "with-tool"}),
        ({"agent_config": {"agent_name": "with-tool"}, "model": "agent-1"}, {"model": "agent-1"}),
        (
            {"agent_config": {"strategy": "react_llama", "temperature": 0.01, "top_p": 0.95, "max_new_tokens": 1024}},
            {"model": "agent-1", "temperature": 0.01, "top_p": 0.95, "max_tokens": 1024},
        ),
        ({"agent_config": {"strategy": "react", "agent_name": "with-tool", "api_key": None}}, {"model": "with-tool"}),
        (
            {"agent_config": {"role_description": "You are brief.", "recursion_limit": 3}},
            {"model": "agent-1", "instructions": "You are brief."},
        ),
        ({"agent_config": {"temperature": 0.01}, "temperature": 1.5}, {"temperature": 1.5}),
    ],
)
def test_opeas_assistants(two: Serving, wishes: dict[str, Any], expected: dict[str, Any]) -> None:
    made = two.ask("POST", "/v1/assistants", wishes).body
    assert {key: made[key] for key in expected} == expected


@pytest.mark.parametrize("wishes", [{"model": "nope"}, {"agent_config": {"agent_name": "nope"}}])
def test_of_several_agents_one_that_is_not_there_is_refused_and_the_only_one_is_meant(
    served: Serving, two: Serving, wishes: dict[str, Any]
) -> None:
    asked = {"agent_config": {"temperature": 0.5}, **wishes}
    said = two.ask("POST", "/v1/assistants", asked)
    assert (said.status, said.error["code"]) == (404, "model_not_found")
    assert served.ask("POST", "/v1/assistants", asked).body["model"] == "agent-1"


@pytest.mark.parametrize(
    ("config", "param", "words"),
    [
        ({"temperature": "hot"}, "temperature", "expected a decimal"),
        ({"strategy": "nonsense"}, "strategy", "'nonsense' is not the strategy of 'agent-1': it is 'auto'"),
        ({"strategy": "plan_execute"}, "strategy", "Leave it out, or name an agent with that strategy."),
        ({"tools": "x.yaml"}, "tools", "A request may set agent_name, strategy, role_description, "),
        ({"llm_engine": "vllm"}, "llm_engine", "this server's file sets the rest"),
    ],
)
def test_what_is_not_heeded_of_opeas_assistants_is_refused(
    two: Serving, config: dict[str, Any], param: str, words: str
) -> None:
    said = two.ask("POST", "/v1/assistants", {"agent_config": config})
    assert (said.status, said.error["param"]) == (400, f"agent_config.{param}")
    assert words in said.error["message"]


def test_an_assistant_as_rfc_003_prints_it_is_the_only_agent_of_the_file(served: Serving, two: Serving) -> None:
    printed = {"instructions": "Be brief.", "name": "guide", "tools": [function("get_weather")]}
    made = served.ask("POST", "/v1/assistants", printed).body
    assert (made["model"], made["name"], made["instructions"]) == ("agent-1", "guide", "Be brief.")
    said = two.ask("POST", "/v1/assistants", printed)
    assert said.status == 400
    assert said.error["message"].endswith("several models; name one of: agent-1, with-tool.")
