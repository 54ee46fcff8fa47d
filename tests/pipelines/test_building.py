"""Putting pipelines together: names, inputs, and every way of getting it wrong."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import Document, Pipeline, PromptModel, UsageError
from retinue.components import PromptNode, PromptTemplate
from retinue.pipelines import Node, problems


class Retriever:
    outputs = ("documents",)

    def run(self, query: str, top_k: int = 2) -> dict[str, Any]:
        return {"documents": [Document(f"{query} {number}") for number in range(top_k)]}


class Classifier:
    outgoing_edges = 2

    def run(self, query: str) -> tuple[dict[str, Any], str]:
        return {}, "output_1" if "?" in query else "output_2"


class Named:
    name = "Serp"

    def run(self, query: str) -> dict[str, Any]:
        return {"results": query}


def shout(query: str) -> str:
    return query.upper()


def read(documents: list[Document]) -> str:
    return "\n".join(document.content for document in documents)


def test_seed_000s_calculator() -> None:
    class PythonRuntime:
        def run(self, python_runtime_input: list[str]) -> tuple[dict[str, Any], str]:
            return {"results": python_runtime_input[0].removeprefix("final_result = ")}, "output_1"

    prompt_model = PromptModel(script=[{"when": "2 to the power of 3", "say": "final_result = 8"}])
    calculator = Pipeline()
    calculator.add_node(
        PromptNode(
            model_name_or_path=prompt_model,
            default_prompt_template=PromptTemplate(
                prompt_text="Write a simple python function that calculates\n$query"
            ),
            output_variable="python_runtime_input",
        )
    )
    calculator.add_node(PythonRuntime())
    assert [(node.name, list(node.inputs)) for node in calculator.nodes] == [
        ("PromptNode", ["Query"]),
        ("PythonRuntime", ["PromptNode"]),
    ]
    result = calculator.run(query="What is 2 to the power of 3?")
    assert result["results"] == "8"
    assert result["query"] == "What is 2 to the power of 3?"


def test_names_come_from_components_and_are_made_different() -> None:
    pipeline = Pipeline()
    for something in (shout, Named(), shout, lambda query: query, Pipeline(name="a.b"), shout):
        pipeline.add_node(something)
    assert [node.name for node in pipeline.nodes] == ["shout", "Serp", "shout_2", "lambda", "a_b", "shout_3"]


@pytest.mark.parametrize(
    ("something", "name", "inputs", "message"),
    [
        (shout, "Retriever", None, "two nodes are called 'Retriever'"),
        (shout, "Query", None, "that is the root's name"),
        (shout, "a.b", None, "a node cannot be called 'a.b'"),
        (shout, "a\nb", None, "want a text without dots and line breaks"),
        (shout, "", None, "a node cannot be called ''"),
        (3, "x", None, "node 'x': 3 is not a component"),
        (Retriever, "x", None, "node 'x': Retriever is a class"),
        (shout, "x", [], "node 'x' is not connected: it has no inputs"),
        (shout, "x", "Query", r"inputs must be a list: \['Query'\]"),
        (shout, "x", ["Retreiver"], "'Retreiver' is not a node of this pipeline; do you mean 'Retriever'?"),
        (shout, "x", ["Zzz"], "there are: Classifier, Query, Retriever"),
        (shout, "x", ["x"], "its input 'x' is not a node of this pipeline"),
        (shout, "x", ["Query", "Query"], "its input 'Query' is listed twice"),
        (shout, "x", ["Query.output_2"], "'Query' has no output_2"),
        (shout, "x", ["Classifier"], "say which: Classifier.output_1 or Classifier.output_2"),
        (shout, "x", ["Classifier.output_3"], "'Classifier' has no output_3, only 2"),
        (shout, "x", ["Retriever.documents"], "cannot read the input 'Retriever.documents'"),
        (shout, "x", [3], "cannot read the input 3"),
        (shout, "x", {"query": "Retriever"}, "want NODE.VALUE"),
        (shout, "x", {"text": "Query.query"}, "node 'x' has no input 'text'; it has: query"),
        (shout, "x", {"query": "Retriever.answers"}, "has no output 'answers'; it has: documents, query"),
        (read, "x", ["Query"], r"node 'x' needs 'documents', which nothing before it provides \(available: query\)"),
    ],
)
def test_what_is_wrong_with_a_node_is_said_when_it_is_added(
    something: Any, name: str, inputs: Any, message: str
) -> None:
    pipeline = Pipeline()
    pipeline.add_node(Classifier())
    pipeline.add_node(Retriever(), "Retriever", ["Query"])
    with pytest.raises(UsageError, match=message) as raised:
        pipeline.add_node(something, name, inputs)
    assert "\n" not in str(raised.value)
    assert [node.name for node in pipeline.nodes] == ["Classifier", "Retriever"]


def test_a_prompt_nodes_missing_variable_is_found_when_it_is_added() -> None:
    node = PromptNode(PromptModel(script=["x"]), "question-answering")
    pipeline = Pipeline()
    with pytest.raises(UsageError, match="node 'PromptNode' needs 'documents'"):
        pipeline.add_node(node)
    pipeline.add_node(Retriever())
    pipeline.add_node(node)


def test_further_inputs_are_declared() -> None:
    pipeline = Pipeline(inputs=("query", "documents"))
    pipeline.add_node(read)
    assert pipeline.run(documents=[Document("a")])["results"] == "a"


def test_a_pipeline_cannot_be_a_part_of_itself() -> None:
    outer, inner = Pipeline(name="outer"), Pipeline(name="inner")
    outer.add_node(shout)
    inner.add_node(outer)
    for pipeline in (outer, inner):
        with pytest.raises(UsageError, match="would make it contain itself"):
            outer.add_node(pipeline)


# ── definitions ──────────────────────────────────────────────────────────────────────────────────


def test_the_nodes_of_a_definition_stand_in_any_order() -> None:
    pipeline = Pipeline([Node(read, "Reader", ["Retriever"]), Node(Retriever(), "Retriever")])
    assert pipeline.run("x")["results"] == "x 0\nx 1"
    assert problems(pipeline.nodes) == []


def node(name: str, *inputs: str) -> Node:
    return Node(shout, name, inputs)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("a", "b"), node("b", "a")], ["b → a → b is a cycle; a pipeline may not have one"]),
        ([node("a", "Query", "a")], ["a → a is a cycle; a pipeline may not have one"]),
        (
            [node("a", "Query", "c"), node("b", "a"), node("c", "b"), node("d", "c", "e"), node("e", "d")],
            [
                "a → b → c → a is a cycle; a pipeline may not have one",
                "d → e → d is a cycle; a pipeline may not have one",
            ],
        ),
        (
            [node("a", "Query"), node("b"), node("c", "b")],
            ["node 'b' has no inputs, so it is a second root beside 'Query'; want only one"],
        ),
        ([node("a", "Query"), node("b")], ["node 'b' is not connected: it has no inputs; the root is 'Query'"]),
        ([node("a", "Query"), node("a", "Query")], ["two nodes are called 'a'; names must be unique"]),
        (
            [node("a", "Other")],
            ["node 'a': its input 'Other' is not a node of this pipeline; there are: Query, a"],
        ),
        (
            [Node(read, "a"), Node(lambda text: text, "b", ["a"])],
            [
                "node 'a' needs 'documents', which nothing before it provides (available: query); "
                'rename one of them, or set inputs={"documents": "Query.…"}',
                "node 'b' needs 'text', which nothing before it provides (available: query, results); "
                'rename one of them, or set inputs={"text": "a.…"}',
            ],
        ),
        (
            [Node(3, "a"), node("b", "a"), node("c", "x.y.z")],
            [
                "node 'a': 3 is not a component: it is not callable and has no run or run_async",
                "node 'c': cannot read the input 'x.y.z' (want NODE or NODE.output_2, e.g. \"Query\")",
            ],
        ),
    ],
)
def test_all_that_is_wrong_with_a_definition_is_listed(nodes: list[Node], expected: list[str]) -> None:
    found = problems(nodes)
    assert sorted(_turned(problem) for problem in found) == sorted(_turned(problem) for problem in expected)
    with pytest.raises(UsageError) as raised:
        Pipeline(nodes, name="p")
    assert str(raised.value) == "pipeline 'p': " + "\n".join(found)


def _turned(problem: str) -> str:
    """A cycle told from its smallest node on."""
    path, is_cycle, rest = problem.partition(" is a cycle")
    if not is_cycle:
        return problem
    loop = path.split(" → ")[:-1]
    start = loop.index(min(loop))
    return " → ".join([*loop[start:], *loop[:start], loop[start]]) + is_cycle + rest


def test_a_pipeline_of_files_begins_at_file_and_takes_paths() -> None:
    def read(file_paths: list[str]) -> dict[str, list[str]]:
        return {"texts": [path.upper() for path in file_paths]}

    pipeline = Pipeline([Node(lambda texts: texts[0], "First", ["Read"]), Node(read, "Read", ["File"])])
    assert pipeline.run(file_paths=["a.md"])["results"] == "A.MD"
    assert pipeline.draw().splitlines()[::2] == ["File", "Read (← File)", "First (← Read)"]
    assert ">File</text>" in pipeline.draw_svg()
    with pytest.raises(UsageError, match="has no input 'query'"):
        pipeline.run("x")
    with pytest.raises(UsageError, match="a node cannot be called 'File'"):
        pipeline.add_node(read, "File")
