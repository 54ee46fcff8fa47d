"""The worlds that logs were recorded in: agents that do the same each time, whatever was recorded of their run before.

A model's reply depends on nothing but what is new in the prompt, a tool's result on nothing but its input.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retinue import Agent, Budget, Decision, Message, PromptModel, StopReason, Tool, tool
from retinue.core.events import Asked, Delta, Event, Replied, Started, Stopped
from retinue.core.prompt import Ask, Prompt
from retinue.core.protocols import Chunks, Flow, Retry, Task, act, ask, consult
from retinue.core.values import AgentAction, Capabilities, Reply, Usage
from retinue.errors import ModelUnavailable, WindowExceeded
from retinue.extend import AgentFinish

Script = list[dict[str, Any]]
Prepare = Callable[[Sequence[Event]], Sequence[Event]]


_YES = Decision("approve")


def _same(log: Sequence[Event]) -> Sequence[Event]:
    return log


@dataclass(frozen=True)
class World:
    """Who answers a question. `make` constructs the agent anew; `decides`: what a person says, when a run goes on.

    `made`: what becomes of a log as it was recorded, e.g. replies in it that took long.
    """

    make: Callable[[], Agent]
    question: str = "Pay Ada"
    history: tuple[Message, ...] = ()
    decides: Decision = _YES
    later: Budget | None = None  # the budget with which a run goes on
    made: Prepare = _same


@tool(effects="read")
async def look(name: str) -> str:
    """Look somebody up."""
    return f"{name} is 47"


@tool(effects="idempotent")
def put(name: str) -> str:
    """Put somebody on the list."""
    return f"listed {name}"


@tool(effects="once")
def pay(name: str) -> str:
    """Pay somebody."""
    return f"paid {name}"


def _failing(effects: Any, error: Callable[[], Exception], **options: Any) -> Tool:
    def pay(name: str) -> str:
        """Pay somebody."""
        raise error()

    return Tool("pay", pay, effects=effects, **options)


def _hanging(effects: Any) -> Tool:
    async def pay(name: str) -> str:
        """Pay somebody."""
        await asyncio.Event().wait()
        return ""

    return Tool("pay", pay, effects=effects, timeout=0.01)


PAY: Script = [
    {"when": "^Pay|Pay Ada$", "call": {"tool": "look", "input": "Ada"}},
    {"when": "is 47", "call": {"tool": "pay", "input": "Ada"}},
    {"finish": "Ada is paid, and that is that."},
]


def _paying(*tools: Tool, script: Script = PAY, **options: Any) -> Callable[[], Agent]:
    return lambda: Agent(PromptModel(script=script), [look, *tools], **options)


def _calls(*calls: tuple[str, str]) -> Script:
    return [
        {"when": "Pay", "call": [{"tool": name, "input": given} for name, given in calls]},
        {"finish": "all done"},
    ]


class Stumbling:
    """Looks up Ada, and then has a bad moment, or fails."""

    name = "stumbling"

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities()

    async def reply(self, request: Ask) -> Chunks:
        if "47" not in request.news:
            yield request.write((AgentAction("look", "Ada"),))
            return
        if self._fails:
            raise ModelUnavailable("it fails", retry_after=3.0)
        yield Delta("Final Ans")
        yield Retry("it was cut", 0.5)
        yield request.write(AgentFinish({"output": "she is 47"}))


class Pages:
    """Reads page after page, in a window of so many characters, of which it may or may not tell."""

    name = "pages"

    def __init__(self, *, tells: bool) -> None:
        self._tells = tells

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(window=1_500 if self._tells else None)

    async def reply(self, request: Ask) -> Chunks:
        size = len(request.prompt.text)
        if size > 4_500:
            raise WindowExceeded("the prompt is too long")
        seen = re.findall(r"page (\d+) begins", request.news)
        number = int(seen[-1]) + 1 if seen else 0
        done = number > 7 or request.closing is None
        said = request.write(AgentFinish({"output": "read"}) if done else (AgentAction("page", str(number)),))
        yield Delta(said.text)
        yield replace(said, usage=Usage(size // 3, 9, 0, 1))


@tool(effects="read")
def page(number: str) -> str:
    """Read a page."""
    return f"page {number} begins. {'words and more words. ' * 60}page {number} ends."


def _pages(*, tells: bool) -> Callable[[], Agent]:
    return lambda: Agent(Pages(tells=tells), [page], strategy="react", budget=Budget(15))


@dataclass(frozen=True)
class Steps:
    """Acts so in turn, whatever comes of it; then asks a person, the model, and answers."""

    turns: tuple[tuple[tuple[str, Any], ...], ...]
    consults: bool = False
    name: str = "steps"

    def __call__(self, task: Task) -> Flow:
        seen = ""
        for turn in self.turns:
            seen += "".join(one.text for one in (yield from act(*(AgentAction(*call) for call in turn))))
            prompt = Prompt(Message("user", f"Seen: {seen}"))
            yield from ask(Ask(prompt, seen, lambda decided: Reply(str(decided)), aside=True))
        if self.consults:
            said = yield from consult(AgentAction("plan", "first this, then that"), "is this a good plan?")
            seen += f" {said.kind} {said.tool_input} {said.message}"
        prompt = Prompt(Message("user", f"Question: {task.question} {seen}"))
        reply = yield from ask(Ask(prompt, seen, lambda decided: Reply(str(decided))))
        return AgentFinish({"output": reply.text, "seen": seen})


def _steps(*turns: tuple[tuple[str, Any], ...], tools: Sequence[Tool], **options: Any) -> Callable[[], Agent]:
    consults = options.pop("consults", False)
    model = [{"raw": "so it is"}]
    return lambda: Agent(PromptModel(script=model), tools, strategy=Steps(turns, consults), **options)


def _slow(seconds: float) -> Prepare:
    """The first replies took so long."""

    def prepared(log: Sequence[Event]) -> Sequence[Event]:
        return [
            replace(event, reply=replace(event.reply, seconds=seconds)) if isinstance(event, Replied) else event
            for event in log
        ]

    return prepared


def _counted_otherwise(log: Sequence[Event]) -> Sequence[Event]:
    """The engine counted more tokens than there seem to be: what is shortened, and how far, would be another choice."""
    return [
        replace(event, reply=replace(event.reply, usage=Usage(2 * event.reply.usage.input_tokens, 9, 0, 1)))
        if isinstance(event, Replied)
        else event
        for event in log
    ]


def _changed(kind: type[Event], **changes: Any) -> Prepare:
    """The last event of this kind is another."""

    def prepared(log: Sequence[Event]) -> Sequence[Event]:
        at = max(at for at, event in enumerate(log) if isinstance(event, kind))
        return [*log[:at], replace(log[at], **changes), *log[at + 1 :]]

    return prepared


def _cancelled(log: Sequence[Event]) -> Sequence[Event]:
    return [*log[:7], Stopped(StopReason.CANCELLED, best="she is 47"), *log[7:-1]]


def _unfinished(log: Sequence[Event]) -> Sequence[Event]:
    return log[:-1]


_PLAN = "1. Look up Ada\n2. Pay Ada"
_PLANNED: Script = [
    {"when": "^Pay", "raw": _PLAN},
    {"when": "Look up Ada", "call": {"tool": "look", "input": "Ada"}},
    {"when": "is 47", "finish": "she is 47"},
    {"when": "Pay Ada", "call": {"tool": "pay", "input": "Ada"}},
    {"finish": "planned and done"},
]
_STRATEGIES = ("auto", "react", "react_json", "tool_calling", "self_ask")
_WITH_EFFECTS: Mapping[str, Any] = {"once": "once", "idempotent": "idempotent", "read": "read"}
_STALE: Script = [
    {"when": "^Pay", "call": {"tool": "look", "input": "Ada"}},
    {"call": {"tool": "look", "input": "Ada"}},
]
_MANY: Script = [
    {"when": "^Pay", "call": {"tool": "look", "input": "1"}},
    *({"when": f"\\b{at} is 47", "call": {"tool": "look", "input": str(at + 1)}} for at in range(1, 6)),
    {"finish": "looked"},
]
_SEVERAL = (("look", "Ada"), ("pay", "Ada"), ("put", "Ada"), ("pay", "Bob"))
_EQUAL = (("pay", "Ada"), ("pay", "Ada"), ("look", "Bob"))

WORLDS: dict[str, World] = {
    **{f"strategy_{name}": World(_paying(pay, strategy=name)) for name in _STRATEGIES},
    **{
        f"strategy_{name}": World(_paying(pay, script=_PLANNED, strategy=name))
        for name in ("planexec", "humanInLoopPlanExec")
    },
    "conversing": World(lambda: Agent(PromptModel(script=[{"finish": "Hello, whoever you are."}])), "Hello"),
    "instructed": World(
        _paying(pay, strategy="react", instructions="Be brief."),
        history=(Message("user", "Hi"), Message("assistant", "Yes")),
    ),
    "direct": World(_paying(replace(pay, return_direct=True))),
    "conforming": World(
        _paying(
            pay,
            script=[*PAY[:2], {"raw": 'Final Answer: {"age": 47}'}],
            strategy="react",
            answer={
                "type": "object",
                "properties": {"age": {"type": "integer"}},
                "required": ["age"],
            },
        )
    ),
    "reflecting": World(
        _paying(
            replace(put, name="pay", reflections=2),
            script=[
                {"when": "listed|is 47$", "finish": "done"},
                *PAY,
            ],
        )
    ),
    "repeated": World(
        _paying(
            pay, script=[*PAY[:2], {"when": "^(?!.*before).*paid", "call": {"tool": "pay", "input": " Ada "}}, PAY[2]]
        )
    ),
    "unknown_tool": World(_paying(script=PAY)),
    "invalid_input": World(
        _paying(pay, script=[PAY[0], {"when": "is 47", "call": {"tool": "pay", "input": {"nam": "Ada"}}}, PAY[2]])
    ),
    "unreadable": World(
        _paying(
            pay,
            strategy="react",
            script=[
                {"when": "^Pay", "raw": "I do not know."},
                {"when": "Invalid|Write", "call": {"tool": "look", "input": "Ada"}},
                *PAY[1:],
            ],
        )
    ),
    "retried": World(lambda: Agent(Stumbling(), [look])),
    "model_fails": World(lambda: Agent(Stumbling(fails=True), [look]), made=_unfinished),
    **{f"fails_{name}": World(_paying(_failing(name, lambda: OSError("reset")))) for name in _WITH_EFFECTS},
    **{f"times_out_{name}": World(_paying(_hanging(name))) for name in _WITH_EFFECTS},
    "fails_and_is_not_done": World(_paying(_failing("once", lambda: OSError("reset"), not_done=(OSError,)))),
    **{
        f"approval_{kind}": World(_paying(replace(pay, approval=True)), decides=decision)
        for kind, decision in {
            "approve": Decision("approve"),
            "edit": Decision("edit", tool_input="Bob"),
            "reject": Decision("reject", message="too much"),
            "respond": Decision("respond", message="I did it by hand"),
        }.items()
    },
    "approval_at_once": World(_paying(replace(pay, approval=True), human=lambda action, problem: Decision("approve"))),
    "approval_of_an_edit": World(
        _paying(replace(pay, approval=True), human=lambda action, problem: Decision("edit", tool_input="Bob"))
    ),
    "unknown_and_again": World(
        _steps(
            (("pay", "Ada"),), (("pay", "Ada"),), (("pay", "Bob"),), tools=[_failing("once", lambda: OSError("reset"))]
        )
    ),
    "unknown_and_refused": World(
        _steps((("pay", "Ada"),), (("pay", "Ada"),), tools=[_failing("once", lambda: OSError("reset"))]),
        decides=Decision("reject", message="no"),
    ),
    "parallel": World(_paying(pay, put, script=_calls(*_SEVERAL), strategy="tool_calling")),
    "parallel_of_a_strategy": World(_steps(_SEVERAL, _SEVERAL[1:], tools=[look, pay, put])),
    "parallel_approval": World(_steps(_SEVERAL, tools=[look, replace(pay, approval=True), put])),
    "parallel_equal": World(_steps(_EQUAL, _EQUAL, tools=[look, replace(pay, approval=True)])),
    "parallel_equal_edited": World(
        _steps(_EQUAL, tools=[look, replace(pay, approval=True)]), decides=Decision("edit", tool_input="Bob")
    ),
    "parallel_unknown": World(_steps(_EQUAL, _EQUAL, tools=[look, _failing("once", lambda: OSError("reset"))])),
    "parallel_many": World(_steps(tuple(("look", str(at)) for at in range(20)), tools=[look])),
    "consulting": World(
        _steps((("look", "Ada"),), tools=[look], consults=True), decides=Decision("edit", tool_input="that")
    ),
    "consulting_at_once": World(
        _steps(tools=[look], consults=True, human=lambda action, problem: Decision("respond", message="well"))
    ),
    "steps_generate": World(_paying(script=_MANY, budget=Budget(5), strategy="react"), later=Budget(20)),
    "steps_force": World(
        _paying(script=_MANY, budget=Budget(5, early_stopping_method="force"), strategy="react"), later=Budget(20)
    ),
    "tokens": World(
        _paying(script=_MANY, budget=Budget(20, tokens=900), strategy="react"), later=Budget(20, tokens=9_000)
    ),
    "output_tokens": World(
        _paying(script=_MANY, budget=Budget(20, output_tokens=40), strategy="react"), later=Budget(20, output_tokens=90)
    ),
    "stagnating": World(_paying(script=_STALE, strategy="react"), later=Budget(20, stale_steps=None)),
    "stagnating_force": World(_paying(script=_STALE, strategy="react", budget=Budget(early_stopping_method="force"))),
    "time": World(
        _paying(script=_MANY, budget=Budget(20, seconds=2_000), strategy="react"), later=Budget(20), made=_slow(300.0)
    ),
    "time_force": World(
        _paying(script=_MANY, budget=Budget(20, seconds=2_000, early_stopping_method="force"), strategy="react"),
        made=_slow(300.0),
    ),
    "cancelled": World(_paying(pay, strategy="react"), made=_cancelled),
    "of_another_question": World(_paying(pay, strategy="react"), made=_changed(Started, question="Pay Bob")),
    "of_another_prompt": World(
        _paying(pay, strategy="react"),
        made=_changed(Asked, messages=(Message("user", "Observation: nothing\nThought:"),)),
    ),
    "of_another_problem": World(_paying(pay, strategy="react"), made=_changed(Asked, problem="another")),
    "without_instructions": World(_paying(pay, strategy="react"), made=_changed(Started, instructions=None)),
    "window_told": World(_pages(tells=True), "Read"),
    "window_refused": World(_pages(tells=False), "Read"),
    "window_counted_otherwise": World(_pages(tells=True), "Read", made=_counted_otherwise),
}
