"""`PromptNode`: a template, a model, and what comes out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fakes.openai_server import OpenAIServer
from retinue import Document, PromptModel, UsageError
from retinue.components import PromptNode, PromptTemplate
from retinue.core.events import Delta
from retinue.core.prompt import Ask
from retinue.core.protocols import Chunks
from retinue.core.values import Capabilities, Reply
from retinue.extend import component


class Echo:
    """A model that says what it was asked, and remembers."""

    def __init__(self, answer: str = "") -> None:
        self.name = "echo"
        self.answer = answer
        self.asked: list[Ask] = []

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities()

    async def reply(self, request: Ask) -> Chunks:
        self.asked.append(request)
        yield Delta("…")
        yield Reply(self.answer or request.prompt.text)


def test_run_gives_the_output_variable_and_what_was_put_in() -> None:
    node = PromptNode(Echo(), PromptTemplate(prompt_text="On $documents: $query"), output_variable="answers")
    documents = [Document("a"), Document("b")]
    assert node.run(query="why?", documents=documents, other=1) == {
        "answers": ["On a\nb: why?"],
        "invocation_context": {"query": "why?", "documents": documents, "answers": ["On a\nb: why?"]},
    }


def test_prompt_takes_a_template_a_name_or_a_text() -> None:
    node = PromptNode(Echo())
    assert node.prompt(PromptTemplate(prompt_text="Say $word."), word="hi") == ["Say hi."]
    assert node.prompt("Say $word.", word="hi") == ["Say hi."]
    assert node.prompt("summarization", documents=[Document("a")])[0].startswith("Summarize")
    assert node.prompt(query="just this") == ["just this"]
    assert asyncio.run(node.prompt_async("$a", a=1)) == ["1"]


def test_the_template_may_be_another_at_run_time() -> None:
    node = PromptNode(Echo(), "Answer $query")
    assert node.run("x", prompt_template="Ask $query back")["results"] == ["Ask x back"]


def test_a_missing_variable_is_an_error_and_nothing_is_asked() -> None:
    model = Echo()
    with pytest.raises(UsageError, match=r"template 'question-answering': no value for \$documents"):
        PromptNode(model, "question-answering").run(query="x")
    assert model.asked == []


def test_stop_words_length_and_number_of_replies_reach_the_model() -> None:
    model = Echo("I need to search.\nObservation: made up")
    node = PromptNode(model, stop_words=["Observation:"], max_length=50, top_k=3)
    assert node.run(query="x")["results"] == ["I need to search.\n"] * 3
    assert [(asked.stop, asked.max_tokens, asked.news) for asked in model.asked] == [(("Observation:",), 50, "x")] * 3
    with pytest.raises(UsageError, match="top_k must be at least 1"):
        PromptNode(model, top_k=0)


def test_batches_come_back_in_their_order() -> None:
    node = PromptNode(Echo(), "$query of $documents")
    found = node.run_batch(["a", {"query": "b", "documents": "c"}], documents=[Document("d")], at_once=2)
    assert [one["results"] for one in found] == [["a of d"], ["b of c"]]


def test_a_model_may_be_named_with_key_and_settings(server: OpenAIServer) -> None:
    node = PromptNode("m", api_key="k", model_kwargs={"base_url": server.url, "temperature": 0.5})
    assert isinstance(node.model, PromptModel)
    with pytest.raises(UsageError, match="pass them to the model"):
        PromptNode(Echo(), api_key="k")


def test_an_agent_can_have_its_model_stop_words_and_template() -> None:
    model, template = Echo(), PromptTemplate(prompt_text="$query")
    node = PromptNode(model_name_or_path=model, default_prompt_template=template, stop_words="Observation:")
    assert (node.model, node.stop_words, node.default_prompt_template) == (model, ("Observation:",), template)


def test_it_declares_its_templates_variables_as_inputs() -> None:
    declared = component(PromptNode(Echo(), "$topic for $reader", output_variable="text"))
    assert declared.required == {"topic", "reader"}
    assert declared.output == "text"
    outputs: Any = declared.run(topic="x", reader="y")
    assert outputs["text"] == ["x for y"]
