"""`tool_calling`: native tool calls of an engine. If they do not work, `react_json` replaces it.

An engine that holds the model to a form gets a shorter prompt then, whose example makes two calls in one reply: a model
of 1.5B parameters otherwise makes one where several are asked for (bench/RESULTS.md, "Function calling").

Without tools it is a plain conversation: the messages are sent as they are, and the model's text is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply
from ..errors import UsageError
from .parsing.actions import UnreadableReply, finish_with, strip_tool_name
from .parsing.final_answer import read_plain_answer, uses_tool
from .parsing.lenient_json import find_values
from .parsing.tagged_calls import clean_called_name
from .parsing.text_calls import answer_beside_calls, read_calls_in_text
from .prompting.prompt_parts import flatten_tool_calls, read_prompt_text
from .react_json import ReactJson, name_argument
from .step_loop import ParsedReply, PromptTurn, TranscriptFormat, drive_steps, extend, format_observation

SYSTEM = "Use the tools to find out what you need. When you know the answer, give it briefly."
_EXPECTED = "Call one of the tools, or answer the question in plain text."
_EXPECTED_WITHOUT = "Answer in plain text."
_CLOSING = "No more tools can be called. Answer the question now, briefly, from what you have seen."
_Choice = Literal["auto", "required", "none"]


@dataclass(frozen=True)
class ToolCalling:
    """The strategy.

    Raises `UsageError` for a tool that does not exist.

    Args:
        system: Replaces the system message, which is omitted if there are no tools.
        trim_intermediate_steps: How many of the last steps stay in the prompt (-1: all).
        tool_choice: `auto`, `none`, `required`, or the name of the tool to call; the last two apply until a tool was
            called.
        parallel: Make all calls of a reply, instead of only the first.
    """

    system: str = SYSTEM
    trim_intermediate_steps: int = -1
    tool_choice: str = "auto"
    parallel: bool = True
    name: str = "tool_calling"
    native: bool = True

    def __call__(self, task: Task) -> Flow:
        """Call tools until the model replies with text and no call, which is the answer."""
        if task.tools and not task.calls_tools:
            prompt = read_prompt_text("tool_calling") if task.constrained else ""
            return (yield from ReactJson(prompt, trim_intermediate_steps=self.trim_intermediate_steps)(task))
        return (yield from drive_steps(_Calls(self, task), self.trim_intermediate_steps))


class _Calls(TranscriptFormat):
    __slots__ = ("_choice", "_most", "_offered", "_options", "_system")

    def __init__(self, strategy: ToolCalling, task: Task) -> None:
        super().__init__(task)
        self._system = strategy.system if task.tools or strategy.system != SYSTEM else ""
        self._choice, self._offered = _choose_tools(strategy.tool_choice, task.tools)
        self._most = None if strategy.parallel else 1
        self._options = {} if strategy.parallel or not task.tools else {"parallel_tool_calls": False}

    @property
    def expected(self) -> str:
        return _EXPECTED if self._task.tools else _EXPECTED_WITHOUT

    def format_question(self) -> PromptTurn:
        task = self._task
        system = (Message("system", self._system),) if self._system else ()
        history = task.history if task.tools else flatten_tool_calls(task.history)
        asked = any(message.role == "user" and message.content == task.question for message in task.history)
        if task.tools and asked and history[-1].role == "tool":  # the history has the question and results for it
            results = list(takewhile(lambda message: message.role == "tool", reversed(history)))[::-1]
            return PromptTurn((*system, *history), "\n".join(message.content for message in results))
        return PromptTurn((*system, *history, Message("user", task.question)), task.question)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        return Ask(
            extend(before, *turn.told),
            turn.news,
            self._format_decision,
            tools=self._offered,
            tool_choice=self._choice,
            answer=answer_beside_calls if self._task.tools else read_plain_answer,
            options=self._options,
            chat=True,
        )

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        if not self._task.tools:
            return self.ask_step(before, turn)
        asked = extend(before, *turn.told, Message("user", _CLOSING))
        tools = self._task.tools
        return Ask(asked, turn.news, _format_answer, tools=tools, tool_choice="none", answer=read_plain_answer)

    def read_step(self, reply: Reply) -> ParsedReply:
        if reply.calls:
            cut = reply.finish == "length"  # a call that it cut off is none, and the text beside it may be an answer
            with suppress(UnreadableReply) if cut else nullcontext():
                calls = reply.calls if cut else reply.calls[: self._most]
                actions = tuple(self._complete_call(call, reply) for call in calls)
                return ParsedReply(actions[: self._most], reply.text, reply.text.strip(), reply.state)
        if not reply.text.strip() and reply.finish == "stop":
            raise UnreadableReply("the reply is empty")
        if self._task.tools and self._choice != "none" and reply.finish == "stop":
            calls, before = read_calls_in_text(reply.text, self._task.tools)
            if calls:
                actions = tuple(self._complete_call(call, reply) for call in calls[: self._most])
                return ParsedReply(actions, before, before)
        return ParsedReply(finish_with(reply.text.strip(), reply.text))

    def read_answer(self, reply: Reply) -> AgentFinish:
        if reply.calls or uses_tool(reply.text, self._task.tools):
            return AgentFinish({}, reply.text)
        return finish_with(reply.text.strip(), reply.text)

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        if self._choice == "required":
            self._choice, self._offered = "auto", self._task.tools
        calls, told = [], []
        for action, one in zip(actions, seen, strict=True):
            calls.append(AgentAction(action.tool, action.tool_input, id=one.call_id))
            told.append(Message("tool", format_observation(one), call_id=one.call_id, tool=action.tool))
        news = "\n".join([message.content for message in told])
        return PromptTurn(tuple(told), news, Message("assistant", read.text, tuple(calls), state=read.state))

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        told = f"That could not be used: {problem}. {self.expected}"
        return PromptTurn((Message("user", told),), told, Message("assistant", reply.text or "(nothing)"))

    def _remind(self, turn: PromptTurn) -> tuple[Message, ...]:
        return (*turn.told, Message("user", self.expected))

    def _complete_call(self, call: AgentAction, reply: Reply) -> AgentAction:
        """Return the call with the exact name of its tool. Raises `UnreadableReply` if it is not complete."""
        given = call.tool_input
        if isinstance(given, str) and (reply.finish == "length" or given.lstrip()[:1] in ("{", "[")):
            values = next((one.value for one in find_values(given)), None)
            if not isinstance(values, dict):
                raise UnreadableReply(f"the arguments of {call.tool[:80]!r} are not complete JSON")
            given = values
        if not call.tool:
            raise UnreadableReply("a call names no tool")
        plain = strip_tool_name(clean_called_name(call.tool)).removesuffix("()")  # without what some models add to it
        known = any(tool.name == plain for tool in self._task.tools)
        return AgentAction(plain if known else call.tool, given, reply.text)

    def _format_decision(self, decided: Decided) -> Reply:
        if isinstance(decided, AgentFinish):
            return _format_answer(decided)
        return Reply("", calls=tuple(replace(one, tool_input=name_argument(one, self._task.tools)) for one in decided))


def _choose_tools(choice: str, tools: tuple[Tool, ...]) -> tuple[_Choice, tuple[Tool, ...]]:
    match choice:
        case "auto" | "required" | "none":
            return choice, tools
    named = tuple(tool for tool in tools if tool.name == choice)
    if not named:
        raise UsageError(f"tool_choice: there is no tool {choice!r}; want auto, required, none or a tool's name")
    return "required", named


def _format_answer(decided: Decided) -> Reply:
    return Reply(decided.output if isinstance(decided, AgentFinish) else "")
