"""An agent that looks places up and answers, and a team around it, for tests of what becomes of their runs."""

from __future__ import annotations

from typing import Any

from fakes.app_server import Serving
from fakes.until import until
from retinue import Agent, PromptModel, Tool
from retinue.store.api_keys import create_key

PROMPT = "The secret of the house is nine."
SCRIPT = [
    {"when": "In Oslo it snows", "finish": "It snows."},
    {"when": "it rains", "finish": "It rains."},
    {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}},
]


class Windows:
    """What was looked at."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.paid: list[int] = []

    def look(self, place: str) -> str:
        """Look at a place."""
        self.seen.append(place)
        return f"In {place} it rains."

    def pay(self, euros: int) -> str:
        """Pay."""
        self.paid.append(euros)
        return f"paid {euros}"


def looking(windows: Windows, name: str = "looks", **options: Any) -> Agent:
    """An agent that looks at Rome, and says what it saw."""
    look = Tool("look", windows.look, "Look at a place", effects="read")
    given = {"strategy": "react", "instructions": PROMPT, "trace": False, **options}
    script = given.pop("script", SCRIPT)
    return Agent(PromptModel(script=script), [look, *given.pop("tools", ())], name=name, **given)


def paying(windows: Windows) -> Agent:
    """An agent that looks at Rome, pays once a person approves, and is done."""
    pay = Tool("pay", windows.pay, "Pay", effects="once", approval=True)
    script = [
        {"when": "paid|refused|enough", "finish": "Done."},
        {"when": "it (rains|snows)", "call": {"tool": "pay", "input": {"euros": 5}}},
        {"when": "", "call": {"tool": "look", "input": {"place": "Rome"}}},
    ]
    return looking(windows, "pays", tools=[pay], script=script)


def boss(windows: Windows) -> Agent:
    """The top of a team whose member looks."""
    script = [{"when": "It rains", "finish": "Wet."}, {"when": "", "call": {"tool": "looks", "input": "What of Rome?"}}]
    return Agent(PromptModel(script=script), [looking(windows)], name="boss", strategy="react", trace=False)


def completion(served: Serving, agent: str = "looks", **more: Any) -> str:
    """A run of a chat completion, by its id."""
    asked = {"model": agent, "messages": [{"role": "user", "content": "How is Rome?"}], "store": True}
    answer = served.ask("POST", "/v1/chat/completions", asked, **more)
    assert answer.status == 200, answer.text
    return str(served.ask("GET", "/v1/runs?kind=chat&limit=1", **more).body["data"][0]["id"])


def rested(served: Serving, run_id: str, **more: Any) -> dict[str, Any]:
    """The run once it has ended, or waits."""

    def found() -> dict[str, Any] | None:
        run: dict[str, Any] = served.ask("GET", f"/v1/runs/{run_id}", **more).body
        return None if run["status"] in ("queued", "in_progress", "cancelling") else run

    run = until(found)
    assert run is not None
    return run


def events_of(served: Serving, run_id: str, **more: Any) -> list[dict[str, Any]]:
    """The events of a run."""
    page = served.ask("GET", f"/v1/runs/{run_id}/events?limit=100", **more)
    return list(page.body["data"])


def seeing_key(served: Serving, tenant: str = "default") -> str:
    """A key that sees the prompts."""
    return str(served.in_loop(served.database.write(lambda c: create_key(c, tenant, scopes=("all", "prompts")))))
