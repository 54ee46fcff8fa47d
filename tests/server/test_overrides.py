"""What a request makes of the agent that answers it."""

from __future__ import annotations

from retinue import Agent, PromptModel
from retinue.server.agents.overrides import override_agent
from retinue.strategies import Auto, ToolCalling
from retinue.strategies.wrappers.prompt_additions import with_instructions
from retinue.strategies.wrappers.reflection import with_reflection
from retinue.strategies.wrappers.wrapper import Wrapper


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


def test_a_choice_of_tools_reaches_the_strategy_within_others() -> None:
    within = with_reflection(with_instructions(ToolCalling(), "Be kind."))
    functions = [{"type": "function", "function": {"name": "look"}}]
    other = override_agent(
        Agent(PromptModel(script=["x"]), strategy=within), {"tools": functions, "tool_choice": "required"}
    )
    strategy = other.strategy
    while isinstance(strategy, Wrapper):
        strategy = strategy.inner
    assert isinstance(strategy, ToolCalling)
    assert strategy.tool_choice == "required"
