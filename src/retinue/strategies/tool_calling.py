"""`tool_calling`: native tool calls of an engine. If they do not work, `react_json` replaces it.

An engine that holds the model to a form gets a shorter prompt then, whose example makes two calls in one reply: a model
of 1.5B parameters otherwise makes one where several are asked for (bench/RESULTS.md, "Function calling").

Without tools it is a plain conversation: the messages are sent as they are, and the model's text is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .step_loop import ParsedReply, PromptTurn, drive_steps, extend, format_observation

SYSTEM = "Use the tools to find out what you need. When you know the answer, give it briefly."
_EXPECTED = "Call one of the tools, or answer the question in plain text."
_EXPECTED_WITHOUT = "Answer in plain text."
_CLOSING = "No more tools can be called. Answer the question now, briefly, from what you have seen."
_Choice = Literal["auto", "required", "none"]
_CHOICES: Mapping[str, _Choice] = {"auto": "auto", "required": "required", "none": "none"}


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


class _Calls:
    """The format: messages, calls and their results."""

    def __init__(self, strategy: ToolCalling, task: Task) -> None:
        self._system = strategy.system if task.tools or strategy.system != SYSTEM else ""
        self._task = task
        self._choice, self._offered = _choose_tools(strategy.tool_choice, task.tools)
        self._most = None if strategy.parallel else 1
        self._options = {} if strategy.parallel or not task.tools else {"parallel_tool_calls": False}
        self._expected = _EXPECTED if task.tools else _EXPECTED_WITHOUT

    def format_question(self) -> PromptTurn:
        task = self._task
        system = (Message("system", self._system),) if self._system else ()
        history = task.history if task.tools else flatten_tool_calls(task.history)
        if task.tools and _is_continuing_history(task):
            return PromptTurn(
                (*system, *history), "\n".join(message.content for message in _find_last_results(history))
            )
        return PromptTurn((*system, *history, Message("user", task.question)), task.question)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = extend(before, *turn.told)
        return Ask(
            asked,
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
        asking = Ask(asked, turn.news, _format_answer, tools=tools, answer=read_plain_answer)
        return replace(asking, tool_choice="none")

    def read_step(self, reply: Reply) -> ParsedReply:
        if reply.calls and not (reply.finish == "length" and self._has_incomplete_call(reply)):
            actions = tuple(self._complete_call(call, reply) for call in reply.calls[: self._most])
            return ParsedReply(actions, reply.text, reply.text.strip(), reply.state)
        if not reply.text.strip() and reply.finish == "stop":
            raise UnreadableReply("the reply is empty")
        if self._task.tools and self._choice != "none" and reply.finish == "stop":
            calls, before = read_calls_in_text(reply.text, self._task.tools)
            if calls:
                actions = tuple(self._complete_call(call, reply) for call in calls[: self._most])
                return ParsedReply(actions, before, before)
        return ParsedReply(finish_with(reply.text.strip(), reply.text))

    def _has_incomplete_call(self, reply: Reply) -> bool:
        """Return whether a call in the reply is incomplete."""
        try:
            return not [self._complete_call(call, reply) for call in reply.calls]
        except UnreadableReply:
            return True

    def read_answer(self, reply: Reply) -> AgentFinish:
        if reply.calls or uses_tool(reply.text, self._task.tools):
            return AgentFinish({}, reply.text)
        return finish_with(reply.text.strip(), reply.text)

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        if self._choice == "required":
            self._choice, self._offered = "auto", self._task.tools
        pairs = list(zip(actions, seen, strict=True))
        calls = [AgentAction(action.tool, action.tool_input, id=one.call_id) for action, one in pairs]
        told = [
            Message("tool", format_observation(one), call_id=one.call_id, tool=action.tool) for action, one in pairs
        ]
        news = "\n".join([message.content for message in told])
        return PromptTurn(tuple(told), news, Message("assistant", read.text, tuple(calls), state=read.state))

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        told = f"That could not be used: {problem}. {self._expected}"
        return PromptTurn((Message("user", told),), told, Message("assistant", reply.text or "(nothing)"))

    def format_reminder(self, turn: PromptTurn, problem: str) -> PromptTurn:
        return replace(turn, told=(*turn.told, Message("user", self._expected)), news=f"{problem}. {self._expected}")

    def _complete_call(self, call: AgentAction, reply: Reply) -> AgentAction:
        """Return the call if it is complete."""
        given = call.tool_input
        if isinstance(given, str) and (reply.finish == "length" or given.lstrip()[:1] in ("{", "[")):
            values = next((one.value for one in find_values(given)), None)
            if not isinstance(values, dict):
                raise UnreadableReply(f"the arguments of {call.tool[:80]!r} are not complete JSON")
            given = values
        if not call.tool:
            raise UnreadableReply("a call names no tool")
        return AgentAction(self._clean_tool_name(call.tool), given, reply.text)

    def _clean_tool_name(self, written: str) -> str:
        """Return the name of the tool, without what some models add to it; otherwise it is exact."""
        plain = strip_tool_name(clean_called_name(written)).removesuffix("()")
        return plain if any(tool.name == plain for tool in self._task.tools) else written

    def _format_decision(self, decided: Decided) -> Reply:
        if isinstance(decided, AgentFinish):
            return _format_answer(decided)
        by_name = {tool.name: tool for tool in self._task.tools}
        given = (replace(one, tool_input=name_argument(one, by_name.get(one.tool))) for one in decided)
        return Reply("", calls=tuple(given))


def _is_continuing_history(task: Task) -> bool:
    """Return whether the history contains the question and ends with tool results for it."""
    asked = any(message.role == "user" and message.content == task.question for message in task.history)
    return asked and task.history[-1].role == "tool"


def _find_last_results(history: Sequence[Message]) -> Sequence[Message]:
    """Return the tool results at the end of `history`."""
    return list(takewhile(lambda message: message.role == "tool", reversed(history)))[::-1]


def _choose_tools(choice: str, tools: tuple[Tool, ...]) -> tuple[_Choice, tuple[Tool, ...]]:
    """Return the initial tool choice, and the tools to choose from."""
    if choice in _CHOICES:
        return _CHOICES[choice], tools
    named = tuple(tool for tool in tools if tool.name == choice)
    if not named:
        raise UsageError(f"tool_choice: there is no tool {choice!r}; want auto, required, none or a tool's name")
    return "required", named


def _format_answer(decided: Decided) -> Reply:
    return Reply(decided.output if isinstance(decided, AgentFinish) else "")
