"""What a request makes of the agent that answers it."""

from __future__ import annotations

from retinue import Agent, PromptModel
from retinue.server.overrides import override_agent
from retinue.strategies import Auto


def test_the_instructions_of_a_request_stand_before_those_of_the_agent() -> None:
    agent = Agent(PromptModel(script=["x"]), instructions="You are a pirate.")
    assert override_agent(agent, {"instructions": " Be brief. "}).instructions == "Be brief.\n\nYou are a pirate."
    assert override_agent(agent, {}).instructions == "You are a pirate."
    assert agent.instructions == "You are a pirate."


def test_a_choice_of_tools_reaches_the_tool_calls_that_auto_may_choose() -> None:
    functions = [{"type": "function", "function": {"name": "look"}}]
    wishes = {"tools": functions, "tool_choice": "required", "parallel_tool_calls": False}
    other = override_agent(Agent(PromptModel(script=["x"])), wishes)
    assert isinstance(other.strategy, Auto)
    assert (other.strategy.calling.tool_choice, other.strategy.calling.parallel) == ("required", False)
