"""`react`: seed 000's transcript, its prompt, and models that are held to a pattern."""

from __future__ import annotations

import re

from fakes.said import Said
from retinue import Agent, PromptModel, Tool
from retinue.schema import Abilities
from retinue.strategies.react import React

QUESTION = "Who is Olivia Wilde's boyfriend? What is his current age raised to the 0.23 power?"
SEED = f"""\
Answer the following questions as best as you can. You have access to the following tools:
Search: useful for when you need to answer questions about current events. You should ask targeted questions
Calculator: useful for when you need to answer questions about math
Use the following format:
Question: the input question you must answer
Thought: you should always think about what to do
Action: the action to take, should be one of [Search, Calculator]
Action Input: the input to the action
Observation: the result of the action
... (this Thought/Action/Action Input/Observation can repeat N times)
Thought: I now know the final answer
Final Answer: the final answer to the original input question
Begin!
Question: {QUESTION}
Thought: I need to do some research to answer this question.
Action: Search
Action Input: Olivia Wilde's boyfriend
Observation: First linked in November 2011, Wilde and Sudeikis got engaged in January 2013. They later became parents, \
welcoming son Otis in 2014 and daughter Daisy in 2016.
Thought: I need to find out his age
Action: Search
Action Input: Jason Sudeikis age
Observation: 47 years
Thought: I need to raise it to the 0.23 power
Action: Calculator
Action Input: 47^0.23
Observation: 2.4242784855673896
Thought: I now know the final answer
Final Answer: Jason Sudeikis, Olivia Wilde's boyfriend, is 47 years old and his age raised to the 0.23 power is \
2.4242784855673896."""


def replies_and_observations(transcript: str) -> tuple[list[str], dict[str, str]]:
    """The replies in a transcript as a model stopped at "Observation:" gives them, and what each input yields."""
    turns = transcript.split(f"Question: {QUESTION}\nThought:", 1)[1]
    replies = [turn.split("Observation:", 1)[0] for turn in turns.split("\nThought:")]
    seen = re.findall(r"Action Input: (.*)\nObservation: (.*)\n", turns)
    return replies, dict(seen)


def test_the_transcript_equals_seed_000s_line_for_line() -> None:
    replies, seen = replies_and_observations(SEED)
    assert len(replies) == 4
    agent = Agent(PromptModel(script=replies))
    agent.add_tool(
        "Search",
        lambda query: seen[query],
        "useful for when you need to answer questions about current events. You should ask targeted questions",
    )
    agent.add_tool("Calculator", lambda query: seen[query], "useful for when you need to answer questions about math")
    result = agent.run(QUESTION)
    assert result.transcript.splitlines() == SEED.splitlines()
    assert "2.4242784855673896" in result.answer


def test_a_model_held_to_a_pattern_is_shown_examples_with_its_own_tools_names() -> None:
    model = Said([" I know\nFinal Answer:", " honest"], Abilities(constrains=True))
    tools = [Tool("Find", lambda query: "", "search an encyclopedia"), Tool("Sums", lambda query: "", "arithmetic")]
    result = Agent(model, tools).run("What is on the page?")
    assert "Action: Find\nAction Input: The Piano film director\n" in result.transcript
    assert "Action: Sums\nAction Input: 117^0.4" in result.transcript
    assert result.transcript.endswith("Thought: I know\nQuestion: What is on the page?\nFinal Answer: honest")


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
