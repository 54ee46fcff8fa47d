"""`react`: seed 000's transcript, its prompt, and models that are held to a pattern."""

from __future__ import annotations

import re

from fakes.said import Said
from fakes.seed_000 import QUESTION, TRANSCRIPT
from retinue import Agent, PromptModel, Tool
from retinue.core.values import Capabilities
from retinue.strategies.react import React
from retinue.tools import calculator


def replies_and_observations(transcript: str) -> tuple[list[str], dict[str, str]]:
    """The replies in a transcript as a model stopped at "Observation:" gives them, and what each input yields."""
    turns = transcript.split(f"Question: {QUESTION}\nThought:", 1)[1]
    replies = [turn.split("Observation:", 1)[0] for turn in turns.split("\nThought:")]
    seen = re.findall(r"Action Input: (.*)\nObservation: (.*)\n", turns)
    return replies, dict(seen)


def test_the_transcript_equals_seed_000s_line_for_line() -> None:
    replies, seen = replies_and_observations(TRANSCRIPT)
    assert len(replies) == 4
    agent = Agent(PromptModel(script=replies))
    agent.add_tool(
        "Search",
        lambda query: seen[query],
        "useful for when you need to answer questions about current events. You should ask targeted questions",
    )
    agent.add_tool("Calculator", lambda query: seen[query], "useful for when you need to answer questions about math")
    result = agent.run(QUESTION)
    assert result.transcript.splitlines() == TRANSCRIPT.splitlines()
    assert "2.4242784855673896" in result.answer


def test_a_model_held_to_a_pattern_is_shown_examples_of_its_tools_and_the_question_once_more() -> None:
    model = Said([" I know\nFinal Answer:", " honest"], Capabilities(constrains=True))
    result = Agent(model, [calculator]).run("What is on the page?")
    assert "Action: Calculator\nAction Input: (62 + 14) / 7\nObservation: 10.857142857142858\n" in result.transcript
    assert result.transcript.endswith("Thought: I know\nQuestion: What is on the page?\nFinal Answer: honest")


def test_a_model_that_is_held_to_no_pattern_is_shown_none() -> None:
    model = Said([" I know\nFinal Answer: honest"], Capabilities())
    assert "(62 + 14) / 7" not in Agent(model, [calculator], strategy="react").run("What is on the page?").transcript


def test_a_tool_with_several_arguments_is_described_with_its_json() -> None:
    def weather(city: str, days: int = 3) -> str:
        """Forecast the weather.

        Args:
            city: Where.
        """
        return f"{days} sunny days in {city}"

    script = ['Action: weather\nAction Input: {"city": "Paris", "days": 2}', "Final Answer: sun"]
    result = Agent(PromptModel(script=script), [weather]).run("?")
    line = (
        'weather: Forecast the weather. (Action Input is JSON: {"city": string (Where.), "days": integer (optional)})'
    )
    assert line in result.transcript
    assert result.steps[0].observations[0].text == "2 sunny days in Paris"


def test_your_own_prompt_is_filled_in_and_nothing_in_it_is_evaluated() -> None:
    strategy = React(prompt="$question|$tool_names|$unknown|{question}|${question.upper}\n")
    result = Agent(PromptModel(script=["Final Answer: x"]), [Tool("A", lambda query: query)], strategy=strategy).run(
        "why $tools?"
    )
    assert result.transcript.startswith("why $tools?|A|$unknown|{question}|${question.upper}\nThought:")


def test_an_answer_that_was_cut_at_its_limit_ends_with_its_last_whole_sentence() -> None:
    for said, answer in (
        (" Paris is big. Lyon is sm", "Paris is big."),
        (" Paris is the capital", "Paris is the capital"),
        (" Paris.", "Paris."),
    ):
        model = Said([" I know\nFinal Answer:", said], Capabilities(constrains=True))
        tools = [Tool("Find", lambda query: "", "search an encyclopedia")]
        assert Agent(model, tools, strategy=React(answer_chars=15)).run("How big is Paris?").answer == answer
