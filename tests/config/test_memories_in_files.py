"""Memories in files of agents: loaded, kept beside the file, written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue import Agent, DataError, Message, Pipeline, PromptModel, UsageError
from retinue.config import check
from retinue.core.protocols import Recalled
from retinue.memory import ConversationMemory, EntityExtractor, EntityMemory, EntitySummarizer
from retinue.tools import calculator

FILE = """\
components:
  - {name: talker, type: PromptModel, params: {script: [{finish: "Yes."}]}}
  - {name: reader, type: PromptModel, params: {script: [{raw: '[["Greta", "person", "lives in Oslo", "home"]]'}]}}
  - {name: extractor, type: EntityExtractor, params: {model: reader}}
  - {name: summarizer, type: EntitySummarizer, params: {model: reader, characters: 200}}
  - {name: chat, type: ConversationMemory, params: {window: 2, summary: reader, path: kept/chat.json}}
  - {name: people, type: EntityMemory, params: {extractor: extractor, summarizer: summarizer, every: 1, half_life: 5}}
pipelines:
  - name: who
    nodes: [{name: extractor, inputs: [Query]}]
agents:
  - {name: a, params: {model: talker, tools: [calculator], memory: [chat, people]}}
  - {name: b, params: {model: talker, tools: [calculator], memory: chat}}
"""


def put(folder: Path, text: str) -> Path:
    path = folder / "agents.yml"
    path.write_text(text)
    assert check(path) == []
    return path


def test_an_agent_of_a_file_remembers(tmp_path: Path) -> None:
    path = put(tmp_path, FILE)
    agent = Agent.load_from_yaml(path, "a")
    agent.run("Greta lives in Oslo.")
    chat, people = agent.memories
    assert isinstance(chat, ConversationMemory)
    assert isinstance(people, EntityMemory)
    people.settled()
    assert [entity.name for entity in people.entities] == ["Greta"]
    (again,) = Agent.load_from_yaml(path, "b").memories
    assert isinstance(again, ConversationMemory)
    assert again.turns == chat.turns
    assert (tmp_path / "kept" / "chat.json").is_file()
    found = Pipeline.load_from_yaml(path, "who").run(query="Greta lives in Oslo.")
    assert found["entities"][0]["name"] == "Greta"


def test_what_was_loaded_is_written_as_it_was(tmp_path: Path) -> None:
    agent = Agent.load_from_yaml(put(tmp_path, FILE), "a")
    agent.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == agent
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="names files in"):
        agent.save_to_yaml(tmp_path / "other" / "b.yml")
    with pytest.raises(UsageError, match="was changed since it was loaded"):
        agent.with_memory(()).save_to_yaml(tmp_path / "c.yml")


def test_memories_made_in_code_are_written(tmp_path: Path) -> None:
    model = PromptModel(script=[{"finish": "Yes."}])
    people = EntityMemory(
        EntityExtractor(model), EntitySummarizer(model, characters=99), every=2, path=tmp_path / "p.json"
    )
    agent = Agent(model, [calculator], memory=[ConversationMemory(window=3, summary=model), people])
    agent.save_to_yaml(tmp_path / "a.yml")
    assert check(tmp_path / "a.yml") == []
    assert "path: p.json" in (tmp_path / "a.yml").read_text()
    again = Agent.load_from_yaml(tmp_path / "a.yml")
    again.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == again
    chat, entities = again.memories
    assert isinstance(chat, ConversationMemory)
    assert isinstance(entities, EntityMemory)
    assert chat.given["window"] == 3
    assert entities.given["every"] == 2
    assert entities.given["summarizer"].given["characters"] == 99


def test_what_a_file_cannot_say_is_an_error(tmp_path: Path) -> None:
    class Own:
        async def recall(self, question: str) -> Recalled:
            return Recalled((Message("user", "x"),))

        async def remember(self, question: str, answer: str) -> None: ...

    (tmp_path / "sub").mkdir()
    elsewhere = ConversationMemory(path=tmp_path / "m.json")
    for memory, problem in ((Own(), "a Own cannot be written"), (elsewhere, "is not under")):
        with pytest.raises(UsageError, match=problem):
            Agent(PromptModel(script=["x"]), [calculator], memory=memory).save_to_yaml(tmp_path / "sub" / "a.yml")


@pytest.mark.parametrize(
    ("said", "file"),
    [
        ("with_memory: true", None),
        ("with_memory: true, memory_type: checkpointer", None),
        ("with_memory: true, memory_type: store, store_config: {path: m.json}", "m.json"),
    ],
)
def test_seed_003s_words(said: str, file: str | None, tmp_path: Path) -> None:
    path = put(tmp_path, f"agents: [{{name: a, params: {{script: [{{finish: y}}], tools: [calculator], {said}}}}}]")
    agent = Agent.load_from_yaml(path)
    agent.run("one")
    agent.run("two")
    (memory,) = agent.memories
    assert isinstance(memory, ConversationMemory)
    assert len(memory.turns) == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(filter(None, ["agents.yml", file]))


def test_with_memory_false_is_none(tmp_path: Path) -> None:
    said = "with_memory: false, memory_type: checkpointer"
    path = put(tmp_path, f"agents: [{{name: a, params: {{script: [x], tools: [calculator], {said}}}}}]")
    assert Agent.load_from_yaml(path).memories == ()


def test_a_memory_may_not_be_kept_outside_of_the_files_folder(tmp_path: Path) -> None:
    path = tmp_path / "agents.yml"
    path.write_text(FILE.replace("kept/chat.json", "../chat.json"))
    with pytest.raises(DataError, match=r"agents.yml:6:87: path: '../chat.json' leads out of this file's folder"):
        Agent.load_from_yaml(path, "b")
