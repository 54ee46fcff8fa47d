"""`self_ask`: follow-up questions, each answered by a tool, then the answer (Self-Ask, Press et al. 2022).

With several tools, `Follow up [Name]:` selects one; the default is the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from string import Template
from typing import NamedTuple

from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.schema.patterns import Constraint, choice, seq
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply, ToolInput
from .parsing.actions import UnreadableReply, finish_with, match_tool, needs_input, read_input
from .parsing.final_answer import build_prefixes_pattern, cut_at_fence, read_json_answer, uses_tool
from .parsing.json_reply import read_reply
from .parsing.lenient_json import as_text
from .parsing.react_text import Part, split_parts, without_empty_fence
from .parsing.tagged_calls import find_calls
from .prompting.constraints import answer_shape, build_decision_schema, build_input_pattern
from .prompting.prompt_parts import choose_examples, describe_tools, format_history, read_prompt_text
from .step_loop import LineFormat, ParsedReply, PromptTurn, drive_steps, extend

NEEDED = "Are follow up questions needed here:"
YES, NO = " Yes.\n", " No.\n"  # after it
ANSWER = "So the final answer is:"

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
        return drive_steps(_Questions(self, task), self.trim_intermediate_steps)

    def question(self, task: Task) -> str:
        """Return the prompt's beginning."""
        answer = self.answer or ("as short as possible" if task.constrained else "")
        names = ", ".join(tool.name for tool in task.tools)
        several = len(task.tools) > 1
        examples = ""
        for example in choose_examples(task.tools):
            steps = "".join(
                f"{_format_follow_up(step.tool.name, step.tool_input, several=several)}"
                f"Intermediate answer: {step.observation}\n"
                for step in example.steps
            )
            examples += f"Question: {example.question}\n{NEEDED}{YES}{steps}{ANSWER} {example.answer}\n\n"
        return Template(self.prompt or read_prompt_text("self_ask")).safe_substitute(
            tools=describe_tools(task.tools, "What to ask"),
            follow_up="Follow up [name]" if several else "Follow up",
            input=f", the name being one of [{names}]" if several else "",
            answer=f", {answer}" if answer else "",
            examples=examples,
            history=format_history(task.history, task.window),
            question=task.question,
        )


def _format_follow_up(tool: str, tool_input: ToolInput, *, several: bool) -> str:
    return f"Follow up{f' [{tool}]' if several else ''}: {as_text(tool_input)}\n"


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
    return "follow up" if word.startswith("follow") else "answer" if "final" in word else word


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


class _Questions(LineFormat):
    __slots__ = ("_answer_shape", "_first_shape", "_last_result", "_next_shape", "_several", "_strategy")
    OBSERVATION, FINAL = "Intermediate answer:", ANSWER

    def __init__(self, strategy: SelfAsk, task: Task) -> None:
        super().__init__(task)
        self._strategy = strategy
        self._several = len(task.tools) > 1
        begins = {tool.name: f"Follow up [{tool.name}]" if self._several else "Follow up" for tool in task.tools}
        self._answer_shape = answer_shape(strategy.answer_chars)
        # A follow-up question that fits a tool, or the words that announce the answer.
        asked = [seq(f"{begins[tool.name]}: ", build_input_pattern(tool), "\n") for tool in task.tools]
        schema = build_decision_schema(task.tools)
        self._first_shape = Constraint(choice(seq(YES, choice(*asked)), seq(f"{NO}{ANSWER}")), schema)
        self._next_shape = Constraint(choice(*asked, ANSWER), schema)
        self._last_result = ""

    @property
    def expected(self) -> str:
        names = ", ".join(tool.name for tool in self._task.tools)
        follow_up = f"Follow up [one of {names}]" if self._several else "Follow up"
        return f"Write\n{follow_up}: what to ask\nor\n{ANSWER} the answer"

    def write_question(self) -> str:
        return self._strategy.question(self._task)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        first = turn.reply is None
        asked = extend(before, Message("user", f"{turn.text}{NEEDED if first else ''}"))
        write = partial(self._format_decision, first=first)
        shape = self._first_shape if first else self._next_shape
        return Ask(asked, turn.news, write, self._stop, shape, _REPLY_TOKENS, answer=read_visible_follow_up)

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = extend(before, Message("user", f"{turn.text}{self._reminder}{ANSWER}"))
        shape = self._answer_shape
        return Ask(asked, turn.news, _format_answer, self._stop, shape, _REPLY_TOKENS, answer=read_visible_closing)

    def parse(self, text: str) -> tuple[Decided, int, str]:
        return *parse_self_ask(text, self._task.tools), self._last_result

    def read_answer(self, reply: Reply) -> AgentFinish:
        text, tools = reply.text, self._task.tools
        marked = _mark_answer(text)
        parts = split_parts(text, _AT_LINE_START, _classify_marker) or split_parts(text, _ANYWHERE, _classify_marker)
        asks_first = (bool(parts) and parts[0].kind == "follow up") or uses_tool(text, tools)
        if marked == text or not asks_first:
            with suppress(UnreadableReply):
                decision = parse_self_ask(marked, tools).decision
                if isinstance(decision, AgentFinish):
                    return decision
        return AgentFinish({}, text)

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        self._last_result = seen[-1].text if seen[-1].outcome == "result" else self._last_result
        return super().format_step(read, actions, seen)

    def _format_decision(self, decided: Decided, *, first: bool) -> Reply:
        if isinstance(decided, AgentFinish):
            return Reply(f"{NO if first else ''}{ANSWER} {decided.output}\n")
        asked = "".join(_format_follow_up(one.tool, one.tool_input, several=self._several) for one in decided)
        return Reply(f"{YES if first else ''}{asked}")


def _format_answer(decided: Decided) -> Reply:
    return Reply(f" {decided.output}\n" if isinstance(decided, AgentFinish) else "")
