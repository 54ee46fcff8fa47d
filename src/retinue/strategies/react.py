"""`react`: thought, action, observation in plain text (ReAct, Yao et al. 2022; format of seed 000).

Two ways of asking. An engine that cannot be held to a pattern gets seed 000's prompt as it stands, and
its reply is read tolerantly. One that can (mostly small models on one's own machine) gets the same
format with examples in terms of its tools and is held to it; when it decides to answer, the question
is put to it once more right before the answer, which such models need (bench/RESULTS.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from string import Template

from ..ports import Flow, Task, act, ask
from ..prompt import Ask, Prompt
from ..schema import AgentFinish, Message, Reply, StopReason
from .describing import described, examples
from .parsing import UnreadableReply, answer_of, answer_written, parse, written
from .quoting import quoted
from .shapes import FINAL, answer_shape, step_shape

_STOP = ("Observation:",)
_REPLY_TOKENS = 512


@dataclass(frozen=True)
class React:
    """The strategy.

    `prompt` replaces the built-in prompt; `$tools`, `$tool_names`, `$answer`, `$examples`, `$history`
    and `$question` are filled in. `answer` says more of what the answer should be like. `answer_chars`
    bounds the answer of a model that is held to a pattern.
    """

    prompt: str = ""
    answer: str = ""
    answer_chars: int = 200
    name: str = "react"

    def __call__(self, task: Task) -> Flow:
        """Think, act and observe until there is an answer, or the loop asks for one."""
        stop = () if task.constrained else _STOP
        shape = step_shape(task.tools, self.answer_chars, answer_apart=task.constrained)
        prompt: Prompt | None = None
        said, news = self._question(task), task.question
        problem = ""
        while True:
            asked = _extended(prompt, f"{said}Thought:")
            closing = self._answering(prompt, f"{said}Thought: I now know the final answer\n", news, task)
            reply = yield from ask(Ask(asked, news, written, stop, shape, _REPLY_TOKENS, closing, problem))
            if reply.closing:
                return self._closed(reply)
            if task.constrained and reply.text.rstrip().endswith(FINAL):
                thought = asked.add(Message("assistant", reply.text.rstrip().removesuffix(FINAL)))
                return self._closed((yield from ask(self._answering(thought, "", news, task))))
            try:
                parsed = parse(reply.text, task.tools)
                if isinstance(parsed.decision, AgentFinish):
                    return parsed.decision
                if reply.finish == "length" and parsed.length == len(reply.text):
                    raise UnreadableReply("Invalid Format: the reply was cut off, be brief")
            except UnreadableReply as error:
                problem, used = str(error), len(reply.text)
                news = f"{problem}. {_expected(task)}"
                said = f"Observation: {news}\n"
            else:
                problem, used = "", parsed.length
                (seen,) = yield from act(parsed.decision)
                news = quoted(seen.text)
                said = f"Observation: {news}\n"
            prompt = asked.add(Message("assistant", _whole_lines(reply.text[:used])))

    def _question(self, task: Task) -> str:
        answer = self.answer or ("as short as possible" if task.constrained else "")
        history = [f"{'Human' if message.role == 'user' else 'AI'}: {message.content}\n" for message in task.history]
        return Template(self.prompt or _seed_prompt()).safe_substitute(
            tools=described(task.tools),
            tool_names=", ".join(tool.name for tool in task.tools),
            answer=f", {answer}" if answer else "",
            examples=examples(task.tools) if task.constrained else "",
            history="".join(history),
            question=task.question,
        )

    def _answering(self, prompt: Prompt | None, said: str, news: str, task: Task) -> Ask:
        """Ask for the answer and nothing else."""
        reminder = f"Question: {task.question}\n" if task.constrained else ""
        asked = _extended(prompt, f"{said}{reminder}{FINAL}")
        stop = () if task.constrained else _STOP
        return Ask(asked, news, answer_written, stop, answer_shape(self.answer_chars), _REPLY_TOKENS)

    def _closed(self, reply: Reply) -> AgentFinish:
        finish = answer_of(reply.text)
        if not finish.output:
            return AgentFinish({}, reply.text, StopReason.MAX_ITERATION_EXCEEDED)
        if len(finish.output) < self.answer_chars:
            return finish
        return replace(finish, return_values={"output": _whole_sentences(finish.output)})


@cache
def _seed_prompt() -> str:
    return files(__package__).joinpath("react.txt").read_text(encoding="utf-8")


def _extended(prompt: Prompt | None, said: str) -> Prompt:
    message = Message("user", said)
    return Prompt(message) if prompt is None else prompt.add(message)


def _expected(task: Task) -> str:
    names = ", ".join(tool.name for tool in task.tools)
    action = f"Action: one of [{names}]\nAction Input: the input to the action\nor\n" if names else ""
    return f"Write\n{action}{FINAL} the answer"


def _whole_sentences(text: str) -> str:
    """`text` was cut at its limit: without the piece of a sentence at its end, if there is more."""
    end = text.rfind(". ")
    return text[: end + 1] if end > 0 else text


def _whole_lines(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
