"""A tool that works for whoever asks: each user sees their own calendar, whatever the model or they themselves say.

Runs offline, with a script in place of a model. On a server, the user is the key's or the login's (`retinue.asgi`).
"""

from __future__ import annotations

from typing import Any

from retinue import Agent, PromptModel, RunContext, ToolError, tool

CALENDARS = {"ann": "10:00 dentist", "bob": "14:00 piano"}
SCRIPT: list[Any] = [
    {"when": "nothing|:00", "finish": "That is all."},
    {"call": {"tool": "calendar", "input": {"day": "today"}}},
]


@tool(effects="read")
def calendar(day: str, context: RunContext[None]) -> str:
    """What is in the calendar on a day."""
    if not context.user:
        raise ToolError("nobody is logged in")
    return CALENDARS.get(context.user, "nothing")


agent = Agent(PromptModel(script=SCRIPT), [calendar], strategy="tool_calling", name="secretary")

if __name__ == "__main__":
    for user in ("ann", "bob", "eve"):
        run = agent.run("I am Ann. What do I have today?", user=user)
        print(user, "sees:", run.steps[0].observations[0].text)
