"""Components that take documents, as tools: a model gives texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from retinue import Agent, DocumentStore, PromptModel
from retinue.components import DocumentSplitter, DocumentWriter, PromptNode, Ranker, Reader, TopPSampler
from retinue.core.tools.tool import make_tool

PARIS, PEARS = "Paris is the capital of France.", "Pears are fruit."


class Longest:
    """A cross-encoder to which a long text is a good one."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


@pytest.mark.parametrize(
    ("component", "given", "seen"),
    [
        (Ranker(Longest()), {"query": "capital", "texts": [PEARS, PARIS]}, f"{PARIS}\n{PEARS}"),
        (TopPSampler(0.9, Longest()), {"query": "capital", "texts": [PEARS, PARIS]}, PARIS),
        (DocumentSplitter(40), {"text": f"{PARIS}\n\n{PEARS}"}, f"{PARIS}\n{PEARS}"),
        (Reader(PromptNode(PromptModel(script=["Paris"]))), {"query": "Where?", "texts": [PEARS, PARIS]}, "Paris"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_gives_texts(component: Any, given: dict[str, Any], seen: str) -> None:
    tool = make_tool(component)
    assert [line for line in asyncio.run(tool.call(given)).splitlines() if line] == seen.splitlines()


def test_an_agent_keeps_texts_that_it_can_search_later() -> None:
    with DocumentStore() as store:
        script: list[Any] = [
            {"when": "Keep", "call": {"tool": "DocumentWriter", "input": {"texts": [PARIS, PEARS]}}},
            {"when": "^2$", "finish": "Kept."},
        ]
        assert Agent(PromptModel(script=script), [DocumentWriter(store)]).run("Keep these.").answer == "Kept."
        assert [found.content for found in store.keyword("capital")] == [PARIS]
