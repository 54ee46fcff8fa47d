"""`react_json`: thought, actions and answer as JSON (the ReAct tutorial's prompt and contract), several actions at
once.

With constrained decoding, the same prompt gets an example for the available tools. The thought then comes first, so
that a small model reasons before it decides. Before an answer, the model has to repeat the question, which it has
otherwise lost by then (bench/RESULTS.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from ..core.budgets import Budget
from ..core.events import Asked, Finished
from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.run_result import RunResult
from ..core.schema.patterns import Constraint, Repeat, build_json_pattern, choice, seq
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply
from .parsing.actions import UnreadableReply, finish_with
from .parsing.final_answer import read_json_answer, uses_tool
from .parsing.json_reply import MAX_ACTIONS, read_reply, read_truncated_answer
from .prompting.constraints import build_arguments_schema, build_object_schema, collect_shared_definitions
from .prompting.injection_guard import neutralize
from .prompting.prompt_parts import (
    Example,
    choose_examples,
    describe_kind,
    describe_tools,
    format_history,
    read_prompt_text,
)
from .step_loop import ParsedReply, PromptTurn, TranscriptFormat, drive_steps, extend

SEED_BUDGET = Budget(steps=4, seconds=20)  # the ReAct tutorial's limits
RESPONSE = "\n Your response: "

_THOUGHT = {"type": "string", "minLength": 1, "maxLength": 240}
_QUESTION_CHARS = 300  # a longer question is not repeated
_REPLY_TOKENS = 1024  # with constrained decoding; other models may fill their window
_EXPECTED = """\
Write nothing but JSON, to run tools:
{"actions": [{"action": tool name, "arguments": {argument: value}}], "scratchpad": {"thought": "…"}}
or to answer:
{"answer": "your response to the question", "scratchpad": {"thought": "…"}}"""
_CLOSING = "\nNo more tools can be run. Answer the question now, from the tool responses, using Format 3."


@dataclass(frozen=True)
class ReactJson:
    """The strategy.

    Args:
        prompt: Replaces the ReAct tutorial's; `$tools` (JSON), `$tool_lines` (a line each), `$examples`, `$history` and
            `$question` are substituted.
        answer_chars: Length limit for the answer under constrained decoding.
        trim_intermediate_steps: How many of the last steps stay in the prompt (-1: all).
    """

    prompt: str = ""
    answer_chars: int = 400
    trim_intermediate_steps: int = -1
    name: str = "react_json"

    @property
    def needs_tools(self) -> bool:
        """Whether it requires tools; a custom prompt may work without."""
        return not self.prompt

    def __call__(self, task: Task) -> Flow:
        """Think, run tools and read their responses until there is an answer."""
        return drive_steps(_Json(self, task), self.trim_intermediate_steps)

    def question(self, task: Task) -> str:
        """Return the prompt's beginning."""
        return Template(self.prompt or read_prompt_text("react_json")).safe_substitute(
            tools=format_tools_as_json(task.tools),
            tool_lines=describe_tools(task.tools, "arguments"),
            examples="".join(map(_format_example, choose_examples(task.tools))) if task.constrained else "",
            history=format_history(task.history, task.window),
            question=task.question,
        )


def _format_example(example: Example) -> str:
    text = f"Question:\n{example.question}\nTool Responses:\nYour response:\n"
    for step in example.steps:
        action = AgentAction(step.tool.name, step.tool_input)
        response = json.dumps({"action_responses": [_format_response(action, Observation("", step.observation))]})
        text += f"{_format_actions(step.thought, [action], [step.tool])}\nTool responses: \n{response}{RESPONSE}"
    ending = {"scratchpad": {"thought": example.thought}, "question": example.question, "answer": example.answer}
    return f"{text}{json.dumps(ending, ensure_ascii=False)}\n\n"


def outcome(result: RunResult) -> tuple[str, str, Any]:
    """Return what the ReAct tutorial's loop returns: stop reason, last input to the model, and the answer or `{}`."""
    told: dict[int, str] = {}
    last = 0
    for event in result.events:
        if isinstance(event, Asked):
            last = event.prompt
            told[last] = told.get(last, "") + "".join(message.content for message in event.messages)
    answer = next((event.return_values.get("output") for event in result.events if isinstance(event, Finished)), None)
    return str(result.stop_reason), told.get(last, ""), {} if answer is None else answer


def format_tools_as_json(tools: Sequence[Tool]) -> str:
    """Return the tools in the ReAct tutorial's list format."""

    def describe_argument(schema: Mapping[str, Any]) -> str:
        kind = describe_kind(schema)
        return f"{schema['description']} ({kind})" if schema.get("description") else kind

    listed = [
        {
            "name": tool.name,
            "description": tool.description,
            "arguments": [
                {name: describe_argument(schema)}
                for name, schema in tool.signature.parameters.get("properties", {}).items()
            ],
            "response": f"result of {tool.name}",
        }
        for tool in tools
    ]
    return json.dumps(listed, indent=4, ensure_ascii=False)


class _Json(TranscriptFormat):
    __slots__ = ("_answer_shape", "_most", "_step_shape", "_strategy")
    HAS_PROSE = True

    def __init__(self, strategy: ReactJson, task: Task) -> None:
        super().__init__(task)
        self._strategy = strategy
        self._most = _REPLY_TOKENS if task.constrained else None
        self._step_shape, self._answer_shape = _build_constraints(task, strategy.answer_chars)

    @property
    def expected(self) -> str:
        return _EXPECTED

    def write_question(self) -> str:
        return self._strategy.question(self._task)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = extend(before, Message("user", f"{turn.text}{RESPONSE if before else ''}"))
        return Ask(asked, turn.news, self._format_decision, (), self._step_shape, self._most, answer=read_json_answer)

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = extend(before, Message("user", f"{turn.text}{_CLOSING}{RESPONSE}"))
        return Ask(asked, turn.news, _format_answer, (), self._answer_shape, self._most, answer=read_json_answer)

    def read_step(self, reply: Reply) -> ParsedReply:
        found = read_reply(reply.text, self._task.tools)
        finish = finish_with(found.answer or "", found.text)
        if not found.actions:
            return ParsedReply(finish, found.text)
        # an answer given along with actions may only say that there is none yet
        best = found.answer if found.answer and finish.reason == "ANSWER" else found.thought
        return ParsedReply(found.actions, found.text, best)

    def read_answer(self, reply: Reply) -> AgentFinish:
        try:
            found = read_reply(reply.text, self._task.tools)
        except UnreadableReply:
            plain = "" if "{" in reply.text or uses_tool(reply.text, self._task.tools) else reply.text.strip()
            return AgentFinish({"output": read_truncated_answer(reply.text) or plain}, reply.text)
        return finish_with(found.answer or "", found.text)

    def format_step(self, read: ParsedReply, actions: Sequence[AgentAction], seen: Sequence[Observation]) -> PromptTurn:
        responses = [_format_response(action, one) for action, one in zip(actions, seen, strict=True)]
        told = json.dumps({"action_responses": responses}, ensure_ascii=False)
        news = "\n".join(f"{neutralize(one.text)}\n{one.note}".rstrip("\n") for one in seen)
        return _make_turn(read.text, told, news)

    def format_problem(self, reply: Reply, problem: str) -> PromptTurn:
        told = f"{problem}. {_EXPECTED}"
        return _make_turn(reply.text, told, told)

    def _remind(self, turn: PromptTurn) -> tuple[Message, ...]:
        return (Message("user", f"{turn.text}\n{_EXPECTED}\n"),)

    def _format_decision(self, decided: Decided) -> Reply:
        if isinstance(decided, AgentFinish):
            return _format_answer(decided)
        return Reply(_format_actions(f"I should use {decided[0].tool}", decided, self._task.tools))


def _make_turn(reply: str, told: str, news: str) -> PromptTurn:
    return PromptTurn((Message("user", f"\nTool responses: \n{told}"),), news, Message("assistant", f"\n{reply}"))


def _format_response(action: AgentAction, seen: Observation) -> dict[str, Any]:
    response = {"action": action.tool, "arguments": action.tool_input, "action_response": neutralize(seen.text)}
    return response | ({"note": seen.note} if seen.note else {})


def _format_actions(thought: str, actions: Sequence[AgentAction], tools: Sequence[Tool]) -> str:
    calls = [{"action": one.tool, "arguments": name_argument(one, tools)} for one in actions]
    return json.dumps({"scratchpad": {"thought": thought}, "actions": calls}, ensure_ascii=False)


def name_argument(action: AgentAction, tools: Sequence[Tool]) -> Any:
    """Return an action's input by argument name, if it is a text and its tool takes at most one argument."""
    tool = next((tool for tool in tools if tool.name == action.tool), None)
    if isinstance(action.tool_input, dict) or tool is None:
        return action.tool_input
    if tool.signature.text_argument is not None:
        return {tool.signature.text_argument: action.tool_input}
    return action.tool_input or {}


def _format_answer(decided: Decided) -> Reply:
    if not isinstance(decided, AgentFinish):
        return Reply("")
    values = {"scratchpad": {"thought": "I now know the final answer"}, "answer": decided.output}
    return Reply(json.dumps(values, ensure_ascii=False))


def _build_constraints(task: Task, answer_chars: int) -> tuple[Constraint, Constraint]:
    """Return the constraints of a step and of an answer: a thought; then one to eight actions (in a step), or the
    question repeated with its answer."""
    thought = seq('{"scratchpad": {"thought": ', build_json_pattern(_THOUGHT), "}, ")
    asked = f'"question": {json.dumps(task.question, ensure_ascii=False)}, '
    said = build_json_pattern({"type": "string", "minLength": 1, "maxLength": answer_chars}, answer_chars)
    answer = seq(asked if len(task.question) <= _QUESTION_CHARS else "", '"answer": ', said, "}")
    action = choice(*(
        seq(f'{{"action": {json.dumps(tool.name)}, "arguments": ', build_json_pattern(tool.signature.parameters), "}")
        for tool in task.tools
    ))  # fmt: skip
    actions = seq('"actions": [', action, Repeat(seq(", ", action), 0, MAX_ACTIONS - 1), "]}")
    variants = [
        build_object_schema(action={"const": tool.name}, arguments=build_arguments_schema(tool)) for tool in task.tools
    ]
    scratchpad = build_object_schema(thought={"type": "string"})
    schema = build_object_schema(
        scratchpad=scratchpad,
        actions={"type": "array", "items": {"anyOf": variants}, "maxItems": MAX_ACTIONS},
        answer={"type": ["string", "null"]},
    )
    step = Constraint(seq(thought, choice(actions, answer)), schema | collect_shared_definitions(task.tools))
    return step, Constraint(seq(thought, answer), build_object_schema(scratchpad=scratchpad, answer={"type": "string"}))
