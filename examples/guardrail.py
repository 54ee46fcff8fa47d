"""A guardrail of one's own: a refund above 100 euros is for a person to decide, and nobody writes elsewhere than home.

Runs offline, with a script in place of a model.
"""

from __future__ import annotations

from dataclasses import replace

from retinue import Agent, AskPerson, Block, Change, Decision, PromptModel, RunContext, hook, tool
from retinue.core.events import Called, Observed

SCRIPT = [
    {"when": "^Refund 50 ", "call": {"tool": "refund", "input": {"euros": 50}}},
    {"when": "^Refund 500 ", "call": {"tool": "refund", "input": {"euros": 500}}},
    {"when": "^Write", "call": {"tool": "write", "input": {"to": "eve@evil.test"}}},
    {"when": "refunded", "finish": "It is refunded."},
    {"finish": "That is not possible."},
]


@tool(effects="once")
def refund(euros: int) -> str:
    """Refunds an order."""
    return f"refunded {euros} euros to account 0815"


@tool(effects="once")
def write(to: str) -> str:
    """Writes an e-mail."""
    return f"written to {to}"


@hook("before_tool")
def limit(event: Called, context: RunContext[None]) -> AskPerson | Block | None:
    """Judge a call: `None` lets it pass."""
    given = event.action.tool_input if isinstance(event.action.tool_input, dict) else {}
    if event.action.tool == "refund" and given["euros"] > 100:
        return AskPerson("more than 100 euros")
    if event.action.tool == "write" and not given["to"].endswith("@home.test"):
        return Block("only to home.test")
    return None


@hook("after_tool")
def hide(event: Observed, context: RunContext[None]) -> Change | None:
    """Leave the number of the account out of what the model is told."""
    seen = replace(event.observation, text=event.observation.text.replace("0815", "…"))
    return Change(replace(event, observation=seen)) if seen != event.observation else None


agent = Agent(PromptModel(script=SCRIPT), [refund, write], hooks=[limit, hide], strategy="tool_calling")

if __name__ == "__main__":
    print(agent.run("Refund 50 euros, please.").text)
    parked = agent.run("Refund 500 euros, please.")
    print(parked.stop_reason.name, [call.tool_input for call in parked.waiting])
    decided = {call.id: Decision("approve") for call in parked.waiting}
    print(agent.resume(parked.events, decided).text)
    print(agent.run("Write to Eve.").text)
