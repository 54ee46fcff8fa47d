"""`react`: thought, action, observation in plain text (ReAct, Yao et al. 2022; format of Haystack's Agent proposal, PR
3925).

There are two modes. Without constrained decoding, the engine gets Haystack's prompt unchanged, and its reply is parsed
tolerantly. With it (mostly small local models), the engine gets the same format with examples for its tools as a
constraint. When such a model decides to answer, the question is repeated right before the answer, which small models
need (bench/RESULTS.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import Template

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.values import AgentFinish, Message, Reply
from .parsing.final_answer import answer_of, read_marked_answer, read_visible_answer
from .parsing.react_text import format_answer, format_decision, parse, read_thought
from .prompting.constraints import answer_shape, build_step_constraint
from .prompting.prompt_parts import FINAL, describe_tools, format_examples, format_history, read_prompt_text
from .step_loop import LineFormat, PromptTurn, drive_steps, extend

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
        return drive_steps(_Transcript(self, task), self.trim_intermediate_steps)

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


class _Transcript(LineFormat):
    __slots__ = ("_shape", "_strategy")
    OBSERVATION, FINAL = "Observation:", FINAL

    def __init__(self, strategy: React, task: Task) -> None:
        super().__init__(task)
        self._strategy = strategy
        self._shape = build_step_constraint(task.tools, strategy.answer_chars, answer_apart=task.constrained)

    @property
    def expected(self) -> str:
        names = ", ".join(tool.name for tool in self._task.tools)
        action = f"Action: one of [{names}]\nAction Input: the input to the action\nor\n" if names else ""
        return f"Write\n{action}{FINAL} the answer"

    def write_question(self) -> str:
        return self._strategy.question(self._task)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = extend(before, Message("user", f"{turn.text}Thought:"))
        return Ask(asked, turn.news, format_decision, self._stop, self._shape, self._most, answer=self._read_visible)

    @property
    def _most(self) -> int | None:
        return _REPLY_TOKENS if self._task.constrained else None

    def _read_visible(self, text: str) -> str:
        return read_marked_answer(text, self._task.tools)

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        knows = f"{turn.text}Thought: I now know the final answer\n" if turn.told else ""
        asked = extend(before, Message("user", f"{knows}{self._reminder}{FINAL}"))
        shape = answer_shape(self._strategy.answer_chars)
        return Ask(asked, turn.news, format_answer, self._stop, shape, self._most, answer=_read_visible_closing)

    def parse(self, text: str) -> tuple[Decided, int, str]:
        decision, length = parse(text, self._task.tools)
        if isinstance(decision, AgentFinish):
            return decision, length, ""
        return (decision,), length, read_thought(decision.log)

    def read_answer(self, reply: Reply) -> AgentFinish:
        finish = answer_of(reply.text, self._task.tools)
        if len(finish.output) < self._strategy.answer_chars:
            return finish
        return replace(finish, return_values={"output": _cut_to_sentences(finish.output)})


def _read_visible_closing(text: str) -> str:
    """Return the answer to show; one that may be cut back to whole sentences is shown in whole sentences."""
    return _cut_to_sentences(read_visible_answer(text))


def _cut_to_sentences(text: str) -> str:
    """Remove an incomplete sentence from the end of a text cut at its limit, unless it is the only one."""
    end = text.rfind(". ")
    return text[: end + 1] if end > 0 else text
