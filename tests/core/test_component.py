"""Components: what they take and give, checked; functions, objects and Haystack's convention."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any, TypedDict

import pytest

from retinue import Agent, Document, Pipeline, PromptModel, Tool, UsageError
from retinue.extend import Component, component


class Found(TypedDict):
    documents: list[Document]


class Retriever:
    def run(self, query: str, top_k: int = 2) -> Found:
        return {"documents": [Document(f"{query} {number}") for number in range(top_k)]}


class Classifier:
    outgoing_edges = 2

    def run(self, query: str) -> tuple[dict[str, Any], str]:
        return {"kind": "question" if "?" in query else "words"}, "output_1" if "?" in query else "output_2"


class Old:
    """As in Haystack 1: a dict, and the edge."""

    outputs = ("answers",)

    async def run_async(self, query: str) -> Any:
        return {"answers": [query]}, "output_1"


def shout(text: str) -> str:
    return text.upper()


async def whisper(text: str) -> str:
    return text.lower()


class Shouting(Component):
    """Says it louder."""

    def run(self, query: str) -> dict[str, str]:
        """Put it in capitals."""
        return {"loud": query.upper(), "soft": query.lower()}


class Waiting(Component):
    async def run_async(self, query: str) -> str:
        """Wait for it."""
        return f"{query}!"


def test_a_class_that_inherits_from_component_has_all_forms_of_its_one_method() -> None:
    assert Shouting().run_batch([{"query": "a"}, "b"])[1] == {"loud": "B", "soft": "b"}
    assert asyncio.run(Shouting().run_async("Hi"))["soft"] == "hi"
    assert (Waiting().run("a"), Waiting().run_batch(["b", "c"])) == ("a!", ["b!", "c!"])
    assert component(Shouting()).inputs["query"].kind is str
    pipeline = Pipeline()
    pipeline.add_node(Waiting())
    assert pipeline.run("x")["results"] == "x!"
    made = Tool("Shout", Shouting(), output_variable="soft")
    assert (made.description, made.run("Hi")) == ("Put it in capitals.", "hi")
    with pytest.raises(UsageError, match="there is no output 'sofd'; did you mean 'soft'"):
        Tool("Shout", Shouting(), output_variable="sofd").run("Hi")


def test_a_class_without_a_method_to_run_is_refused() -> None:
    with pytest.raises(UsageError, match="Nothing needs a method `run` or `run_async`"):

        class Nothing(Component):
            """Does nothing."""


def test_an_objects_run_is_read() -> None:
    found = component(Retriever())
    assert found.name == "Retriever"
    assert {name: taken.required for name, taken in found.inputs.items()} == {"query": True, "top_k": False}
    assert found.outputs == {"documents": list[Document]}
    assert found.output == "documents"
    assert found.run(query="x", top_k=1) == {"documents": [Document("x 0")]}


@pytest.mark.parametrize("function", [shout, whisper, functools.partial(shout), Tool("shout", shout)])
def test_functions_are_components_whose_value_is_called_results(function: Any) -> None:
    found = component(function)
    assert isinstance(found, Component)
    assert found.outputs == {"results": str}
    assert str(found.run(text="Hi")).lower() == "{'results': 'hi'}"


def test_a_function_may_declare_what_its_value_is_called() -> None:
    @component(output="table", name="Counter")
    def count(text: str) -> dict[str, int]:
        return {letter: text.count(letter) for letter in text}

    assert count.name == "Counter"
    assert count.run(text="aab") == {"table": {"a": 2, "b": 1}}


def test_a_dict_is_outputs_by_name_and_the_edge_selects_the_branch() -> None:
    assert component(Old()).run(query="x") == {"answers": ["x"]}
    classifier = component(Classifier())
    assert classifier.branches == 2
    assert classifier.run(query="why?") == ({"kind": "question"}, "output_1")
    assert classifier.run(query="why") == ({"kind": "words"}, "output_2")


def test_a_pair_that_is_no_outputs_with_an_edge_is_a_value() -> None:
    assert component(lambda: (1, "output_1")).run() == {"results": (1, "output_1")}
    assert component(lambda: None).run() == {"results": None}


def test_batches_come_back_in_their_order() -> None:
    turns = [threading.Event() for _ in range(3)]

    def late(number: int) -> int:
        if number < 2:
            assert turns[number + 1].wait(10)
        turns[number].set()
        return number

    assert component(late).run_batch([{"number": n} for n in range(3)]) == [{"results": n} for n in range(3)]


def test_the_first_error_of_a_batch_is_raised_as_it_is() -> None:
    def picky(number: int) -> float:
        return 1 / number

    with pytest.raises(ZeroDivisionError) as raised:
        component(picky).run_batch([{"number": 1}, {"number": 0}])
    assert raised.value.__notes__ == ["(number 2 of the batch)"]
    with pytest.raises(UsageError, match="at_once must be at least 1"):
        component(picky).run_batch([], at_once=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'Retriever' needs 'query', which is missing (available: nothing)"),
        ({"query": 3}, "'Retriever': 'query' must be str, not int 3"),
        ({"query": None}, "'Retriever': 'query' must be str, not NoneType None"),
        ({"query": "x", "top_k": "3"}, "'Retriever': 'top_k' must be int, not str '3'"),
        ({"query": "x", "topk": 3}, "'Retriever' has no input 'topk'; it has: query, top_k"),
    ],
)
def test_wrong_inputs_are_one_clear_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        component(Retriever()).run(**values)
    assert str(raised.value) == message


def test_types_inside_lists_are_checked_and_nothing_is_converted() -> None:
    def join(documents: list[Document], scores: list[float] | None = None) -> int:
        return id(documents)

    given = [Document("a")]
    assert component(join).run(documents=given, scores=[1, 2.5]) == {"results": id(given)}
    with pytest.raises(UsageError, match=r"'documents' must be list\[Document\], not str 'b' \(at 1\)"):
        component(join).run(documents=[Document("a"), "b"])


def test_a_default_need_not_fit_its_hint() -> None:
    def sloppy(documents: list[Document] = None) -> bool:  # type: ignore[assignment]  # noqa: RUF013
        return documents is None

    assert component(sloppy).run(documents=None) == {"results": True}


class Liar:
    def __init__(self, value: Any) -> None:
        self.value = value

    def run(self) -> Found:
        return self.value  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "'Liar' declares an output 'documents' but returned: nothing"),
        ({"documents": "x"}, r"'Liar': its output 'documents' must be list\[Document\], not str 'x'"),
        (({}, "left"), "'Liar': branches are named \"output_1\", \"output_2\", …, not str 'left'"),
        ({1: 2}, "'Liar': output names must be strings, not int 1"),
    ],
)
def test_wrong_outputs_are_one_clear_error(value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        component(Liar(value)).run()


def test_a_branch_that_is_not_declared_is_an_error() -> None:
    @component(branches=2)
    def choose() -> Any:
        return {}, "output_3"

    with pytest.raises(UsageError, match="'choose' chose output_3, but has only 2"):
        choose.run()


def test_a_function_that_should_be_async_is_an_error() -> None:
    with pytest.raises(UsageError, match="make it one"):
        component(lambda: asyncio.sleep(0)).run()


@pytest.mark.parametrize("something", [3, None, "text", Retriever])
def test_what_is_no_component_says_so(something: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a component|is a class"):
        component(something) if something is not None else component(object())


def test_positional_only_parameters_cannot_be_given_by_name() -> None:
    with pytest.raises(UsageError, match="a pipeline passes inputs by name"):
        component(lambda a, /: a)


# ── components as tools ──────────────────────────────────────────────────────────────────────────


class KeywordOnly:
    def run(self, top_k: int = 1, *, query: str) -> tuple[dict[str, Any], str]:
        return {"documents": [Document(query)] * top_k, "took": 3}, "output_1"


class Answering:
    output_variable = "answer"

    async def run_async(self, query: str) -> dict[str, Any]:
        return {"query": query, "answer": [f"to {query}"]}


@pytest.mark.parametrize(
    ("something", "text"),
    [
        (Retriever(), "x 0\nx 1"),
        (KeywordOnly(), "x"),
        (Answering(), "to x"),
        (lambda query: {"results": query, "count": 1}, '{"results": "x", "count": 1}'),
    ],
)
def test_a_tool_shows_a_components_main_output(something: Any, text: str) -> None:
    assert asyncio.run(Tool("Search", something).call("x")) == text


def test_any_component_with_run_is_an_agents_tool() -> None:
    agent = Agent(PromptModel(script=[{"when": "why", "call": {"tool": "Search", "input": "x"}}, {"finish": "47"}]))
    agent.add_tool("Search", Retriever(), "useful for when you need to answer questions about current events")
    result = agent.run("why?")
    assert result.steps[0].observations[0].text == "x 0\nx 1"
