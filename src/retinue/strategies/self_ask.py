"""`self_ask`: follow-up questions, each answered by a tool, then the answer (Self-Ask, Press et al. 2022).

With several tools, `Follow up [Name]:` selects one; the default is the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from string import Template
from typing import NamedTuple

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.schema.patterns import Constraint, choice, seq
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply, ToolInput
from .parsing.actions import UnreadableReply, finish_with, match_tool, needs_input, read_input
from .parsing.final_answer import build_prefixes_pattern, choose_prose_reader, cut_at_fence, read_json_answer, uses_tool
from .parsing.json_reply import CUT_OFF, read_reply
from .parsing.lenient_json import as_text
from .parsing.react_text import Part, split_parts, without_empty_fence
from .parsing.tagged_calls import find_calls
from .prompting.constraints import answer_shape, build_decision_schema, build_input_pattern
from .prompting.prompt_parts import Example, choose_examples, describe_tools, format_history, read_prompt_text
from .step_loop import ParsedReply, PromptTurn, drive_steps, end_line, extend, format_observations, join_turn_text

NEEDED = "Are follow up questions needed here:"
ANSWER = "So the final answer is:"

_STOP = ("Intermediate answer:",)
_REPLY_TOKENS = 512
_KIND = (
    r"(follow[ _-]?up(?:[ ]questions?)?|intermediate[ ]answer|(?:so[ ])?(?:the[ ])?final[ ]answer(?:[ ]is)?|question)"
)
_NAME = r"(?:\[([\w .]{1,64})\]|\(([\w .]{1,64})\))?+"
_AFTER = rf"[ \t]*+\d*+[*_`]*+[ \t]*+{_NAME}[ \t]*+[*_`]*+[:\uff1a][*_`]*+[ \t]*+"
_AT_LINE_START = re.compile(rf"^[ \t>*_#`-]*+{_KIND}{_AFTER}", re.IGNORECASE | re.MULTILINE)
_ANYWHERE = re.compile(rf"(?<!\w){_KIND}{_AFTER}", re.IGNORECASE)
_FINAL = ("so the final answer is", "so final answer is", "the final answer is", "final answer is")
_BEGUN = re.compile(
    r"[ \t>*_#`-]*+(?:"
    + build_prefixes_pattern("follow up questions", "intermediate answer", *_FINAL, "question", between="[ _-]?")
    + r"[ \t]*+\d*+[*_`]*+[ \t]*+(?:[\[(][\w .]*+[\])]?)?[ \t]*+[*_`]*+)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SelfAsk:
    """The strategy.

    `prompt` replaces the built-in prompt; `$tools`, `$follow_up`, `$input`, `$answer`, `$examples`, `$history` and
    `$question` are substituted. `answer` says what the answer should be like; `answer_chars` limits its length under
    constrained decoding. `trim_intermediate_steps`: how many of the last steps stay in the prompt (-1: all).
    """

    prompt: str = ""
    answer: str = ""
    answer_chars: int = 200
    trim_intermediate_steps: int = -1
    name: str = "self_ask"

    @property
    def needs_tools(self) -> bool:
        """Whether it requires tools; a custom prompt may work without."""
        return not self.prompt

    def __call__(self, task: Task) -> Flow:
        """Ask follow-up questions until the question itself can be answered."""
        return drive_steps(_Questions(self, task), self.trim_intermediate_steps, choose_prose_reader(task))

    def question(self, task: Task) -> str:
        """Return the prompt's beginning."""
        answer = self.answer or ("as short as possible" if task.constrained else "")
        names = ", ".join(tool.name for tool in task.tools)
        several = len(task.tools) > 1
        return Template(self.prompt or read_prompt_text("self_ask")).safe_substitute(
            tools=describe_tools(task.tools, "What to ask"),
            follow_up="Follow up [name]" if several else "Follow up",
            input=f", the name being one of [{names}]" if several else "",
            answer=f", {answer}" if answer else "",
            examples="".join(_format_example(example, several=several) for example in choose_examples(task.tools)),
            history=format_history(task.history, task.window),
            question=task.question,
        )


class FollowUp(NamedTuple):
    """A question or answer in a reply, and the number of characters that belong to it (the rest was made up)."""

    decision: Decided
    length: int


def parse_self_ask(text: str, tools: Sequence[Tool]) -> FollowUp:
    """Parse the decision in a reply. Raises `UnreadableReply`, and nothing else, for any text."""
    parts = split_parts(text, _AT_LINE_START, _classify_marker)
    if not any(part.kind in ("follow up", "answer") for part in parts):
        parts = split_parts(text, _ANYWHERE, _classify_marker)
    called = next(find_calls(text), None)
    if text.lstrip().startswith("{") or (called and all(called.begin < part.begin for part in parts)):
        found = read_reply(text, tools)
        return FollowUp(found.actions or finish_with(found.answer or "", text), len(text))
    actions: list[AgentAction] = []
    end = 0
    for part in parts:
        if part.kind == "answer" and not actions:
            if not part.text:
                raise UnreadableReply(f"Invalid Format: no answer after '{ANSWER}'")
            return FollowUp(finish_with(without_empty_fence(part.text), text[: part.end]), part.end)
        if part.kind != "follow up":
            break
        actions.append(_read_action(part, tools, text[: part.end]))
        end = part.end
    if not actions:
        raise UnreadableReply(f"Invalid Format: neither 'Follow up:' nor '{ANSWER}'")
    return FollowUp(tuple(actions), end)


def _classify_marker(word: str, before: str = "") -> str:
    word = word.lower()
    if word.startswith("follow"):
        return "follow up"
    return "answer" if "final" in word else word


def _read_action(part: Part, tools: Sequence[Tool], log: str) -> AgentAction:
    tool = match_tool(part.name, tools) if part.name else next(iter(tools), None)
    if not part.text and needs_input(tool):
        raise UnreadableReply("Invalid Format: nothing after 'Follow up:'")
    return AgentAction(tool.name if tool else part.name or "none", read_input(part.text, tool), log)


def read_visible_follow_up(text: str) -> str:
    """Extract the visible part of the run's answer from a reply that is still arriving."""
    if text.lstrip().startswith("{"):
        return read_json_answer(text)
    marker = _AT_LINE_START.search(text)
    if marker is None or _classify_marker(marker.group(1)) != "answer":
        return ""
    if after := _AT_LINE_START.search(text, marker.end()):
        return cut_at_fence(text[marker.end() : after.start()])
    line = text.rfind("\n", marker.end()) + 1
    begun = line > 0 and _BEGUN.fullmatch(text, line)
    return cut_at_fence(text[marker.end() : line if begun else len(text)])


def read_visible_closing(text: str) -> str:
    """The same for a reply to `ANSWER`."""
    return "" if _BEGUN.fullmatch(text.lstrip()) else read_visible_follow_up(_mark_answer(text))


def _mark_answer(text: str) -> str:
    """Prepend the answer's marker to a reply to `ANSWER`."""
    begins = text.lstrip()
    return text if _AT_LINE_START.match(begins) or begins.startswith("{") else f"{ANSWER} {text}"


def _asks_first(text: str, tools: Sequence[Tool]) -> bool:
    """Return whether a reply goes on to a follow-up question before it gives or invents an answer."""
    parts = split_parts(text, _AT_LINE_START, _classify_marker) or split_parts(text, _ANYWHERE, _classify_marker)
    return (bool(parts) and parts[0].kind == "follow up") or uses_tool(text, tools)


class _Questions:
    """The format."""

    def __init__(self, strategy: SelfAsk, task: Task) -> None:
        self._strategy = strategy
        self._task = task
        self._last = ""
        self._shapes = {
            first: _build_step_constraint(task, strategy.answer_chars, first=first) for first in (True, False)
        }

    def format_question(self) -> PromptTurn:
        return PromptTurn((Message("user", self._strategy.question(self._task)),), self._task.question)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        first = turn.reply is None
        asked = extend(before, Message("user", f"{join_turn_text(turn)}{NEEDED if first else ''}"))
        stop = () if self._task.constrained else _STOP
        write = self._format_first_decision if first else self._format_decision
        return Ask(asked, turn.news, write, stop, self._shapes[first], _REPLY_TOKENS, answer=read_visible_follow_up)

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        reminder = f"Question: {self._task.question}\n" if self._task.constrained else ""
        asked = extend(before, Message("user", f"{join_turn_text(turn)}{reminder}{ANSWER}"))
        stop = () if self._task.constrained else _STOP
        shape = answer_shape(self._strategy.answer_chars)
        return Ask(asked, turn.news, _format_answer, stop, shape, _REPLY_TOKENS, answer=read_visible_closing)

    def read_step(self, reply: Reply) -> ParsedReply:
        if self._task.constrained and reply.text.rstrip().endswith(ANSWER):
            return ParsedReply(None, reply.text.rstrip().removesuffix(ANSWER))
        decision, length = parse_self_ask(reply.text, self._task.tools)
        if isinstance(decision, AgentFinish):
            return ParsedReply(decision)
        if reply.finish == "length" and length == len(reply.text):
            raise UnreadableReply(CUT_OFF)
        return ParsedReply(decision, reply.text[:length], self._last)

    def read_answer(self, reply: Reply) -> AgentFinish:
        marked = _mark_answer(reply.text)
        if marked == reply.text or not _asks_first(reply.text, self._task.tools):
            with suppress(UnreadableReply):
                decision = parse_self_ask(marked, self._task.tools).decision
                if isinstance(decision, AgentFinish):
                    return decision
        return AgentFinish({}, reply.text)

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        self._last = seen[-1].text if seen[-1].outcome == "result" else self._last
        return _make_turn(read.text, format_observations(actions, seen))

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        return _make_turn(reply.text, f"{problem}. {self._expected_form}")

    def format_reminder(self, turn: PromptTurn, problem: str) -> PromptTurn:
        told = Message("user", f"{join_turn_text(turn)}({self._expected_form})\n")
        return replace(turn, told=(told,), news=f"{problem}. {self._expected_form}")

    @property
    def _expected_form(self) -> str:
        names = ", ".join(tool.name for tool in self._task.tools)
        follow_up = f"Follow up [one of {names}]" if len(self._task.tools) > 1 else "Follow up"
        return f"Write\n{follow_up}: what to ask\nor\n{ANSWER} the answer"

    def _format_first_decision(self, decided: Decided) -> Reply:
        return Reply(f" {'No' if isinstance(decided, AgentFinish) else 'Yes'}.\n{self._format_decision(decided).text}")

    def _format_decision(self, decided: Decided) -> Reply:
        if isinstance(decided, AgentFinish):
            return Reply(f"{ANSWER} {decided.output}\n")
        several = len(self._task.tools) > 1
        return Reply("".join(_format_follow_up(one.tool, one.tool_input, several=several) for one in decided))


def _make_turn(reply: str, news: str) -> PromptTurn:
    return PromptTurn((Message("user", f"Intermediate answer: {news}\n"),), news, Message("assistant", end_line(reply)))


def _format_answer(decided: Decided) -> Reply:
    return Reply(f" {decided.output}\n" if isinstance(decided, AgentFinish) else "")


def _format_follow_up(tool: str, tool_input: ToolInput, *, several: bool) -> str:
    text = as_text(tool_input)
    return f"Follow up [{tool}]: {text}\n" if several else f"Follow up: {text}\n"


def _format_example(example: Example, *, several: bool) -> str:
    steps = [
        _format_follow_up(step.tool.name, step.tool_input, several=several)
        + f"Intermediate answer: {step.observation}\n"
        for step in example.steps
    ]
    return f"Question: {example.question}\n{NEEDED} Yes.\n{''.join(steps)}{ANSWER} {example.answer}\n\n"


def _build_step_constraint(task: Task, answer_chars: int, *, first: bool) -> Constraint:
    """Return the constraint: a follow-up question that fits a tool, or the words that announce the answer."""
    several = len(task.tools) > 1
    begins = {tool.name: f"Follow up [{tool.name}]: " if several else "Follow up: " for tool in task.tools}
    asked = [seq(begins[tool.name], build_input_pattern(tool), "\n") for tool in task.tools]
    after_needed = choice(seq(" Yes.\n", choice(*asked)), seq(f" No.\n{ANSWER}"))
    return Constraint(after_needed if first else choice(*asked, ANSWER), build_decision_schema(task.tools))
