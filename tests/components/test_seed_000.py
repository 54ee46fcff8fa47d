"""Seed 000's program, over HTTP, against stand-ins that speak the vendors' formats: its transcript, line for line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.openai_server import OpenAIServer
from fakes.seed_000 import ABOUT, ANSWER, CALCULATOR, QUESTION, REPLIES, TRANSCRIPT
from fakes.serpapi_server import KEY, SerpAPIServer, organic
from retinue import Agent, Pipeline, PromptModel
from retinue.components import PromptNode, PromptTemplate, PythonRuntime, SerpAPIComponent


@pytest.fixture
def serpapi(monkeypatch: pytest.MonkeyPatch) -> Iterator[SerpAPIServer]:
    monkeypatch.setenv("SERPAPI_API_KEY", KEY)
    with SerpAPIServer() as server:
        server.found["Olivia Wilde's boyfriend"] = {
            "answer_box": {
                "type": "organic_result",
                "title": "Olivia Wilde and Jason Sudeikis' Relationship Timeline",
                "link": "https://example.com/timeline",
                "snippet": ABOUT,
                "snippet_highlighted_words": ["Wilde and Sudeikis"],
            },
            "organic_results": organic("Olivia Wilde is an American actress."),
        }
        server.found["Jason Sudeikis age"] = {
            "answer_box": {"type": "organic_result", "title": "Jason Sudeikis / Age", "answer": "47 years"},
            "organic_results": organic("Born: September 18, 1975."),
        }
        yield server


@pytest.fixture
def openai(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    monkeypatch.setenv("OPENAI_API_KEY", "the OpenAI key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    server.api_key = "the OpenAI key"
    server.replies += REPLIES
    return server


def the_agent(serpapi: SerpAPIServer) -> Agent:
    """As in the seed."""
    search = SerpAPIComponent(
        api_key=os.environ.get("SERPAPI_API_KEY"), name="Serp", inputs=["Query"], base_url=serpapi.url
    )
    prompt_model = PromptModel(model_name_or_path="text-davinci-003", api_key=os.environ.get("OPENAI_API_KEY"))

    calculator = Pipeline()
    calculator.add_node(
        PromptNode(
            model_name_or_path=prompt_model,
            default_prompt_template=PromptTemplate(prompt_text=CALCULATOR),
            output_variable="python_runtime_input",
        )
    )
    calculator.add_node(PythonRuntime())

    prompt_node = PromptNode(model_name_or_path=prompt_model, stop_words=["Observation:"])
    agent = Agent(prompt_node=prompt_node)
    agent.add_tool(
        "Search",
        search,
        "useful for when you need to answer questions about current events. You should ask targeted questions",
    )
    agent.add_tool("Calculator", calculator, "useful for when you need to answer questions about math")
    return agent


def test_the_seeds_program_gives_the_seeds_transcript(serpapi: SerpAPIServer, openai: OpenAIServer) -> None:
    result = the_agent(serpapi).run(QUESTION)
    assert result.transcript.splitlines() == TRANSCRIPT.splitlines()
    assert result.answer == ANSWER
    assert openai.replies == []


def test_what_was_sent_is_what_the_seed_sends(serpapi: SerpAPIServer, openai: OpenAIServer) -> None:
    the_agent(serpapi).run(QUESTION)
    assert {request.path for request in openai.asked} == {"/v1/completions"}
    prompts = [request.body["prompt"] for request in openai.asked]
    assert prompts[0].endswith(f"Begin!\nQuestion: {QUESTION}\nThought:")
    assert prompts[2].endswith("Action Input: Jason Sudeikis age\nObservation: 47 years\nThought:")
    assert prompts[3] == CALCULATOR.replace("$query", "47^0.23")
    assert openai.asked[0].body["stop"] == ["Observation:"]
    assert [asked["q"] for asked in serpapi.asked] == ["Olivia Wilde's boyfriend", "Jason Sudeikis age"]


def test_when_the_tools_fail_the_model_is_told_and_no_key_shows(serpapi: SerpAPIServer, openai: OpenAIServer) -> None:
    serpapi.failure = (429, f"Your account has run out of searches. Your key is {KEY}")
    openai.replies[3] = "final_result = 47 ^ 0.23"
    result = the_agent(serpapi).run(QUESTION)
    seen = [step.observations[0].text for step in result.steps if step.observations]
    assert seen[0] == "Search failed: SerpAPI answered 429: Your account has run out of searches. Your key is ***"
    assert "TypeError: unsupported operand type(s) for ^" in seen[2]
    assert "(line 1: final_result = 47 ^ 0.23)" in seen[2]
    assert KEY not in repr(result.events)


@pytest.mark.model
def test_the_seeds_calculator_with_the_embedded_model(embedded_model: Path) -> None:
    calculator = Pipeline()
    calculator.add_node(PromptNode("local", CALCULATOR, output_variable="python_runtime_input", max_length=200))
    calculator.add_node(PythonRuntime())
    assert calculator.run("47^0.23")["results"] == pytest.approx(2.4242784855673896)
