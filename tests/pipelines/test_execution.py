"""Running pipelines: what flows where, branches, joins, errors, and what happens side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from retinue import Agent, Document, Pipeline, PromptModel, Tool, UsageError
from retinue.extend import NodeFailed


def documents(*contents: str) -> Callable[..., Any]:
    return lambda query: {"documents": [Document(content) for content in contents]}


def contents(result: dict[str, Any]) -> list[str]:
    return [document.content for document in result["documents"]]


def choose(query: str) -> tuple[dict[str, Any], str]:
    return {"chosen": query}, f"output_{query}"


def says(word: str) -> Callable[..., Any]:
    return lambda: word


def notes(word: str, ran: list[str]) -> Callable[..., Any]:
    def note() -> str:
        ran.append(word)
        return word

    return note


def branched() -> Pipeline:
    """1 → One, 2 → Two → TwoMore; both meet in Join; 3 has no listeners."""
    pipeline = Pipeline()
    pipeline.add_node(choose, "Choose")
    pipeline.add_node(says("one"), "One", ["Choose.output_1"])
    pipeline.add_node(says("two"), "Two", ["Choose.output_2"])
    pipeline.add_node(lambda results: results + "!", "TwoMore", ["Two"])
    pipeline.add_node(lambda results: f"joined {results}", "Join", ["One", "TwoMore"])
    return pipeline


# ── what flows ───────────────────────────────────────────────────────────────────────────────────


def test_a_node_sees_all_that_was_given_before_it() -> None:
    pipeline = Pipeline()
    pipeline.add_node(lambda query: {"length": len(query)})
    pipeline.add_node(lambda length: length * 2, "Twice")
    pipeline.add_node(lambda query, length, results: f"{query} {length} {results}", "All")
    assert pipeline.run("four") == {"query": "four", "length": 4, "results": "four 4 8"}


def test_lists_of_documents_are_joined_in_the_order_of_the_inputs() -> None:
    pipeline = Pipeline()
    pipeline.add_node(documents("a", "b"), "First", ["Query"])
    pipeline.add_node(documents("c"), "Second", ["Query"])
    pipeline.add_node(lambda documents: len(documents), "Count", ["Second", "First"])
    result = pipeline.run("x")
    assert contents(result) == ["c", "a", "b"]
    assert result["results"] == 3


def test_what_was_made_of_a_value_supersedes_it_and_is_not_joined_with_it() -> None:
    pipeline = Pipeline()
    pipeline.add_node(documents("a", "b", "c"), "Retriever")
    pipeline.add_node(lambda documents: {"documents": documents[:1]}, "Best", ["Retriever"])
    pipeline.add_node(lambda documents: f"{len(documents)} found", "Count", ["Retriever"])
    pipeline.add_node(lambda documents, results: results, "Join", ["Best", "Count"])
    assert contents(pipeline.run("x")) == ["a"]
    assert pipeline.run("x")["results"] == "3 found"


def test_a_value_that_came_two_ways_is_there_once() -> None:
    pipeline = Pipeline()
    pipeline.add_node(documents("a"), "Retriever")
    pipeline.add_node(says("l"), "Left", ["Retriever"])
    pipeline.add_node(says("r"), "Right", ["Retriever"])
    pipeline.add_node(lambda results: results, "Join", ["Left", "Right"])
    assert contents(pipeline.run("x")) == ["a"]
    assert pipeline.run("x")["results"] == "r"


def test_a_node_that_takes_inputs_gets_what_each_gave() -> None:
    pipeline = Pipeline()
    pipeline.add_node(says("l"), "Left", ["Query"])
    pipeline.add_node(says("r"), "Right", ["Query"])
    pipeline.add_node(lambda inputs: [one["results"] for one in inputs], "Join", ["Right", "Left"])
    assert pipeline.run("x")["results"] == ["r", "l"]


def test_single_values_are_given_by_name() -> None:
    pipeline = Pipeline()
    pipeline.add_node(says("l"), "Left", ["Query"])
    pipeline.add_node(says("r"), "Right", ["Query"])
    wanted = {"a": "Left.results", "b": "Right.results", "c": "Query.query"}
    pipeline.add_node(lambda a, b, c: a + b + c, "Join", wanted)
    assert pipeline.run("x")["results"] == "lrx"


def test_an_agent_is_a_node() -> None:
    agent = Agent(PromptModel(script=[{"finish": "47"}]), [says], name="Sage")
    pipeline = Pipeline()
    pipeline.add_node(agent, inputs={"question": "Query.query"})
    assert pipeline.run("How old?")["results"].answer == "47"


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("query", "results"), [("1", "joined one"), ("2", "joined two!"), ("3", None)])
def test_the_edge_selects_the_branch_and_the_rest_does_not_run(query: str, results: str | None) -> None:
    result = branched().run(query)
    assert result.get("results") == results
    assert result["chosen"] == query


def test_only_the_parts_that_are_needed_run() -> None:
    ran: list[str] = []
    pipeline = Pipeline()
    for name, inputs in [("A", ["Query"]), ("B", ["Query"]), ("AA", ["A"]), ("AB", ["A", "B"])]:
        pipeline.add_node(notes(name, ran), name, inputs)
    assert pipeline.run("x", targets="AA")["results"] == "AA"
    assert ran == ["A", "AA"]
    ran.clear()
    assert pipeline.run("x", targets=["A", "B"])["results"] == "B"
    assert sorted(ran) == ["A", "B"]
    with pytest.raises(UsageError, match="targets: no node 'C'; there are: A, B, AA, AB"):
        pipeline.run("x", targets="C")


def test_a_target_on_a_branch_that_is_not_chosen_gives_nothing() -> None:
    assert branched().run("1", targets="Two") == {}


# ── parameters and errors ────────────────────────────────────────────────────────────────────────


def test_params_are_for_single_nodes_and_for_this_run() -> None:
    pipeline = Pipeline()
    pipeline.add_node(lambda query, top_k=1: query * top_k, "A")
    pipeline.add_node(lambda query, top_k=1: query * top_k, "B")
    assert pipeline.run("x", params={"A": {"top_k": 3}}, targets="A")["results"] == "xxx"
    assert pipeline.run("x", params={"A": {"top_k": 3}})["results"] == "x"
    assert pipeline.run("x", params={"B": {"query": "y"}})["results"] == "y"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"params": {"C": {}}}, "params: no node 'C'; there are: Choose, One"),
        ({"params": {"One": 3}}, "want params by node"),
        ({"params": {"Choose": {"top_k": 3}}}, "params: node 'Choose' has no input 'top_k'; it has: query"),
        ({"documents": []}, r"has no input 'documents' \(its inputs are: query\)"),
    ],
)
def test_wrong_parameters_are_said_before_anything_runs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        branched().run("1", **options)


def test_a_missing_input_and_a_wrong_type_name_the_node() -> None:
    with pytest.raises(UsageError, match="node 'Choose' needs 'query', which is missing"):
        branched().run()
    pipeline = Pipeline()
    pipeline.add_node(lambda: {"count": "three"}, "Count")

    def double(count: int) -> int:
        return count * 2

    pipeline.add_node(double)
    with pytest.raises(UsageError, match=r"^node 'double': 'count' must be int, not str 'three'$"):
        pipeline.run("x")
    with pytest.raises(UsageError, match="has no nodes"):
        Pipeline().run("x")


def test_what_a_run_finds_missing_names_the_node() -> None:
    pipeline = Pipeline()
    pipeline.add_node(lambda: {"a": 1}, "A")  # what it gives is not declared, so nobody could know
    pipeline.add_node(lambda b: b, "B")
    with pytest.raises(UsageError, match=r"^node 'B' needs 'b', which is missing \(available: query, a\)$"):
        pipeline.run("x")
    pipeline.add_node(lambda b: b, "C", {"b": "A.b"})
    with pytest.raises(UsageError, match=r"^node 'C': 'A' returned no 'b'$"):
        pipeline.run("x", targets="C")


@pytest.mark.parametrize("is_async", [True, False])
def test_an_error_names_its_node_and_has_its_cause(is_async: bool) -> None:
    def fails(query: str) -> None:
        raise KeyError(query)

    async def fails_too(query: str) -> None:
        raise KeyError(query)

    inner = Pipeline(name="inner")
    inner.add_node(fails_too if is_async else fails, "Broken")
    outer = Pipeline()
    outer.add_node(inner, "Inner")
    with pytest.raises(NodeFailed) as raised:
        outer.run("x")
    assert str(raised.value) == "node 'Inner': node 'Broken': KeyError: 'x'"
    assert raised.value.node == "Inner"
    assert isinstance(raised.value.__cause__, NodeFailed)
    assert isinstance(raised.value.__cause__.__cause__, KeyError)


def test_a_node_that_cancels_itself_is_an_error_and_not_an_end() -> None:
    async def gives_up(query: str) -> None:
        raise asyncio.CancelledError

    for branches in (1, 2):
        pipeline = Pipeline()
        for number in range(branches):
            pipeline.add_node(gives_up, f"Tired{number}", ["Query"])
        with pytest.raises(NodeFailed, match="it was cancelled from within"):
            pipeline.run("x")


# ── pipelines in other things ────────────────────────────────────────────────────────────────────


def test_a_pipeline_is_a_node_of_another() -> None:
    inner = Pipeline(name="Inner", inputs=("query", "count"))
    inner.add_node(lambda query, count: query * count, "Times")
    outer = Pipeline()
    with pytest.raises(UsageError, match="node 'Inner' needs 'count'"):
        outer.add_node(inner)
    outer.add_node(lambda query: {"count": len(query)}, "Count")
    outer.add_node(inner)
    assert outer.run("ab")["results"] == "abab"
    assert outer.run("ab", params={"Inner": {"params": {"Times": {"count": 3}}}})["results"] == "ababab"


def test_a_pipeline_is_a_tool() -> None:
    pipeline = Pipeline()
    pipeline.add_node(documents("47 years"))
    assert asyncio.run(Tool("Search", pipeline).call("age")) == "47 years"
    agent = Agent(PromptModel(script=[{"when": "How", "call": {"tool": "Search", "input": "age"}}, {"finish": "47"}]))
    agent.add_tool("Search", pipeline, "useful for when you need to answer questions about current events")
    assert agent.run("How old?").steps[0].observations[0].text == "47 years"
    assert asyncio.run(Tool("Join", branched()).call("1")) == "joined one"
