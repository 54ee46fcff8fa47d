"""Self-reflection (Haystack's tools proposal, PR 4084): do a tool, its input and its result fit together? If not, the
input is put in other words and the tool is used again, at most as often as the tool's `reflections` allow.

It stands around any strategy, which is shown the last result only; the log has every round. A call with the effects
`once` that took effect, or may have, is not made again in other words: that would be a second effect. Only where a
person has to approve each call, they are asked.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from ...core.prompt import Ask, Decided, Prompt
from ...core.protocols import Act, Flow, Strategy, Task, act, ask
from ...core.schema.patterns import Constraint, choice, seq
from ...core.tools.tool import Tool
from ...core.values import AgentAction, Message, Observation, Reply, ToolInput
from ..parsing.actions import read_input
from ..parsing.lenient_json import as_text
from ..plan_text import neutralize_line
from ..prompting.constraints import (
    INPUT_CHARS,
    build_input_pattern,
    build_input_schema,
    build_object_schema,
    collect_shared_definitions,
)
from .wrapper import Part, Wrapper, perform, relay

REFLECTED_ON = frozenset({"result", "invalid_input", "failed"})
_RESULT_CHARS = 1_500
_REPLY_TOKENS = 256
_REPHRASED = re.compile(r"\W*+re-?phrased?\b[\w \"'*]{0,40}+[:\uff1a](.*)", re.IGNORECASE | re.DOTALL)

_WORDING = """\
A tool was used. Does its result fit what was asked of it?
Tool: {name} - {description}
Input: {given}
Result: {result}
If it fits, write: agree
If it does not, put the input in other words that mean the same, and write: rephrase: the new input
Verdict:"""


def with_reflection(strategy: Strategy) -> Strategy:
    """Return `strategy` with self-reflection on the tools that ask for it."""
    return Wrapper(strategy, _reflect)


def _reflect(strategy: Strategy, task: Task) -> Flow:
    """Return the inner strategy's reasoning, with better observations. Of two such around it, the outer does it."""
    tools = {tool.name: tool for tool in task.tools if tool.reflections > 0}
    if not tools:
        return strategy(task)

    def improve_all(request: Act) -> Part[tuple[Observation, ...]]:
        seen = list((yield from perform(request)))
        for at, action in enumerate(request.actions):
            if tool := tools.get(action.tool):
                seen[at] = yield from _improve_observation(tool, action, seen[at], request.answer)
        return tuple(seen)

    inner = replace(task, tools=tuple(replace(tool, reflections=0) for tool in task.tools))
    return relay(strategy(inner), on_act=improve_all)


def _improve_observation(tool: Tool, action: AgentAction, first: Observation, answer: str) -> Part[Observation]:
    """Return the observation that fits the action, or the last of those that `tool.reflections` allow."""
    once = tool.find_effects(action.tool_input) == "once"
    is_final = once and not tool.approval  # what was done is done, and nobody would be asked again
    seen = first
    tried = [_normalize_input(action.tool_input)]
    for _ in range(tool.reflections):
        if seen.outcome not in REFLECTED_ON or (seen.outcome == "result" and is_final):
            break
        reply = yield from ask(_build_request(tool, action, seen))
        rephrased = read_verdict(reply.text, tool)
        if rephrased is None or _normalize_input(rephrased) in tried:
            break
        tried.append(_normalize_input(rephrased))
        action = replace(action, tool_input=rephrased)
        (again,) = yield from act(action, answer=answer)
        told = f"(the input was rephrased to {neutralize_line(as_text(rephrased), INPUT_CHARS)})"
        seen = replace(again, call_id=first.call_id, note=f"{told}\n{again.note}".strip())
    return seen


def _build_request(tool: Tool, action: AgentAction, seen: Observation) -> Ask:
    """Return the request that asks whether tool, input and result agree, and for another input if not."""
    result = neutralize_line(seen.text, _RESULT_CHARS)
    given = neutralize_line(as_text(action.tool_input), INPUT_CHARS)
    wording = _WORDING.format(name=tool.name, description=tool.description, given=given, result=result or "(nothing)")
    pattern = choice(" agree\n", seq(" rephrase: ", build_input_pattern(tool), "\n"))
    schema = build_object_schema(rephrased={"anyOf": [{"type": "null"}, build_input_schema(tool)]})
    shape = Constraint(pattern, schema | collect_shared_definitions([tool]))

    def write(decided: Decided) -> Reply:  # to use the same tool with another input is to rephrase, all else to agree
        if isinstance(decided, tuple) and decided and decided[0].tool == tool.name:
            return Reply(f" rephrase: {as_text(decided[0].tool_input)}\n")
        return Reply(" agree\n")

    return Ask(Prompt(Message("user", wording)), result, write, (), shape, _REPLY_TOKENS, aside=True)


def read_verdict(text: str, tool: Tool) -> ToolInput | None:
    """Return the new input in a reply; `None` if the reply agrees, or cannot be read."""
    written: Any = None
    if text.lstrip().startswith("{"):
        try:
            written = json.loads(text).get("rephrased")
        except (ValueError, RecursionError):
            return None
    elif found := _REPHRASED.match(text):
        written = found.group(1).strip()
    if not written:
        return None
    text_only = tool.signature.text_argument is not None
    if isinstance(written, str) and text_only:
        written = written.splitlines()[0]
    new = read_input(written if isinstance(written, str) else json.dumps(written), tool)
    return new if isinstance(new, str) == text_only and new else None


def _normalize_input(given: ToolInput) -> str:
    return " ".join(as_text(given).lower().split()) if isinstance(given, str) else json.dumps(given, sort_keys=True)
