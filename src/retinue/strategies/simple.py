"""Your own strategy of two functions, in LangChain's vocabulary: *prompt* and *parse*."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply
from ..errors import UsageError
from .parsing.prose import uses_tool
from .parsing.react_text import UnreadableReply, format_answer, format_decision
from .prompting.transcript import flatten_tool_calls
from .step_loop import ParsedReply, PromptTurn, note_observation, step_by_step, turn_text

CLOSING = "\n\nI now need to return a final answer based on the previous steps:"

Steps = list[tuple[AgentAction, str]]
Trim = int | Callable[[Steps], Steps]
_REPLY_TOKENS = 1024
_UNREADABLE = "_Exception"  # as LangChain calls the action of a reply that could not be read


def simple(
    name: str,
    *,
    prompt: Callable[[Mapping[str, Any]], str],
    parse: Callable[[str], AgentAction | list[AgentAction] | AgentFinish],
    stop: Sequence[str] = (),
    trim_intermediate_steps: Trim = -1,
    write: Callable[[Decided], Reply] = format_decision,
) -> Simple:
    """A strategy of two functions.

    `prompt` gets `input`, `intermediate_steps` (a list of actions and what came of each), `tools` and
    `chat_history`, and returns the whole prompt. `parse` reads a reply; it raises `UnreadableReply` or
    `ValueError` if it cannot, and the model is told so. If either gives anything else, the run ends as `ERROR`,
    which says what to give. While the new prompt begins with the former one and the reply to it, engines reuse
    what they have read. `trim_intermediate_steps` keeps only so many of the last steps for the prompt (-1: all),
    or is a function that says which. `write` is for scripted models: a decision as your form has it.
    """
    return Simple(name, prompt, parse, tuple(stop), trim_intermediate_steps, write)


@dataclass(frozen=True)
class Simple:
    """What `simple` makes."""

    name: str
    prompt: Callable[[Mapping[str, Any]], str]
    parse: Callable[[str], AgentAction | list[AgentAction] | AgentFinish]
    stop: tuple[str, ...] = ()
    trim_intermediate_steps: Trim = -1
    write: Callable[[Decided], Reply] = format_decision

    def __call__(self, task: Task) -> Flow:
        """Prompt, parse and act until `parse` finds an end."""
        return step_by_step(_Own(self, task))


class _Own:
    """The form: the whole prompt is made anew for each turn."""

    def __init__(self, strategy: Simple, task: Task) -> None:
        self._strategy = strategy
        self._task = task
        self._steps: Steps = []

    def opening(self) -> PromptTurn:
        return self._turn(self._task.question)

    def ask(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = _grown(before, turn_text(turn))
        return Ask(asked, turn.news, self._strategy.write, self._strategy.stop, None, _REPLY_TOKENS)

    def closing(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = _grown(before, turn_text(turn) + CLOSING)
        return Ask(asked, turn.news, format_answer, self._strategy.stop, None, _REPLY_TOKENS)

    def read(self, reply: Reply) -> ParsedReply:
        try:
            decided = self._parsed(reply)
        except (UnreadableReply, ValueError) as error:
            raise UnreadableReply(str(error) or "Invalid or incomplete response") from error
        if isinstance(decided, AgentFinish):
            return ParsedReply(decided)
        actions = tuple(decided) if isinstance(decided, list) else (decided,)
        if odd := [one for one in actions if not isinstance(one, AgentAction)]:
            gave = f"parse of the strategy {self._strategy.name!r} gave a {type(odd[0]).__name__}"
            raise UsageError(f"{gave}; want an AgentAction, a list of these, or an AgentFinish")
        if not actions:
            raise UnreadableReply("there is no action and no answer")
        if reply.finish == "length":
            raise UnreadableReply("the reply was cut off, be brief")
        return ParsedReply(actions, reply.text, actions[0].log if actions[0].log != reply.text else "")

    def closed(self, reply: Reply) -> AgentFinish:
        try:
            decided = self._parsed(reply)
        except (UnreadableReply, ValueError):
            text = "" if uses_tool(reply.text, self._task.tools) else reply.text.strip()
            return AgentFinish({"output": text}, reply.text)
        return decided if isinstance(decided, AgentFinish) else AgentFinish({}, reply.text)

    def _parsed(self, reply: Reply) -> AgentAction | list[AgentAction] | AgentFinish:
        decided = self._strategy.parse(reply.text)
        if isinstance(decided, AgentFinish):
            return decided
        given: list[object] = list(decided) if isinstance(decided, list) else [decided]
        if odd := [one for one in given if not isinstance(one, AgentAction)]:
            gave = f"parse of the strategy {self._strategy.name!r} gave a {type(odd[0]).__name__}"
            raise UsageError(f"{gave}; want an AgentAction, a list of these, or an AgentFinish")
        return decided

    def observed(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        self._steps += [(action, note_observation(one)) for action, one in zip(actions, seen, strict=True)]
        return self._turn("\n".join(map(note_observation, seen)), read.text)

    def unreadable(self, reply: Reply, problem: str) -> PromptTurn:
        self._steps.append((AgentAction(_UNREADABLE, problem, reply.text), problem))
        return self._turn(problem, reply.text)

    def minimal(self, turn: PromptTurn, problem: str) -> PromptTurn:
        self._steps = [step for step in self._steps if step[0].tool != _UNREADABLE]
        told = f"{turn_text(turn)}\n(Keep exactly to the form that is asked for. {problem})\n"
        return replace(turn, told=(Message("user", told),), news=problem)

    def _turn(self, news: str, reply: str | None = None) -> PromptTurn:
        inputs = {
            "input": self._task.question,
            "intermediate_steps": self._trimmed(),
            "tools": list(self._task.tools),
            "chat_history": list(flatten_tool_calls(self._task.history)),
        }
        prompt: object = self._strategy.prompt(inputs)
        if not isinstance(prompt, str):
            gave = f"prompt of the strategy {self._strategy.name!r} gave a {type(prompt).__name__}"
            raise UsageError(f"{gave}; want the whole prompt, a str")
        told = Message("user", prompt)
        return PromptTurn((told,), news, None if reply is None else Message("assistant", reply))

    def _trimmed(self) -> Steps:
        trim = self._strategy.trim_intermediate_steps
        if callable(trim):
            return list(trim(list(self._steps)))
        return self._steps[len(self._steps) - trim :] if 0 <= trim < len(self._steps) else list(self._steps)


def _grown(before: Prompt | None, text: str) -> Prompt:
    """A prompt of this text: the former one grown, if it is its beginning."""
    former = before.text if before is not None else ""
    if before is not None and text.startswith(former):
        return before.add(Message("user", text[len(former) :])) if len(text) > len(former) else before
    return Prompt(Message("user", text))
