"""`/v1/studio/agents`: the structure of what is served, and that words of the operator need the scope `prompts`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fakes.app_server import Answer, Serving, answering
from retinue import Agent, PromptModel, tool
from retinue.pipelines import Pipeline
from retinue.server.agents.deployment import as_agent
from retinue.store.api_keys import create_key
from retinue.teams import END, START, Chain, HumanGate, MessageGroup, Role, When

SECRET = "The secret of the house is nine."


@tool(effects="read")
def look(place: str) -> str:
    """Look where nobody should know of."""
    return f"In {place} it rains."


def review() -> Agent:
    """A graph with everything that a graph can have."""
    group = MessageGroup("review", state={"score": "int"})
    group.add_role(Role("write", answering("writer", "A text."), effects="read"))
    group.add_role(Role("grade", lambda write: {"score": 9}, output="score"))
    group.add_role(HumanGate("editor", question=SECRET))
    group.add_role("rescue", lambda: "nothing")
    group.add_edge(START, "write").add_edge("write", "grade").add_edge("write", "rescue", on_error=True)
    group.add_edge("rescue", END).add_edge("editor", END)
    group.add_conditional_edges("grade", {"good": "editor", "bad": "write"}, When([("score > 8", "good")], "bad"))
    return group.compile()


def sorted_out() -> Agent:
    """A pipeline with a branch, served as an agent."""
    pipeline = Pipeline(name="sorted_out")
    pipeline.add_node(lambda query: ({"text": query}, "output_2"), "Sort", ["Query"])
    pipeline.add_node(lambda text: {"answer": text}, "Say", ["Sort.output_2"])
    return as_agent(pipeline)


def team() -> Agent:
    looker = Agent(PromptModel(script=["x"]), [look], name="looker", strategy="tool_calling", instructions=SECRET)
    return Agent(
        PromptModel(script=["x"]),
        [looker, look],
        name="boss",
        strategy="react",
        require_human_feedback=["look"],
        questions=["Where does it rain?"],
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    deployed = {
        "boss": team(), "review": review(), "steps": Chain([str.strip, str.upper]), "sort/ed": sorted_out()
    }  # fmt: skip
    with Serving(tmp_path_factory.mktemp("served"), deployed) as server:
        yield server


def key(served: Serving, *scopes: str) -> str:
    with served.database.engine.begin() as connection:
        return create_key(connection, scopes=scopes)


def outline(served: Serving, name: str, *scopes: str) -> Any:
    answer = asked(served, f"/v1/studio/agents/{name}", *scopes)
    assert answer.status == 200, answer.text
    return answer.body


def asked(served: Serving, path: str, *scopes: str) -> Answer:
    return served.ask("GET", path, key=key(served, *(scopes or ("read",))))


def edges(graph: Any) -> list[tuple[str, str, str, str]]:
    return [(one["head"], one["tail"], one["kind"], one["label"]) for one in graph["edges"]]


def test_an_agent_has_its_tools_and_members_at_any_depth(served: Serving) -> None:
    boss = outline(served, "boss")
    assert (boss["kind"], boss["id"], boss["strategy"], boss["graph"]) == ("agent", "boss", "react", None)
    looker, direct = boss["tools"]
    assert (direct["name"], direct["effects"], direct["approval"], direct["part"]) == ("look", "read", True, None)
    assert (looker["name"], looker["part"]["strategy"]) == ("looker", "tool_calling")
    assert [one["name"] for one in looker["part"]["tools"]] == ["look"]


def test_a_graph_has_its_roles_gates_and_edges_of_all_kinds(served: Serving) -> None:
    graph = outline(served, "review")["graph"]
    assert [(one["id"], one["kind"]) for one in graph["nodes"]] == [
        ("START", "end"), ("write", "role"), ("grade", "role"), ("editor", "gate"), ("rescue", "role"), ("END", "end")
    ]  # fmt: skip
    assert set(edges(graph)) == {
        ("START", "write", "always", ""), ("write", "grade", "always", ""), ("write", "rescue", "error", ""),
        ("rescue", "END", "always", ""), ("editor", "END", "always", ""),
        ("grade", "editor", "conditional", "good"), ("grade", "write", "conditional", "bad"),
    }  # fmt: skip
    assert {one["id"]: one["reads"] for one in graph["nodes"] if "reads" in one} == {
        "write": None, "grade": ["write"], "editor": None, "rescue": []
    }  # fmt: skip


def test_a_chain_is_a_graph_in_a_row(served: Serving) -> None:
    chain = outline(served, "steps")
    assert chain["kind"] == "chain"
    assert edges(chain["graph"])[0][:2] == ("START", "strip")


def test_a_pipeline_has_its_nodes_and_branches_and_its_name_may_have_a_slash(served: Serving) -> None:
    found = outline(served, "sort/ed")
    assert (found["kind"], found["id"]) == ("pipeline", "sort/ed")
    assert edges(found["graph"]) == [("Query", "Sort", "always", ""), ("Sort", "Say", "always", "output_2")]


def test_the_list_has_the_same_outlines(served: Serving) -> None:
    listed = asked(served, "/v1/studio/agents").body["data"]
    assert listed == [outline(served, one["id"]) for one in listed]
    assert len(listed) == 4


def test_words_of_the_operator_need_the_scope_prompts(served: Serving) -> None:
    for scopes in (("read",), ("all",)):
        text = asked(served, "/v1/studio/agents", *scopes).text
        assert all(words not in text for words in (SECRET, "nobody should know", "score > 8"))
    shown = asked(served, "/v1/studio/agents", "all", "prompts").text
    assert all(words in shown for words in (SECRET, "nobody should know", "score > 8"))


def test_every_key_that_sees_agents_sees_what_one_may_ask_them(served: Serving) -> None:
    assert outline(served, "boss")["questions"] == ["Where does it rain?"]
    assert [outline(served, name)["questions"] for name in ("review", "steps", "sort/ed")] == [[], [], []]
    for path in ("/v1/studio/agents", "/v1/studio/agents/boss"):
        refused = asked(served, path, "runs")
        assert (refused.status, "Where does it rain" in refused.text) == (403, False)


def test_an_unknown_agent_is_not_found(served: Serving) -> None:
    answer = asked(served, "/v1/studio/agents/nobody")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
