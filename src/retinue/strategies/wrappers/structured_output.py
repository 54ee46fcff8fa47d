"""Answers that conform to a schema: what a strategy came to, as JSON, checked, and asked for again if wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.prompt import Ask, Decided, Prompt
from ...core.protocols import Act, Flow, Strategy, Task, ask
from ...core.schema.answers import AnswerType
from ...core.schema.patterns import Constraint, build_json_pattern, seq
from ...core.values import CUT_SHORT, AgentFinish, Message, Observation, Reply, StopReason
from ..parsing.final_answer import uses_tool
from ..parsing.lenient_json import find_json_values
from ..plan_text import neutralize_line
from ..prompting.constraints import build_object_schema
from ..prompting.injection_guard import neutralize
from .wrapper import Part, Wrapper, perform, relay, without_visible_answer

TRIES = 3
_ANSWER_CHARS = 2_000
_EVIDENCE, _EVIDENCE_CHARS = 4, 500  # the last results of tools that are shown, and how much of each
_REPLY_TOKENS = 1_024


def with_structured_output(strategy: Strategy, answers: AnswerType) -> Strategy:
    """Return `strategy` with answers of this type, as JSON."""
    return Wrapper(strategy, _Answers(answers.schema, answers.check))


@dataclass(frozen=True)
class _Answers:
    """The reasoning."""

    schema: Mapping[str, Any]
    check: Callable[[Any], str] = field(repr=False)

    def __call__(self, strategy: Strategy, task: Task) -> Flow:
        """Run the inner strategy, then bring its answer into JSON; `INVALID_ANSWER` if it cannot be had."""
        evidence: list[str] = []

        def collect(request: Act) -> Part[tuple[Observation, ...]]:
            seen = yield from perform(request)
            evidence.extend(one.text for one in seen if one.outcome == "result")
            return seen

        finish = yield from relay(strategy(task), lambda request: ask(without_visible_answer(request)), collect)
        if finish.reason is not StopReason.ANSWER:
            return finish
        return (yield from self._conform(task, finish, evidence))

    def _conform(self, task: Task, finish: AgentFinish, evidence: Sequence[str]) -> Flow:
        """Return `finish` with its answer as JSON: as it is, or as the model puts it."""
        value, problem = self._read_answer(finish.output)
        if not problem:
            return _add_answer(finish, value, finish.log)
        lines = [f"- {neutralize_line(text, _EVIDENCE_CHARS)}\n" for text in evidence[-_EVIDENCE:]]
        found = f"What was found out:\n{''.join(lines)}" if lines else ""
        said_so_far = neutralize(" ".join(finish.output.split()))[:_ANSWER_CHARS] or "(none)"
        wording = (
            f"Question: {task.question}\n{found}Answer: {said_so_far}\n"
            f"Write this answer as JSON that fits this schema:\n{json.dumps(self.schema, ensure_ascii=False)}\nJSON:"
        )
        prompt, shape = Prompt(Message("user", wording)), self._build_constraint()
        text, again = finish.output, ""
        most = _REPLY_TOKENS if task.constrained else None
        for left in range(TRIES, 0, -1):
            held = shape if left > 1 else None  # a schema may say more than a pattern can
            news = f"{text}\n{again}".strip()
            reply = yield from ask(Ask(prompt, news, _format_answer, (), held, most, problem=again, aside=True))
            given = "" if uses_tool(reply.text, task.tools) else reply.text
            text = given.strip() or text
            value, again = self._read_answer(given)
            if not again:
                return _add_answer(finish, value, reply.text)
            said = Message("assistant", f"{reply.text.rstrip()}\n")
            prompt = prompt.add(said, Message("user", f"This does not fit the schema: {again}\nJSON:"))
        values = {**finish.return_values, "output": text, "problem": again}
        if reply.finish in CUT_SHORT:
            return AgentFinish(values, finish.log, CUT_SHORT[reply.finish])
        return AgentFinish(values, finish.log, StopReason.INVALID_ANSWER)

    def _read_answer(self, text: str) -> tuple[Any, str]:
        """Return the answer in `text`, or what is wrong with it."""
        problem = ""
        for value in find_json_values(text):
            wrapped = isinstance(value, dict) and set(value) == {"answer"}
            for candidate in (value, value["answer"]) if wrapped else (value,):
                wrong = self._find_problem(candidate)
                if not wrong:
                    return candidate, ""
                problem = problem or wrong
        if text.strip() and not self._find_problem(text.strip()):  # a text that may be any
            return text.strip(), ""
        return None, problem or "this is not JSON"

    def _find_problem(self, value: Any) -> str:
        try:
            return self.check(value)
        except RecursionError:
            return "this is nested too deeply"

    def _build_constraint(self) -> Constraint:
        """Return the constraint: JSON that fits the schema. An engine that knows only objects is asked for one with the
        answer in it."""
        defined = {**self.schema.get("definitions", {}), **self.schema.get("$defs", {})}
        pattern = seq(" ", build_json_pattern({**self.schema, "$defs": defined}), "\n")
        if self.schema.get("type") == "object":
            return Constraint(pattern, self.schema)
        apart = ("$defs", "definitions", "$schema")
        wrapped = build_object_schema(answer={key: value for key, value in self.schema.items() if key not in apart})
        return Constraint(pattern, wrapped | {key: self.schema[key] for key in apart if key in self.schema})


def _add_answer(finish: AgentFinish, value: Any, log: str) -> AgentFinish:
    values = {**finish.return_values, "output": json.dumps(value, ensure_ascii=False), "answer": value}
    return AgentFinish(values, log)


def _format_answer(decided: Decided) -> Reply:
    return Reply(decided.output if isinstance(decided, AgentFinish) else "")
