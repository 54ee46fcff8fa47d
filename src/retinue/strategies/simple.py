"""Custom strategies from two functions, in LangChain's vocabulary: *prompt* and *parse*."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply
from ..errors import UsageError
from .parsing.actions import UnreadableReply
from .parsing.final_answer import uses_tool
from .parsing.react_text import format_answer, format_decision
from .prompting.prompt_parts import flatten_tool_calls
from .step_loop import ParsedReply, PromptTurn, TranscriptFormat, drive_steps, format_observation

CLOSING = "\n\nI now need to return a final answer based on the previous steps:"

Steps = list[tuple[AgentAction, str]]
Trim = int | Callable[[Steps], Steps]
_REPLY_TOKENS = 1024
_UNREADABLE = "_Exception"  # LangChain's name for the action of an unreadable reply


@dataclass(frozen=True)
class Simple:
    """A strategy from two functions.

    If either function returns another type, the run ends as `ERROR` with a message that says which type to return.
    Engines reuse what they have read as long as each prompt extends the previous prompt and its reply.

    Args:
        prompt: Gets `input`, `intermediate_steps` (a list of actions and observations), `tools` and `chat_history`, and
            returns the whole prompt.
        parse: Parses a reply, or raises `UnreadableReply` or `ValueError`, which is reported to the model.
        trim_intermediate_steps: How many of the last steps the prompt gets (-1: all), or a function that selects them.
        write: Formats a decision for scripted models.
    """

    name: str
    _: KW_ONLY
    prompt: Callable[[Mapping[str, Any]], str]
    parse: Callable[[str], AgentAction | list[AgentAction] | AgentFinish]
    stop: Sequence[str] = ()
    trim_intermediate_steps: Trim = -1
    write: Callable[[Decided], Reply] = format_decision

    def __call__(self, task: Task) -> Flow:
        """Prompt, parse and act until `parse` returns an end."""
        return drive_steps(_Own(self, task))


simple = Simple


class _Own(TranscriptFormat):
    """The whole prompt is rebuilt for each turn."""

    __slots__ = ("_steps", "_strategy")

    def __init__(self, strategy: Simple, task: Task) -> None:
        super().__init__(task)
        self._strategy = strategy
        self._steps: Steps = []

    def format_question(self) -> PromptTurn:
        return self._make_turn(self._task.question)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = _extend_prompt(before, turn.text)
        return Ask(asked, turn.news, self._strategy.write, tuple(self._strategy.stop), None, _REPLY_TOKENS)

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = _extend_prompt(before, turn.text + CLOSING)
        return Ask(asked, turn.news, format_answer, tuple(self._strategy.stop), None, _REPLY_TOKENS)

    def read_step(self, reply: Reply) -> ParsedReply:
        try:
            decided = self._parse(reply)
        except (UnreadableReply, ValueError) as error:
            raise UnreadableReply(str(error) or "Invalid or incomplete response") from error
        if isinstance(decided, AgentFinish):
            return ParsedReply(decided)
        if not decided:
            raise UnreadableReply("there is no action and no answer")
        if reply.finish == "length":
            raise UnreadableReply("the reply was cut off, be brief")
        return ParsedReply(decided, reply.text, decided[0].log if decided[0].log != reply.text else "")

    def read_answer(self, reply: Reply) -> AgentFinish:
        try:
            decided = self._parse(reply)
        except (UnreadableReply, ValueError):
            text = "" if uses_tool(reply.text, self._task.tools) else reply.text.strip()
            return AgentFinish({"output": text}, reply.text)
        return decided if isinstance(decided, AgentFinish) else AgentFinish({}, reply.text)

    def _parse(self, reply: Reply) -> Decided:
        decided = self._strategy.parse(reply.text)
        if isinstance(decided, AgentFinish):
            return decided
        given: list[object] = list(decided) if isinstance(decided, list) else [decided]
        if odd := [one for one in given if not isinstance(one, AgentAction)]:
            gave = f"parse of the strategy {self._strategy.name!r} returned a {type(odd[0]).__name__}"
            raise UsageError(f"{gave}; want an AgentAction, a list of these, or an AgentFinish")
        return tuple(decided) if isinstance(decided, list) else (decided,)

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        results = [format_observation(one) for one in seen]
        self._steps += zip(actions, results, strict=True)
        return self._make_turn("\n".join(results), read.text)

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        self._steps.append((AgentAction(_UNREADABLE, problem, reply.text), problem))
        return self._make_turn(problem, reply.text)

    def format_reminder(self, turn: PromptTurn, problem: str) -> PromptTurn:
        self._steps = [step for step in self._steps if step[0].tool != _UNREADABLE]
        told = f"{turn.text}\n(Keep exactly to the form that is asked for. {problem})\n"
        return replace(turn, told=(Message("user", told),), news=problem)

    def _make_turn(self, news: str, reply: str | None = None) -> PromptTurn:
        trim, steps = self._strategy.trim_intermediate_steps, list(self._steps)
        if callable(trim):
            steps = list(trim(steps))
        elif 0 <= trim < len(steps):
            steps = steps[len(steps) - trim :]
        inputs = {
            "input": self._task.question,
            "intermediate_steps": steps,
            "tools": list(self._task.tools),
            "chat_history": list(flatten_tool_calls(self._task.history)),
        }
        prompt: object = self._strategy.prompt(inputs)
        if not isinstance(prompt, str):
            gave = f"prompt of the strategy {self._strategy.name!r} returned a {type(prompt).__name__}"
            raise UsageError(f"{gave}; want the whole prompt, a str")
        return PromptTurn((Message("user", prompt),), news, None if reply is None else Message("assistant", reply))


def _extend_prompt(before: Prompt | None, text: str) -> Prompt:
    """Return a prompt with this text, as an extension of the previous one if it begins with that."""
    former = before.text if before is not None else ""
    if before is not None and text.startswith(former):
        return before.add(Message("user", text[len(former) :])) if len(text) > len(former) else before
    return Prompt(Message("user", text))
