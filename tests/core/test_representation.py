"""What things show of themselves: what they are, on one line, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue import Agent, DocumentStore, Executor, Pipeline, PromptModel, Tool
from retinue.components import PromptNode

KEY = "sk-planted-0123456789"


def look(query: str) -> str:
    """Looks."""
    return query


MODEL = PromptModel("m", engine="openai", base_url=f"http://me:{KEY}@127.0.0.1:9/v1", api_key=KEY)
AGENT = Agent(MODEL, [look], strategy="tool_calling", name="guide")
PIPELINE = Pipeline(name="path")
PIPELINE.add_node(look, name="Look")


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        (MODEL, "PromptModel('m', engine='openai', base_url='http://***@127.0.0.1:9/v1')"),
        (PromptModel(script=["x"]), "PromptModel('scripted', engine='scripted')"),
        (AGENT, "Agent('guide', model='m', strategy='tool_calling', tools=['look'])"),
        (Executor([look]), "Executor('executor', model='no model', strategy='executor', tools=['look'])"),
        (AGENT.start(f"Why {KEY}?", key="k1"), "Run('Why ***?', agent='guide', key='k1', events=0)"),
        (AGENT.start(f"{'x' * 70}{KEY}", key="k1"), f"Run('{'x' * 70}***', agent='guide', key='k1', events=0)"),
        (AGENT.start("x" * 500, key="k1"), f"Run('{'x' * 77} …, agent='guide', key='k1', events=0)"),
        (Tool("Look", look), "Tool('Look', 'Looks.', effects='once')"),
        (Tool("Look", look, f"the key is {KEY}", effects="read"), "Tool('Look', 'the key is ***', effects='read')"),
        (PIPELINE, "Pipeline('path', inputs=['query'], nodes=['Look'])"),
        (PromptNode(MODEL), "PromptNode(model='m', output_variable='results')"),
        (PromptNode(MODEL, "Say $query"), "PromptNode(model='m', template='Say $query', output_variable='results')"),
        (DocumentStore(), "DocumentStore(':memory:')"),
        (DocumentStore(dimensions=3), "DocumentStore(':memory:', dimensions=3)"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_thing_shows_what_it_is(thing: object, shown: str) -> None:
    assert repr(thing) == shown


def test_a_store_shows_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert repr(DocumentStore(path)).startswith(f"DocumentStore('{path}"[:40])
