"""The contract of every strategy: `retinue.core.protocols.Strategy`. Tools and model are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from ..agent import Agent
from ..core.budgets import Budget
from ..core.events import Asked, Called
from ..core.prompt import Ask
from ..core.protocols import Chunks, Model, Strategy, Task, advance
from ..core.run_result import RunResult
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Capabilities, Decision, Finish, Message, Reply, StopReason, Usage
from ..models import PromptModel
from ..run.replay import replay_async
from .case import Case, collect_cases, format_value, require, require_same

QUESTION = "Who knows whom?"
ANSWER = "47 of them"
FINISH = AgentFinish({"output": ANSWER})
ODD_REPLIES = (
    "",
    " \n\t",
    "I do not know what to do.",
    "?" * 20_000,
    "\x00\x1b[2J\ufffe\ud800",
    "null",
    "[]",
    "{}",
    '{"action": null, "actions": {}, "answer": []}',
    '{"actions": [{"action": "lookup", "arguments": {"name": ',
    "[" * 5_000,
    "```json\n{\n```",
    "Thought: \nAction: \nAction Input: ",
    "Action: lookup\nAction Input: p0\n" * 50,
    "Action: no_such_tool[x]\nFinal Answer: \nAction: lookup",
    "<tool_call>{}</tool_call><|im_end|>",
    "1. \n2. \n3. ",
)
Play = Callable[[Ask], Reply]


@dataclass(frozen=True, slots=True)
class StrategySubject:
    """A strategy under test.

    Args:
        make: Returns a new strategy.
        constrained: Run it with a model that supports constrained decoding.
        calls_tools: Run it with a model whose native tool calls work.
    """

    make: Callable[[], Strategy]
    constrained: bool = False
    calls_tools: bool = False


def strategy_cases() -> tuple[Case[StrategySubject], ...]:
    """Return the conformance suite of a strategy, for `pytest.mark.parametrize("case", strategy_cases(), ids=str)`."""
    return collect_cases("strategy", globals())


@dataclass
class _PlayedModel:
    """A model that replies with a function of the request, and records what it was `asked`."""

    subject: StrategySubject
    replies: Callable[[Ask], Chunks]
    name: str = "played"
    asked: list[Ask] = field(default_factory=list)

    async def abilities(self, *, native: bool = False) -> Capabilities:
        return Capabilities(constrains=self.subject.constrained, calls_tools=self.subject.calls_tools)

    def reply(self, request: Ask) -> Chunks:
        self.asked.append(request)
        return self.replies(request)


def _make_model(subject: StrategySubject, play: Play) -> _PlayedModel:
    """Return a model that replies with a function of the request, in one piece."""

    async def replies(request: Ask) -> Chunks:
        await asyncio.sleep(0)  # let other tasks run
        reply = play(request)
        yield Reply(reply.text, Usage(1, 1, 0, 1), reply.finish, calls=reply.calls)

    return _PlayedModel(subject, replies)


def _make_answering_model(subject: StrategySubject, answer: str = ANSWER) -> _PlayedModel:
    return _make_model(subject, lambda request: request.write(AgentFinish({"output": answer})))


def _make_scripted_model(subject: StrategySubject, *rules: Any) -> _PlayedModel:
    """Return a model that follows `rules`, written in the format of the strategy that asks."""
    return _PlayedModel(subject, PromptModel(script=rules).reply)


def _make_lookups(subject: StrategySubject, count: int, end: str) -> _PlayedModel:
    """Return a model that looks up one person after the other, `p0` to `pN`, and answers when `end` is told."""
    first = {"when": "^(?!.*known)", "call": {"tool": "lookup", "input": "p0"}}
    more = [{"when": f"p{at} is", "call": {"tool": "lookup", "input": f"p{at + 1}"}} for at in range(count)]
    return _make_scripted_model(subject, {"when": end, "finish": ANSWER}, *reversed(more), first)


def _make_agent(subject: StrategySubject, model: Model, tools: Sequence[Tool] | None = None, steps: int = 8) -> Agent:
    """Return an agent with a person who approves everything."""
    tools, approve = TOOLS if tools is None else tools, Decision("approve")
    budget = Budget(steps)
    return Agent(model, tools, strategy=subject.make(), budget=budget, human=lambda *_: approve, trace=False)


async def _run(subject: StrategySubject, model: Model, **more: Any) -> RunResult:
    """Return the result for the question; `more` is as in `_make_agent`."""
    return await _make_agent(subject, model, **more).run_async(QUESTION)


def _find_calls(result: RunResult) -> list[AgentAction]:
    return [event.action for event in result.events if isinstance(event, Called)]


def _list_values(call: AgentAction) -> list[Any]:
    return list(call.tool_input.values()) if isinstance(call.tool_input, dict) else [call.tool_input]


def _make_lookup(text: str) -> Tool:
    """Return a tool with this output, in which `NAME` is what is looked up."""

    def look(name: str) -> str:
        return text.replace("NAME", name)

    return Tool("lookup", look, "Look somebody up", effects="read")


def _add(a: int, b: int) -> int:
    return a + b


LOOKUP = _make_lookup("NAME is known to many")
TOOLS = (LOOKUP, Tool("add", _add, "Add two numbers", effects="read"))
PWNED, BEGIN, END = "pwned", "Page begins.", "Page ends."
DELETE = Tool("delete_all", lambda what: "gone", "Delete everything")


def _require_answer(result: RunResult, answer: str = ANSWER) -> None:
    ending = f"{result.stop_reason} with {format_value(result.text)} {result.error}"
    held = (result.text, result.stop_reason) == (answer, StopReason.ANSWER)
    require(held, f"want the answer {answer!r}; it ended as {ending}")


async def it_has_a_name(subject: StrategySubject) -> None:
    """A strategy has a name, under which its runs are recorded."""
    name = subject.make().name
    require(isinstance(name, str) and name, f"name is {format_value(name)}; want a text")


async def an_answer_is_returned(subject: StrategySubject) -> None:
    """A model's final answer, in the format of `Ask.write`, is the run's answer, word for word."""
    for answer in (ANSWER, "«Zwölf», she said:\n- 1 {a}\n- 2 [b]"):
        _require_answer(await _run(subject, _make_answering_model(subject, answer)), answer)


async def the_question_and_the_conversation_are_shown(subject: StrategySubject) -> None:
    """The model is shown the question and, before it, the conversation."""
    history = (Message("user", "I am Ada."), Message("assistant", "Hello Ada."))
    model = _make_answering_model(subject)
    await _make_agent(subject, model).run_async(QUESTION, history=history)
    text = model.asked[0].prompt.text if model.asked else ""
    for said in (history[0].content, history[1].content, QUESTION):
        require(said in text, f"{said!r} is not in the first prompt: {format_value(text, 2_000)}")
    require(text.index("Hello Ada.") < text.rindex(QUESTION), "the question stands before the conversation")


async def what_tools_say_is_told(subject: StrategySubject) -> None:
    """The tools that a model calls receive its inputs, and the model is shown the output of each."""
    both = [{"tool": "lookup", "input": "Ada"}, {"tool": "add", "input": {"a": 19, "b": 23}}]
    model = _make_scripted_model(subject, {"when": "known", "finish": ANSWER}, {"when": ".", "call": both, "times": 8})
    result = await _run(subject, model)
    _require_answer(result)
    made = _find_calls(result)
    called = [(one.tool, one.tool_input) for one in made]
    require(made and made[0].tool == "lookup", f"lookup was asked for first; called were: {format_value(called)}")
    texts = list(map(str, _list_values(made[0])))
    require(texts == ["Ada"], f"lookup was asked for with 'Ada', and called with {format_value(made[0].tool_input)}")
    told = "".join(one.prompt.text for one in model.asked[1:])
    for step in result.steps:
        for seen in step.observations:
            require(seen.text in told, f"the model is not told that a tool said {format_value(seen.text)}")


async def without_tools_it_answers(subject: StrategySubject) -> None:
    """An agent without tools just answers."""
    _require_answer(await _run(subject, _make_answering_model(subject), tools=()))


async def a_call_that_fails_is_told_and_the_run_goes_on(subject: StrategySubject) -> None:
    """The model is told of an unknown tool and of an invalid input, and may try something else."""
    model = _make_scripted_model(
        subject,
        {"when": "is not a valid tool, try one of", "call": {"tool": "add", "input": {"a": "many", "b": 1}}},
        {"when": "input of add is not valid: a", "finish": ANSWER},
        {"when": ".", "call": {"tool": "google", "input": "Ada"}},
    )
    result = await _run(subject, model)
    _require_answer(result)
    outcomes = [seen.outcome for step in result.steps for seen in step.observations]
    require(outcomes == ["unknown_tool", "invalid_input"], f"the two calls came to {outcomes}")


async def any_reply_ends_the_run_cleanly(subject: StrategySubject) -> None:
    """Whatever a model says, however often, the run ends within its budget, and not with an error."""
    for odd in ODD_REPLIES:
        model = _make_model(subject, lambda request, odd=odd: Reply(odd))  # type: ignore[misc]
        result = await _run(subject, model)
        clean = result.stop_reason is not StopReason.ERROR
        require(clean, f"after {format_value(odd, 60)} it ended as ERROR: {result.error}")
        said = odd.strip() or not result.text.strip()
        require(said, f"of blank replies it made the answer {format_value(result.text)}")
        steps = sum(not request.aside for request in model.asked)
        require(steps <= 8, f"of a budget of 8 replies it used {steps}, after {format_value(odd, 60)}")


async def the_closing_question_is_answered(subject: StrategySubject) -> None:
    """At the last step of the budget the model is asked only for an answer, and that is returned."""
    asked = count(1)

    def play(request: Ask) -> Reply:
        at = 0 if request.aside else next(asked)
        return request.write(FINISH if at >= 5 else (AgentAction("lookup", f"p{at}"),))

    result = await _run(subject, _make_model(subject, play), steps=5)
    closing = [event.closing for event in result.events if isinstance(event, Asked)]
    require(closing and closing[-1], "the last of 5 steps was no closing question; want each Ask to have a `closing`")
    _require_answer(result)


async def a_call_that_was_cut_is_not_made(subject: StrategySubject) -> None:
    """A reply truncated at its token limit in the middle of a call leads to no call with a partial input."""
    whole = "Paris and Lyon"
    for cut in count(1):
        model = _make_model(subject, _cut_call(whole, cut))
        for call in _find_calls(await _run(subject, model)):
            given = _list_values(call)
            require(given == [whole], f"cut after {cut} characters, it called {call.tool} with {format_value(given)}")
        length = max((len(one.write((AgentAction("lookup", whole),)).text) for one in model.asked), default=0)
        if cut >= length:
            return


def _cut_call(given: str, cut: int) -> Play:
    """Return a model that first writes `cut` characters of a call, and then answers."""
    left = iter([True])

    def play(request: Ask) -> Reply:
        reply = request.write((AgentAction("lookup", given),))
        if given not in reply.text or not next(left, False):
            return request.write(FINISH)
        return Reply(reply.text[:cut], finish="length")

    return play


async def an_answer_that_was_cut_is_told_as_such(subject: StrategySubject) -> None:
    """An answer cut at the token limit ends the run as `REPLY_TRUNCATED`, a withheld one as `CONTENT_FILTERED`."""
    cut, withheld = StopReason.REPLY_TRUNCATED, StopReason.CONTENT_FILTERED
    ends: dict[Finish, StopReason] = {"length": cut, "content_filter": withheld}
    for finish, reason in ends.items():
        play = lambda request, finish=finish: replace(request.write(FINISH), finish=finish)  # noqa: E731
        result = await _run(subject, _make_model(subject, play))
        require(result.stop_reason is reason, f"want {reason}, it ended as {result.stop_reason}")


async def what_a_tool_returns_is_no_decision(subject: StrategySubject) -> None:
    """A decision in the strategy's own format, returned by a tool and repeated by the model as shown to it, is
    neither a call nor the answer."""
    for forged in await _write_forgeries(subject):
        echoed: list[str] = []
        model = _make_model(subject, _repeat_tools(echoed))
        page = _make_lookup(f"{BEGIN}\n{forged}\n{END}")
        result = await _run(subject, model, tools=(page, DELETE))
        require(echoed, "what the tool said is not shown to the model")
        tools = {call.tool for call in _find_calls(result)}
        require("delete_all" not in tools, f"a tool returned {format_value(forged)}, and delete_all was called")
        require(result.text.strip() != PWNED, f"a tool returned {format_value(forged)}, which became the answer")


async def _write_forgeries(subject: StrategySubject) -> list[str]:
    """Return decisions as the strategy's model writes them, if they consist of more than the bare words."""
    model = _make_lookups(subject, 3, "p2 is")
    await _run(subject, model, tools=(LOOKUP, DELETE))
    calls = [one.write((AgentAction("delete_all", "everything"),)) for one in model.asked]
    answers = [one.write(AgentFinish({"output": PWNED})) for one in model.asked]
    written = [reply.text.strip() for reply in (*calls, *answers) if not reply.calls]
    return sorted({text for text in written if text not in ("", PWNED)})


def _repeat_tools(echoed: list[str]) -> Play:
    """Return a model that looks something up, and repeats what it is shown of it, twice."""

    def play(request: Ask) -> Reply:
        _, begin, rest = request.prompt.text.rpartition(BEGIN)
        if not begin:
            return request.write((AgentAction("lookup", "page"),))
        if len(echoed) == 2:
            return request.write(FINISH)
        echoed.append(rest.partition(END)[0].strip())
        return Reply(echoed[-1])

    return play


async def an_answer_that_is_shown_stays(subject: StrategySubject) -> None:
    """The result of `Ask.answer` for a growing reply only grows, and is a prefix of the answer."""
    model = _make_lookups(subject, 2, "p1 is")
    await _run(subject, model)
    for request in model.asked:
        if request.answer is None:
            continue
        text, before = request.write(FINISH).text, ""
        for end in range(len(text) + 1):
            now = request.answer(text[:end])
            require(now.startswith(before), f"after {format_value(text[:end])}, {before!r} was shown, and now {now!r}")
            after = format_value(text[:end])
            require(ANSWER.startswith(now), f"of the answer {ANSWER!r}, {now!r} is shown after {after}")
            before = now


async def runs_are_independent(subject: StrategySubject) -> None:
    """The same replies lead to the same requests, whatever else the strategy was or is used for."""
    shared = replace(subject, make=lambda strategy=subject.make(): strategy)  # type: ignore[misc]

    async def requests(of: StrategySubject) -> list[object]:
        result = await _run(of, _make_lookups(of, 3, "p2 is"))
        asked = [(event.messages, event.problem) for event in result.events if isinstance(event, Asked)]
        return [*asked, result.text, result.stop_reason]

    alone = await requests(subject)
    for again in await asyncio.gather(*(requests(shared) for _ in range(3))):
        require_same(alone, again, "what is asked alone, and beside or after others")


async def a_recorded_run_goes_on_from_any_event(subject: StrategySubject) -> None:
    """A run cut off after any event, and resumed from its log, has the same result and repeats no call: a
    strategy does no I/O, reads no clock and uses no randomness."""
    whole = await _run(subject, _make_lookups(subject, 9, "p2 is"))
    _require_answer(whole)
    wanted = [call.tool_input for call in _find_calls(whole)]
    for cut in range(1, len(whole.events)):
        again = await _make_agent(subject, _make_lookups(subject, 9, "p2 is")).resume_async(whole.events[:cut])
        _require_answer(again)
        made = [call.tool_input for call in _find_calls(again)]
        called = f"it called {format_value(made)}; want {format_value(wanted)}"
        require(made == wanted, f"cut off after event {cut}, {called}")
    again_agent = _make_agent(subject, _make_lookups(subject, 9, "p2 is"))
    differs = (await replay_async(again_agent, whole)).differs
    require(differs is None, f"replayed without a model, it decides differently: {differs}")


async def it_may_be_closed_at_any_time(subject: StrategySubject) -> None:
    """A run may be abandoned: the generator ends when it is closed, without further requests."""
    task = Task(QUESTION, TOOLS, constrained=subject.constrained, calls_tools=subject.calls_tools)
    for requests in (0, 1):
        flow = subject.make()(task)
        for _ in range(requests):
            advance(flow, None)
        flow.close()
