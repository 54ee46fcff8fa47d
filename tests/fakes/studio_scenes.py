"""Runs worth looking at: agents whose models a script answers for, and the runs that tests and screenshots show."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import insert

from fakes.app_server import Answer, Serving
from fakes.kept_runs import new_run
from fakes.studio_browser import Visitor
from fakes.until import until
from retinue import Agent, PromptModel, tool
from retinue.core.events import Asked, Called, Event, Finished, Observed, Replied, Started
from retinue.core.serialization import dump
from retinue.core.values import AgentAction, Message, Observation, Reply, Usage
from retinue.net.retry import Retries
from retinue.store.api_keys import create_key
from retinue.store.run_queries import insert_run
from retinue.store.tables import events

Visit: TypeAlias = Callable[..., Visitor]
"""What makes visitors: of a key, or else the operator's."""
PRICE = {"input": 3, "output": 15}
INSTRUCTIONS = "You answer briefly, and name your sources."


@tool(effects="read")
def search(query: str) -> str:
    """Search the encyclopedia."""
    return (
        "Sarah Bernhardt (22 October 1844 – 26 March 1923) was a French stage actress who starred in some of the most "
        "popular plays of the late 19th and early 20th centuries."
    )


@tool(effects="read")
def calculate(expression: str) -> str:
    """Calculate an expression."""
    if expression == "1923 - 1844":
        return "79"
    raise ValueError(f"cannot read {expression!r}: write numbers with digits")


@tool
def send_mail(to: str, subject: str, body: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def _model(*rules: Any) -> PromptModel:
    return PromptModel(script=list(rules), price=PRICE)


def researcher() -> Agent:
    """Searches, miscalculates, calculates and answers."""
    rules = [
        {"when": "old", "say": "I need her dates.", "call": {"tool": "search", "input": {"query": "Sarah Bernhardt"}}},
        {"when": "stage actress", "call": {"tool": "calculate", "input": {"expression": "1923 minus 1844"}}},
        {"when": "cannot read", "call": {"tool": "calculate", "input": {"expression": "1923 - 1844"}}},
        {"when": "79", "finish": "Sarah Bernhardt died at 78: she was born in October 1844 and died in March 1923."},
        {"when": "", "finish": "I do not know."},
    ]
    return Agent(
        _model(*rules), [search, calculate], name="researcher", strategy="tool_calling", instructions=INSTRUCTIONS
    )


def newsroom() -> Agent:
    """A team: an editor with a researcher and a critic."""
    critic = Agent(
        _model({"when": "", "finish": "Correct, but say why it is 78 and not 79."}),
        name="critic",
        strategy="tool_calling",
    )
    rules = [
        {"when": "Write", "call": {"tool": "researcher", "input": {"query": "How old did Sarah Bernhardt get?"}}},
        {"when": "died at 78", "call": {"tool": "critic", "input": {"query": "She died at 78."}}},
        {"when": "Correct", "finish": "Sarah Bernhardt died at 78, half a year before her 79th birthday."},
    ]
    return Agent(_model(*rules), [researcher(), critic], name="newsroom", strategy="tool_calling")


def clerk() -> Agent:
    """Sends mails, if a person approves."""
    mail = {"to": "ada@example.org", "subject": "Your order", "body": "It leaves today."}
    others = [{"tool": "send_mail", "input": mail | {"to": f"{name}@example.org"}} for name in ("ada", "eve")]
    rules = [
        {"when": "Tell them all", "call": others},
        {"when": "Tell", "say": "She should know today.", "call": {"tool": "send_mail", "input": mail}},
        {"when": "", "finish": "Ada was told."},
    ]
    return Agent(
        _model(*rules), [send_mail], name="clerk", strategy="tool_calling", require_human_feedback=["send_mail"]
    )


def office() -> Agent:
    """A team whose member needs approval."""
    rules = [
        {"when": "Tell", "call": {"tool": "clerk", "input": {"query": "Tell Ada."}}},
        {"when": "", "finish": "Done."},
    ]
    return Agent(_model(*rules), [clerk()], name="office", strategy="tool_calling")


def agents() -> Mapping[str, Agent]:
    """What is served."""
    away = Agent(PromptModel(script=[{"when": "", "error": 500}], retries=Retries(1)), name="away")
    words = " ".join(f"word{at}" for at in range(200))
    slow = Agent(
        PromptModel(script=[{"when": "", "finish": words, "pace": 0.05}]), name="slow", strategy="tool_calling"
    )
    echo = Agent(PromptModel(script=[{"when": "", "finish": "Hello."}]), name="echo", strategy="tool_calling")
    return {one.name: one for one in (researcher(), newsroom(), clerk(), office(), away, slow, echo)}


def new_key(served: Serving, *scopes: str, tenant: str = "default") -> str:
    """A key of the server; without scopes, one that may do everything."""
    made: str = served.in_loop(served.database.write(partial(create_key, tenant=tenant, scopes=scopes or None)))
    return made


def request(served: Serving, *given: Any, **more: Any) -> Answer:
    """What `served.ask` returns, asked in a thread of its own: the browser's loop runs in the test's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(served.ask, *given, **more).result()


class Scenes(NamedTuple):
    """The ids of the runs, and of a thread with two of them."""

    plain: str
    failed: str
    team: str
    waiting: str
    long: str
    thread: str


def ask(served: Serving, model: str, question: str, key: str) -> str:
    """Ask an agent in the background; the id of the run."""
    said = {"model": model, "input": question, "background": True}
    made = request(served, "POST", "/v1/responses", said, key=key)
    assert made.status == 200, made.text
    return "run_" + str(made.body["id"]).partition("_")[2]


def rests(served: Serving, run: str, key: str) -> str:
    """Wait until a run rests; its status."""
    status = ""

    def now() -> bool:
        nonlocal status
        status = request(served, "GET", f"/v1/runs/{run}", key=key).body["status"]
        return status not in ("queued", "in_progress", "cancelling")

    until(now)
    return status


def play(served: Serving, key: str, tenant: str = "default", steps: int = 1_000) -> Scenes:
    """Have all of the runs."""
    begun = {"messages": [{"role": "user", "content": "How old did Sarah Bernhardt get?"}]}
    thread = request(served, "POST", "/v1/threads", begun, key=key).body["id"]
    assistant = request(served, "POST", "/v1/assistants", {"model": "researcher"}, key=key).body["id"]
    long = add_long_run(served, tenant, steps)
    for _ in range(2):
        run = request(served, "POST", f"/v1/threads/{thread}/runs", {"assistant_id": assistant}, key=key).body["id"]
        assert rests(served, run, key) == "completed"
        if _ == 0:
            said = {"role": "user", "content": "And how old is that in days?"}
            request(served, "POST", f"/v1/threads/{thread}/messages", said, key=key)
    failed = ask(served, "away", "Is anybody there?", key)
    plain = ask(served, "researcher", "How old did Sarah Bernhardt get?", key)
    team = ask(served, "newsroom", "Write a sentence on the age that Sarah Bernhardt reached.", key)
    waiting = ask(served, "clerk", "Tell Ada that her order leaves today.", key)
    wanted = {failed: "failed", plain: "completed", team: "completed", waiting: "requires_action"}
    assert {run: rests(served, run, key) for run in wanted} == wanted
    return Scenes(plain, failed, team, waiting, long, thread)


def add_long_run(served: Serving, tenant: str, steps: int) -> str:
    """A run of so many steps, as its drive would have stored it."""
    run = f"run_{'1e' * 12}"
    began = time.time() - 3 * steps
    row = new_run(run, tenant=tenant, thread_id=None, kind="response", created_at=int(began), status="completed")
    request = {"model": "researcher", "store": True}
    ended: dict[str, Any] = {"holds": False, "started_at": int(began), "ended_at": int(began) + 2 * steps}
    ended |= {"prompt_tokens": 1_000 * steps, "completion_tokens": 20 * steps, "cached_tokens": 900 * steps}
    log = [
        {"run_id": run, "seq": at, "epoch": 0, "at": began + at * 0.5, "kind": kind, "payload": payload}
        for at, (kind, payload) in enumerate(map(dump, _many(steps)), 1)
    ]
    with served.database.engine.begin() as connection:
        insert_run(connection, row._replace(agent="researcher", request=request, **ended))
        connection.execute(insert(events), log)
    return run


def _many(steps: int) -> Iterator[Event]:
    yield Started("Read all the volumes.", "researcher", "tool_calling", "scripted", ("search",))
    usage = Usage(1_000, 20, 900)
    for step in range(1, steps + 1):
        action = AgentAction("search", {"query": f"volume {step}"}, id=f"call_{step}_0")
        news = Message("user", "Begin.") if step == 1 else Message("tool", f"Page {step - 1}. " * 30, call_id="c")
        yield Asked(step, 0, (news,))
        yield Replied(step, Reply("", usage, calls=(action,), seconds=0.4))
        yield Called(step, action)
        yield Observed(step, Observation(action.id, f"Page {step}. " * 30, seconds=0.3))
    yield Finished("All of them were read.", {"output": "All of them were read."})
