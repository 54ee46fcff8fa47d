"""Agents of other servers as members of a team: one by OpenAI's API, one by A2A, which asks a person.

    python examples/remote_agents.py

runs without a network and without a model: the other server is a Retinue on this machine, and the models are scripts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where the server for tests is

from fakes.app_server import KEY, Serving
from retinue import A2AAgent, Agent, Decision, PromptModel, RemoteAgent, tool
from retinue.extend import AgentAction


@tool(approval=True, effects="once")
def book(place: str) -> str:
    """Books a table."""
    return f"A table at {place} is booked."


def critic() -> Agent:
    """An agent of the other server."""
    return Agent(PromptModel(script=[{"when": "", "finish": "Nopi is good."}]), name="critic")


def waiter() -> Agent:
    """Another one, which needs approval."""
    script = [
        {"when": "booked", "finish": "Done: Nopi, at eight."},
        {"when": "", "call": {"tool": "book", "input": "Nopi"}},
    ]
    return Agent(PromptModel(script=script), [book], name="waiter", strategy="tool_calling")


def approve(action: AgentAction, problem: str) -> Decision:
    """Decide as a person would."""
    print(problem)
    return Decision("approve")


def main() -> None:
    """Ask an agent that asks both."""
    with TemporaryDirectory() as folder, Serving(Path(folder), {"critic": critic(), "waiter": waiter()}) as other:
        team = [
            RemoteAgent(other.url, "critic", KEY, name="critic"),
            A2AAgent(f"{other.url}/a2a/waiter", KEY, name="waiter"),
        ]
        script = [
            {"when": "dinner", "call": {"tool": "critic", "input": "Where is it good?"}},
            {"when": "good", "call": {"tool": "waiter", "input": "A table at Nopi, please."}},
            {"when": "Done", "finish": "You have a table at Nopi at eight."},
        ]
        leader = Agent(PromptModel(script=script), team, human=approve, strategy="tool_calling", trace=False)
        done = leader.run("Find me dinner.")
        print(done.answer)
        print(f"{done.usage.runs} runs of members")


if __name__ == "__main__":
    main()
