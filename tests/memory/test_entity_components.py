"""Extraction and summaries as components: alone, in a pipeline, as tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.memories import Replying, literal
from fakes.openai_server import Answer, OpenAIServer
from retinue import Agent, Pipeline, PromptModel, Tool, UsageError
from retinue.memory import EntityExtractor, EntitySummarizer

TALK = "User: Greta lives in Oslo.\nAssistant: Oslo is in Norway.\nHuman: Greta likes sailing.\nI am Paul.\nAI: Hello!"


def test_a_transcript_becomes_entities_and_what_an_assistant_says_is_no_fact() -> None:
    model = Replying(literal)
    found = EntityExtractor(model).run(TALK)["entities"]
    assert [(one["name"], one["kind"], [said["fact"] for said in one["facts"]]) for one in found] == [
        ("Greta", "person", ["lives in Oslo", "likes sailing"]),
        ("User", "person", ["is Paul"]),
    ]
    assert model.asked[1].endswith(
        "Before: User: Greta lives in Oslo. Assistant: Oslo is in Norway.\n"
        "User: Greta likes sailing. I am Paul.\nFacts:"
    )


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        ("Who wrote Hamlet?", False),
        ("Is it? And why?", False),
        ("¿Quién es?", False),
        ("何ですか？", False),
        ("I am in Lima, is it warm?", True),
        ("I am in Lima. Is it warm?", True),
        ("Lima", True),
    ],
)
def test_a_plain_question_is_no_reason_to_ask_a_model(said: str, asks: bool) -> None:
    model = Replying(literal)
    EntityExtractor(model).run(said)
    assert len(model.asked) == asks


def test_what_was_said_before_only_shows_who_is_meant() -> None:
    model = Replying(
        lambda prompt: '[["Greta", "person", "is sixty", "age"], ["Greta", "person", "lives in Oslo", "home"]]'
    )
    found = EntityExtractor(model).run("She is sixty.", before="User: Greta lives in Oslo.")["entities"]
    assert found == [{"name": "Greta", "kind": "person", "facts": [{"about": "age", "fact": "is sixty"}]}]


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        ('[["Greta", "person", "likes tea", "likes"], ["Greta", "person", "likes te', ["likes tea"]),
        ('Sure!\n```json\n[["Greta", "person", "likes tea", "likes"]]\n```', ["likes tea"]),
        ('{"facts": [{"entity": "Greta", "kind": "person", "fact": "likes tea", "about": "likes"}]}', ["likes tea"]),
        ('[["Greta", "being", "likes\\ntea", "what"]]', ["likes tea"]),
        ('[["Greta", "person", 7, "likes"], ["Greta"], [], {}, null, [[]]]', []),
        ("", []),
        ("[]", []),
    ],
)
def test_replies_are_read_as_they_come(reply: str, facts: list[str]) -> None:
    found = EntityExtractor(Replying(lambda prompt: reply)).run("Greta likes tea.")["entities"]
    assert [said["fact"] for one in found for said in one["facts"]] == facts


def test_an_engine_that_knows_only_json_schema_is_held_to_objects(server: OpenAIServer) -> None:
    said = {"entity": "Greta", "kind": "person", "fact": "likes tea", "about": "likes"}
    server.replies += [Answer(json.dumps({"facts": [said]}))]
    model = PromptModel("fake-model", base_url=server.url)
    (entity,) = EntityExtractor(model).run("Greta likes tea.")["entities"]
    assert entity["facts"] == [{"about": "likes", "fact": "likes tea"}]


def test_a_summary_is_of_what_was_known_and_what_is_new() -> None:
    model = Replying(lambda prompt: '{"summary": "Greta, who lives in Oslo, is 60."}')
    known: dict[str, Any] = {"name": "Greta", "kind": "person", "summary": "Greta lives in Oslo.", "facts": ["is 60"]}
    given = [known, {**known, "facts": [{"about": "age", "fact": "is 60"}]}]
    found = EntitySummarizer(model).run(given)["entities"]
    assert found == [{"name": "Greta", "kind": "person", "summary": "Greta, who lives in Oslo, is 60."}] * 2
    assert model.asked[0] == model.asked[1]
    assert model.asked[0].endswith("About: Greta (person)\nKnown: Greta lives in Oslo.\nNew: is 60\nSummary:")


@pytest.mark.parametrize("reply", ['{"summary": "Greta lives in Rome."}', '{"summary": "Greta is 61."}', "", "{}"])
def test_where_a_summary_makes_things_up_the_facts_stand_for_it(reply: str) -> None:
    summarizer = EntitySummarizer(Replying(lambda prompt: reply), characters=40)
    (found,) = summarizer.run([{"name": "Greta", "facts": ["lives in Oslo", "is 60", "likes tea" * 9]}])["entities"]
    assert found["summary"] == "lives in Oslo; is 60; likes tealikes tea"


def test_both_in_a_pipeline() -> None:
    pipeline = Pipeline()
    pipeline.add_node(EntityExtractor(Replying(literal)), "Extract", ["Query"])
    pipeline.add_node(EntitySummarizer(Replying(literal)), "Summarize", ["Extract"])
    found = pipeline.run(query=TALK)["entities"]
    assert [(one["name"], one["summary"]) for one in found] == [
        ("Greta", "in short: lives in Oslo; likes sailing"),
        ("User", "in short: is Paul"),
    ]


def test_both_as_tools() -> None:
    model = Replying(literal)
    script = [
        {"when": "^Who", "call": {"tool": "extract", "input": "User: Greta lives in Oslo."}},
        {"when": "lives", "call": {"tool": "summarize", "input": "lives in Oslo\nis tall"}},
        {"when": "short", "finish": "done"},
    ]
    tools = [
        Tool("extract", EntityExtractor(model), effects="read"),
        Tool("summarize", EntitySummarizer(model), effects="read"),
    ]
    assert "The people, places, organizations" in tools[0].description
    result = Agent(PromptModel(script=script), tools).run("Who is it?")
    seen = [json.loads(observation.text) for observation in result.evidence]
    assert seen[0]["facts"] == [{"about": "home", "fact": "lives in Oslo"}]
    assert seen[1]["summary"] == "in short: lives in Oslo; is tall"


def test_a_summary_of_no_length_is_an_error() -> None:
    with pytest.raises(UsageError, match="characters must be at least 40"):
        EntitySummarizer(Replying(literal), characters=0)
