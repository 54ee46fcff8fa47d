"""`react`: thought, action, observation in plain text (ReAct, Yao et al. 2022; format of Haystack's Agent proposal, PR
3925).

There are two modes. Without constrained decoding, the engine gets Haystack's prompt unchanged, and its reply is parsed
tolerantly. With it (mostly small local models), the engine gets the same format with examples for its tools as a
constraint. When such a model decides to answer, the question is repeated right before the answer, which small models
need (bench/RESULTS.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import Template

from ..core.prompt import Ask, Prompt
from ..core.protocols import Flow, Task
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply
from .parsing import final_answer
from .parsing.actions import UnreadableReply
from .parsing.final_answer import choose_prose_reader, read_marked_answer
from .parsing.react_text import format_answer, format_decision, parse, read_thought
from .prompting.constraints import answer_shape, build_step_constraint
from .prompting.prompt_parts import FINAL, describe_tools, format_examples, format_history, read_prompt_text
from .step_loop import ParsedReply, PromptTurn, drive_steps, end_line, extend, format_observation, join_turn_text

_STOP = ("Observation:",)
_REPLY_TOKENS = 512  # with constrained decoding; other models may fill their window


@dataclass(frozen=True)
class React:
    """The strategy.

    Args:
        prompt: Replaces the built-in prompt; `$tools`, `$tool_names`, `$answer`, `$examples`, `$history` and
            `$question` (or `$query`) are substituted.
        answer: What the answer should be like.
        answer_chars: Length limit for the answer under constrained decoding.
        trim_intermediate_steps: How many of the last steps stay in the prompt (-1: all).
    """

    prompt: str = ""
    answer: str = ""
    answer_chars: int = 200
    trim_intermediate_steps: int = -1
    name: str = "react"

    @property
    def needs_tools(self) -> bool:
        """Whether it requires tools; a custom prompt may work without."""
        return not self.prompt

    def __call__(self, task: Task) -> Flow:
        """Think, act and observe until there is an answer, or the loop asks for one."""
        return drive_steps(_Transcript(self, task), self.trim_intermediate_steps, choose_prose_reader(task))

    def question(self, task: Task) -> str:
        """Return the prompt's beginning."""
        answer = self.answer or ("as short as possible" if task.constrained else "")
        return Template(self.prompt or read_prompt_text("react")).safe_substitute(
            tools=describe_tools(task.tools),
            tool_names=", ".join(tool.name for tool in task.tools),
            answer=f", {answer}" if answer else "",
            examples=format_examples(task.tools) if task.constrained else "",
            history=format_history(task.history, task.window),
            question=task.question,
            query=task.question,
        )


class _Transcript:
    """The format: a transcript that the model continues."""

    __slots__ = ("_answer_shape", "_most", "_shape", "_stop", "_strategy", "_task")

    def __init__(self, strategy: React, task: Task) -> None:
        self._strategy = strategy
        self._task = task
        self._stop = () if task.constrained else _STOP
        self._most = _REPLY_TOKENS if task.constrained else None
        self._shape = build_step_constraint(task.tools, strategy.answer_chars, answer_apart=task.constrained)
        self._answer_shape = answer_shape(strategy.answer_chars)

    def format_question(self) -> PromptTurn:
        return PromptTurn((Message("user", self._strategy.question(self._task)),), self._task.question)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = extend(before, Message("user", f"{join_turn_text(turn)}Thought:"))
        return Ask(
            asked,
            turn.news,
            format_decision,
            self._stop,
            self._shape,
            self._most,
            answer=lambda text: read_marked_answer(text, self._task.tools),
        )

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        knows = f"{join_turn_text(turn)}Thought: I now know the final answer\n" if turn.told else ""
        reminder = f"Question: {self._task.question}\n" if self._task.constrained else ""
        asked = extend(before, Message("user", f"{knows}{reminder}{FINAL}"))
        shape = self._answer_shape
        return Ask(asked, turn.news, format_answer, self._stop, shape, self._most, answer=_read_visible_closing)

    def read_step(self, reply: Reply) -> ParsedReply:
        if self._task.constrained and reply.text.rstrip().endswith(FINAL):
            return ParsedReply(None, reply.text.rstrip().removesuffix(FINAL))
        parsed = parse(reply.text, self._task.tools)
        if isinstance(parsed.decision, AgentFinish):
            return ParsedReply(parsed.decision)
        if reply.finish == "length" and parsed.length == len(reply.text):
            raise UnreadableReply("Invalid Format: the reply was cut off, be brief")
        return ParsedReply((parsed.decision,), reply.text[: parsed.length], read_thought(parsed.decision.log))

    def read_answer(self, reply: Reply) -> AgentFinish:
        finish = final_answer.answer_of(reply.text, self._task.tools)
        if len(finish.output) < self._strategy.answer_chars:
            return finish
        return replace(finish, return_values={"output": _cut_to_sentences(finish.output)})

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        return self._make_turn(read.text, format_observation(seen[0]))

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        return self._make_turn(reply.text, f"{problem}. {_describe_expected_form(self._task)}")

    def format_reminder(self, turn: PromptTurn, problem: str) -> PromptTurn:
        told = Message("user", f"{join_turn_text(turn)}({_describe_expected_form(self._task)})\n")
        return replace(turn, told=(told,), news=f"{problem}. {_describe_expected_form(self._task)}")

    def _make_turn(self, reply: str, news: str) -> PromptTurn:
        told = Message("user", f"Observation: {news}\n")
        return PromptTurn((told,), news, Message("assistant", end_line(reply)))


def _describe_expected_form(task: Task) -> str:
    names = ", ".join(tool.name for tool in task.tools)
    action = f"Action: one of [{names}]\nAction Input: the input to the action\nor\n" if names else ""
    return f"Write\n{action}{FINAL} the answer"


def _read_visible_closing(text: str) -> str:
    """Return the answer to show; one that may be cut back to whole sentences is shown in whole sentences."""
    return _cut_to_sentences(final_answer.read_visible_answer(text))


def _cut_to_sentences(text: str) -> str:
    """Remove an incomplete sentence from the end of a text cut at its limit, unless it is the only one."""
    end = text.rfind(". ")
    return text[: end + 1] if end > 0 else text
