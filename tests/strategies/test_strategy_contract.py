"""Every strategy keeps to the contract of strategies, and the suite that says so finds those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from retinue import Message, Tool
from retinue.core.prompt import Ask
from retinue.core.protocols import Flow, Request, Sent, Strategy, Task, advance
from retinue.core.values import Reply
from retinue.extend import AgentAction, AgentFinish
from retinue.strategies import STRATEGIES, PlanExec, ReactJson, ToolCalling, simple
from retinue.strategies.parsing.react_text import parse
from retinue.strategies.react import React
from retinue.testing import Case, StrategySubject, strategy_cases


def own_prompt(inputs: Mapping[str, Any]) -> str:
    chat = "".join(f"{message.role}: {message.content}\n" for message in inputs["chat_history"])
    steps = "".join(f"{action.log}\nObservation: {seen}\n" for action, seen in inputs["intermediate_steps"])
    return f"{chat}Question: {inputs['input']}\n{steps}"


def own_parse(text: str) -> AgentAction | AgentFinish:
    return parse(text, [Tool("lookup", lambda name: name)]).decision


ALL: dict[str, Strategy] = {
    **STRATEGIES,
    "planexec that calls": PlanExec(executor=ToolCalling(), check=True),
    "own": simple("own", prompt=own_prompt, parse=own_parse),
    "react_json that forgets": ReactJson(trim_intermediate_steps=1),
}
ABILITIES = {"free": (False, False), "held": (True, False), "calling": (False, True)}


@pytest.mark.matrix
@pytest.mark.parametrize("abilities", ABILITIES.values(), ids=ABILITIES)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", strategy_cases(), ids=str)
def test_a_strategy_keeps_to_the_contract(case: Case[StrategySubject], name: str, abilities: tuple[bool, bool]) -> None:
    case.run(StrategySubject(lambda: ALL[name], *abilities))


# ── strategies that break it ─────────────────────────────────────────────────────────────────────


class Honest:
    """Reasons as `react` does; those below change what it asks, what it is sent, or what it comes to."""

    name = "own"

    def __call__(self, task: Task) -> Flow:
        inner, sent = React()(self.task(task)), None
        while not isinstance(request := advance(inner, sent), AgentFinish):
            sent = self.sent((yield self.asked(request)))
        return self.ended(request)

    def task(self, task: Task) -> Task:
        return task

    def asked(self, request: Request) -> Request:
        return request

    def sent(self, sent: Sent) -> Sent:
        return sent

    def ended(self, finish: AgentFinish) -> AgentFinish:
        return finish


class Nameless(Honest):
    name = ""


class Shouting(Honest):
    def ended(self, finish: AgentFinish) -> AgentFinish:
        return AgentFinish({"output": finish.output.upper()})


class Forgetful(Honest):
    def task(self, task: Task) -> Task:
        return replace(task, history=())


class Deaf(Honest):
    def sent(self, sent: Sent) -> Sent:
        return tuple(replace(one, text="known") for one in sent) if isinstance(sent, tuple) else sent


class Helpless(Honest):
    def task(self, task: Task) -> Task:
        return replace(task, question=f"{task.question} With {task.tools[0].name}!")


class Despairing(Honest):
    def sent(self, sent: Sent) -> Sent:
        if isinstance(sent, tuple) and any(one.outcome != "result" for one in sent):
            raise ValueError("a call failed")
        return sent


class Strict(Honest):
    def sent(self, sent: Sent) -> Sent:
        if isinstance(sent, Reply) and not sent.text.strip():
            raise ValueError("nothing said")
        return sent


class Unending(Honest):
    def asked(self, request: Request) -> Request:
        return replace(request, closing=None) if isinstance(request, Ask) else request


class Guessing(Honest):
    def sent(self, sent: Sent) -> Sent:
        return replace(sent, finish="stop") if isinstance(sent, Reply) else sent


class Gullible(Honest):
    """Shows the model what a tool said as it is."""

    seen = ""

    def __call__(self, task: Task) -> Flow:
        return (yield from Gullible.flow(type(self)(), task))

    def flow(self, task: Task) -> Flow:
        return (yield from super().__call__(task))

    def sent(self, sent: Sent) -> Sent:
        self.seen = sent[0].text if isinstance(sent, tuple) else ""
        return sent

    def asked(self, request: Request) -> Request:
        if isinstance(request, Ask) and self.seen:
            return replace(request, prompt=request.prompt.add(Message("user", self.seen)))
        return request


class Wavering(Honest):
    def asked(self, request: Request) -> Request:
        return replace(request, answer=lambda text: text[-3:]) if isinstance(request, Ask) else request


class Counting(Honest):
    def __init__(self) -> None:
        self.runs = count()

    def task(self, task: Task) -> Task:
        return replace(task, question=f"{next(self.runs)}. {task.question}")


class Dicing(Honest):
    dice = count()

    def task(self, task: Task) -> Task:
        return replace(task, question=f"{next(Dicing.dice)}. {task.question}")


class Clinging(Honest):
    def __call__(self, task: Task) -> Flow:
        try:
            return (yield from super().__call__(task))
        except GeneratorExit:
            return (yield from super().__call__(task))


@pytest.mark.parametrize("case", strategy_cases(), ids=str)
def test_a_strategy_of_ones_own_keeps_to_the_contract(case: Case[StrategySubject]) -> None:
    case.run(StrategySubject(Honest))


@pytest.mark.parametrize(
    ("kind", "clause", "problem"),
    [
        (Nameless, "it has a name", "name is ''; want a text"),
        (Shouting, "an answer is returned", "it ended as ANSWER with '47 OF THEM'"),
        (Forgetful, "the question and the conversation are shown", "'I am Ada.' is not in the first prompt"),
        (Deaf, "what tools say is told", "the model is not told that a tool said 'Ada is known to many'"),
        (Helpless, "without tools it answers", "it ended as ERROR .*IndexError"),
        (Despairing, "a call that fails is told and the run goes on", "it ended as ERROR .*a call failed"),
        (Strict, "any reply ends the run cleanly", "after '' it ended as ERROR: .*nothing said"),
        (Unending, "the closing question is answered", "want each Ask to have a `closing`"),
        (Guessing, "a call that was cut is not made", "characters, it called lookup with "),
        (Guessing, "an answer that was cut is told as such", "want REPLY_TRUNCATED, it ended as ANSWER"),
        (Gullible, "what a tool returns is no decision", "and delete_all was called|which became the answer"),
        (Wavering, "an answer that is shown stays", "was shown, and now|is shown after"),
        (Counting, "runs are independent", "beside or after others: .*0. Who knows.* / .*1. Who knows"),
        (Dicing, "a recorded run goes on from any event", "unexpectedly raised LogMismatch: the log does not fit"),
        (Clinging, "it may be closed at any time", "unexpectedly raised RuntimeError: generator ignored GeneratorExit"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_strategy_is_found_and_the_clause_named(kind: type[Honest], clause: str, problem: str) -> None:
    (case,) = [one for one in strategy_cases() if one.name == clause]
    with pytest.raises(AssertionError, match=f"^strategy: {clause}: .*({problem})"):
        case.run(StrategySubject(kind))
