"""`react_json`: thought, actions and answer as JSON (the ReAct tutorial's prompt and contract), several actions at
once.

With constrained decoding, the same prompt gets an example for the available tools. The thought then comes first, so
that a small model reasons before it decides. Before an answer, the model has to repeat the question, which it has
otherwise lost by then (bench/RESULTS.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Any

from ..core.budgets import Budget
from ..core.events import Asked, Finished
from ..core.prompt import Ask, Decided, Prompt
from ..core.protocols import Flow, Task
from ..core.run_result import RunResult
from ..core.schema.patterns import Constraint, Pattern, Repeat, build_json_pattern, choice, seq
from ..core.tools.tool import Tool
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply
from .parsing.actions import UnreadableReply, finish_with
from .parsing.final_answer import choose_prose_reader, read_json_answer, uses_tool
from .parsing.json_reply import MAX_ACTIONS, read_reply, read_truncated_answer
from .prompting.constraints import build_arguments_schema, build_object_schema, collect_shared_definitions
from .prompting.injection_guard import neutralize
from .prompting.prompt_parts import Example, choose_examples, describe_tools, format_history, read_prompt_text
from .step_loop import ParsedReply, PromptTurn, drive_steps, extend, join_turn_text

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
        return drive_steps(_Json(self, task), self.trim_intermediate_steps, choose_prose_reader(task))

    def question(self, task: Task) -> str:
        """Return the prompt's beginning."""
        shown = [_format_example(example) for example in choose_examples(task.tools)] if task.constrained else []
        return Template(self.prompt or read_prompt_text("react_json")).safe_substitute(
            tools=format_tools_as_json(task.tools),
            tool_lines=describe_tools(task.tools, "arguments"),
            examples="".join(shown),
            history=format_history(task.history, task.window),
            question=task.question,
        )


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
    listed = [
        {
            "name": tool.name,
            "description": tool.description,
            "arguments": [
                {name: _describe_field(schema)}
                for name, schema in tool.signature.parameters.get("properties", {}).items()
            ],
            "response": f"result of {tool.name}",
        }
        for tool in tools
    ]
    return json.dumps(listed, indent=4, ensure_ascii=False)


class _Json:
    """The format."""

    def __init__(self, strategy: ReactJson, task: Task) -> None:
        self._strategy = strategy
        self._task = task
        self._most = _REPLY_TOKENS if task.constrained else None
        self._step_shape = _build_step_constraint(task, strategy.answer_chars)
        self._answer_shape = _answer_shape(task, strategy.answer_chars)

    def format_question(self) -> PromptTurn:
        return PromptTurn((Message("user", self._strategy.question(self._task)),), self._task.question)

    def ask_step(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        cue = "" if before is None else RESPONSE
        asked = extend(before, Message("user", f"{join_turn_text(turn)}{cue}"))
        return Ask(asked, turn.news, self._format_decision, (), self._step_shape, self._most, answer=read_json_answer)

    def ask_answer(self, before: Prompt | None, turn: PromptTurn) -> Ask:
        asked = extend(before, Message("user", f"{join_turn_text(turn)}{_CLOSING}{RESPONSE}"))
        return Ask(asked, turn.news, _format_answer, (), self._answer_shape, self._most, answer=read_json_answer)

    def read_step(self, reply: Reply) -> ParsedReply:
        found = read_reply(reply.text, self._task.tools)
        if found.actions:
            return ParsedReply(found.actions, found.text, _find_best_answer(found.answer) or found.thought)
        return ParsedReply(finish_with(found.answer or "", found.text), found.text)

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

    def format_reminder(self, turn: PromptTurn, problem: str) -> PromptTurn:
        return replace(
            turn, told=(Message("user", f"{join_turn_text(turn)}\n{_EXPECTED}\n"),), news=f"{problem}. {_EXPECTED}"
        )

    def _format_decision(self, decided: Decided) -> Reply:
        if isinstance(decided, AgentFinish):
            return _format_answer(decided)
        return Reply(_reply_text(f"I should use {decided[0].tool}", decided, self._task.tools))


def _make_turn(reply: str, told: str, news: str) -> PromptTurn:
    return PromptTurn((Message("user", f"\nTool responses: \n{told}"),), news, Message("assistant", f"\n{reply}"))


def _format_response(action: AgentAction, seen: Observation) -> dict[str, Any]:
    response = {"action": action.tool, "arguments": action.tool_input, "action_response": neutralize(seen.text)}
    return response | ({"note": seen.note} if seen.note else {})


def _find_best_answer(answer: str | None) -> str:
    """Return an answer given along with actions, unless it only says that there is none yet."""
    return answer if answer and finish_with(answer, "").reason == "ANSWER" else ""


def _reply_text(thought: str, actions: Sequence[AgentAction], tools: Sequence[Tool]) -> str:
    by_name = {tool.name: tool for tool in tools}
    calls = [{"action": one.tool, "arguments": name_argument(one, by_name.get(one.tool))} for one in actions]
    return json.dumps({"scratchpad": {"thought": thought}, "actions": calls}, ensure_ascii=False)


def _format_answer(decided: Decided) -> Reply:
    if not isinstance(decided, AgentFinish):
        return Reply("")
    values = {"scratchpad": {"thought": "I now know the final answer"}, "answer": decided.output}
    return Reply(json.dumps(values, ensure_ascii=False))


def name_argument(action: AgentAction, tool: Tool | None) -> Any:
    """Return an action's input by argument name, if it is a text and the tool takes one argument."""
    if isinstance(action.tool_input, dict) or tool is None:
        return action.tool_input
    if tool.signature.text_argument is not None:
        return {tool.signature.text_argument: action.tool_input}
    return action.tool_input or {}


# ── what is told of the tools, and what a reply may look like ────────────────────────────────────


def _describe_field(schema: Mapping[str, Any]) -> str:
    kind = " or ".join(map(json.dumps, schema["enum"])) if "enum" in schema else str(schema.get("type", "value"))
    return f"{schema['description']} ({kind})" if schema.get("description") else kind


def _format_example(example: Example) -> str:
    text = f"Question:\n{example.question}\nTool Responses:\nYour response:\n"
    for step in example.steps:
        action = AgentAction(step.tool.name, step.tool_input)
        response = {"action_responses": [_format_response(action, Observation("", step.observation))]}
        text += (
            f"{_reply_text(step.thought, [action], [step.tool])}\nTool responses: \n{json.dumps(response)}{RESPONSE}"
        )
    ending = {"scratchpad": {"thought": example.thought}, "question": example.question, "answer": example.answer}
    return f"{text}{json.dumps(ending, ensure_ascii=False)}\n\n"


def _build_step_constraint(task: Task, answer_chars: int) -> Constraint:
    """Return the constraint: a thought; then one to eight actions, or the question repeated with its answer."""
    actions: list[Pattern] = [
        seq(f'{{"action": {json.dumps(tool.name)}, "arguments": ', build_json_pattern(tool.signature.parameters), "}")
        for tool in task.tools
    ]
    listed = seq('"actions": [', choice(*actions), Repeat(seq(", ", choice(*actions)), 0, MAX_ACTIONS - 1), "]}")
    pattern = seq(_build_thought_pattern(), choice(listed, _answer_pattern(task, answer_chars)))
    variants = [
        build_object_schema(action={"const": tool.name}, arguments=build_arguments_schema(tool)) for tool in task.tools
    ]
    schema = build_object_schema(
        scratchpad=build_object_schema(thought={"type": "string"}),
        actions={"type": "array", "items": {"anyOf": variants}, "maxItems": MAX_ACTIONS},
        answer={"type": ["string", "null"]},
    )
    return Constraint(pattern, schema | collect_shared_definitions(task.tools))


def _answer_shape(task: Task, answer_chars: int) -> Constraint:
    schema = build_object_schema(scratchpad=build_object_schema(thought={"type": "string"}), answer={"type": "string"})
    return Constraint(seq(_build_thought_pattern(), _answer_pattern(task, answer_chars)), schema)


def _build_thought_pattern() -> Pattern:
    return seq('{"scratchpad": {"thought": ', build_json_pattern(_THOUGHT), "}, ")


def _answer_pattern(task: Task, answer_chars: int) -> Pattern:
    asked = f'"question": {json.dumps(task.question, ensure_ascii=False)}, '
    answer = build_json_pattern({"type": "string", "minLength": 1, "maxLength": answer_chars}, answer_chars)
    return seq(asked if len(task.question) <= _QUESTION_CHARS else "", '"answer": ', answer, "}")
