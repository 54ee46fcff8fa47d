"""Plans as text: parsing what a model or a person wrote, validation, and the constraint for it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.prompt import Decided
from ..core.schema.patterns import Constraint, build_json_pattern, seq
from ..core.values import AgentFinish, Decision, Reply
from .parsing.lenient_json import find_json_values
from .parsing.react_text import without_empty_fence
from .prompting.constraints import build_object_schema
from .prompting.injection_guard import neutralize

END = "<END_OF_PLAN>"
STEP_CHARS = 300
RESULT_CHARS = 400  # of a step's result in prompts
_TOLD_STEP_CHARS = 120
SEEN = 3  # latest tool results of the current step that are shown in prompts
_HELD_STEP_CHARS = 160  # with constrained decoding

_NUMBERED = re.compile(
    r"[#>*_ \t]*+(?:(?:step *+)\d{1,2}+(?: *+[.):]| ++[-–]|(?=[*_]))|\d{1,2}+ *+[.):](?!\d))(.*)", re.I
)
_BULLET = re.compile(r"[-*•+][ \t]++(.*)")
_HEADING = re.compile(r"^[ \t#>*_]*+(?:[a-z']++ ){0,3}+plan\b[*_ ]*+:[*_ ]*+", re.IGNORECASE | re.MULTILINE)
_DIRECT = re.compile(r"final[ _]*+answer[ \t*_]*+:[ \t*_]*+(.+)", re.IGNORECASE | re.DOTALL)
_PROTOCOL = re.compile(
    r"((?<!\w)(?:plan|steps?|not[\s_]++found|answer)[\"'*_]*+\s*+\d*+[\"'*_]*+\s*+"
    r"|re-?phrased?[\w \"'*]{0,40}+)[:\uff1a]",
    re.IGNORECASE,
)
_LIST = re.compile(r"\[(?=\s*+[\"{])")  # a plan written as JSON


class UnreadablePlan(Exception):
    """A text contains no usable plan; the message says why. `steps`: those of a plan that is too long."""

    def __init__(self, message: str, steps: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.steps = steps


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps to execute in order; or, without steps, the answer itself."""

    steps: tuple[str, ...] = ()
    answer: str = ""


def read_plan(text: str, most: int) -> Plan:
    """Parse the plan in a model's reply: JSON, a numbered list, bullets, or lines after "Plan:".

    Raises `UnreadablePlan`, and nothing else, for any text.
    """
    text = text.split(END)[0]
    for values in find_json_values(text):
        if steps := _read_steps(values):
            return Plan(check_steps(steps, most))
        if isinstance(values, dict) and isinstance(values.get("answer"), str) and values["answer"].strip():
            return Plan(answer=values["answer"].strip())
    steps = _read_list(text)
    direct = _DIRECT.search(text)
    if not steps and direct:
        return Plan(answer=without_empty_fence(direct.group(1).strip()))
    if not steps and (heading := _HEADING.search(text)):
        steps = text[heading.end() :].splitlines()
    return Plan(check_steps(steps, most))


def apply_decision(decision: Decision, steps: tuple[str, ...], most: int) -> tuple[str, ...] | None:
    """Apply a person's decision on a plan; return the steps to execute, or `None` if another plan is needed.

    An edited plan is a list under "steps", or a text with one step per line. Raises `UnreadablePlan` if it is
    neither.
    """
    if decision.kind not in ("approve", "edit"):
        return None
    given = decision.tool_input if decision.kind == "edit" else None
    changed = given.get("steps") if isinstance(given, dict) else given
    if given is None:
        return steps
    if isinstance(changed, str):
        return check_steps(_read_list(changed) or changed.splitlines(), most)
    if not isinstance(changed, list) or not all(isinstance(step, str) for step in changed):
        raise UnreadablePlan('want {"steps": ["…", "…"]}, or a text with a step on each line')
    return check_steps(changed, most)


def check_steps(steps: Sequence[str], most: int) -> tuple[str, ...]:
    """Normalize steps to one line each, without list markers, bold type, empty ones and duplicates.

    Raises `UnreadablePlan` for none or too many.
    """
    kept: dict[str, str] = {}
    for step in steps:
        line = " ".join(step.split()).lstrip(":").strip("*_` ").lstrip(": ").strip("*_` ")
        if len(line) > 1 and line[0] == line[-1] == '"' and '"' not in line[1:-1]:
            line = line[1:-1]
        if line := line[:STEP_CHARS].rstrip():
            kept.setdefault(re.sub(r"\W+", "", line.lower()) or line, line)
    if not kept:
        raise UnreadablePlan("Invalid Format: there are no steps")
    if len(kept) > most:
        raise UnreadablePlan(f"the plan has {len(kept)} steps, at most {most} are allowed", tuple(kept.values()))
    return tuple(kept.values())


def plan_shape(most: int) -> Constraint:
    """Return the constraint for a plan as JSON with at most `most` steps."""
    step = {"type": "string", "minLength": 1, "maxLength": _HELD_STEP_CHARS}
    schema = build_object_schema(steps={"type": "array", "items": step, "minItems": 1, "maxItems": most})
    return Constraint(seq(" ", build_json_pattern(schema), "\n"), schema)


def format_plan(decided: Decided, question: str) -> Reply:
    """Format a decision as a planner's reply: an answer as it is; for actions, the question as the only step."""
    if isinstance(decided, AgentFinish):
        return Reply(f" Final Answer: {decided.output}")
    return Reply(f" {json.dumps({'steps': [question]}, ensure_ascii=False)}\n")


@dataclass(slots=True)
class Notes:
    """The knowledge of a run: steps `done` with their results, tool results of the current step (`seen`), a person's
    comments on the plans (`remarks`), and how many plans a person has decided on (`revisions`)."""

    done: list[tuple[str, str]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    remarks: list[Decision] = field(default_factory=list)
    revisions: int = 0

    def format_known(self) -> str:
        """Return the findings so far, as data; empty if there are none."""
        lines = [
            f"{at}. {neutralize_line(step, _TOLD_STEP_CHARS)} - {neutralize_line(result, RESULT_CHARS)}"
            for at, (step, result) in enumerate(self.done, 1)
        ]
        lines += [f"- {neutralize_line(text, RESULT_CHARS)}" for text in self.seen[-SEEN:]]
        return "\n".join(["What was found out so far:", *lines, ""]) if lines else ""

    def format_remarks(self) -> str:
        """Return a person's comments on the plans, one per line."""
        kinds = {"reject": "A person refused a plan", "respond": "A person says of the plan"}
        return "".join(f"{kinds[said.kind]}: {neutralize_line(said.message, RESULT_CHARS)}\n" for said in self.remarks)


def neutralize_line(text: str, most: int) -> str:
    """Return the output of a step or tool as data on one line that cannot be read as protocol, a plan or a list."""
    line = _LIST.sub("(", _PROTOCOL.sub(r"\1 -", neutralize(" ".join(text.split()))))
    if _NUMBERED.match(line) or _BULLET.match(line):
        line = f"· {line}"
    return line if len(line) <= most else f"{line[:most].rstrip()} …"


def _read_list(text: str) -> list[str]:
    """Return the items of a numbered list with the indented text below them; or of bullets, if nothing is numbered."""
    heading = _HEADING.match(text)
    lines = text[heading.end() if heading else 0 :].splitlines()
    for item in (_NUMBERED, _BULLET):
        steps: list[str] = []
        for line in lines:
            if found := item.match(line.strip()):
                steps.append(found.group(1))
            elif steps and line[:1] in (" ", "\t") and line.strip():
                below = _BULLET.match(line.strip())
                steps[-1] += f" {below.group(1) if below else line.strip()}"
        if steps:
            return steps
    return []


def _read_steps(values: Any) -> list[str]:
    """Return the steps in JSON: texts, or objects whose longest text is the step."""
    for key in ("plan", "steps"):
        values = values.get(key, values) if isinstance(values, dict) else values
    if not isinstance(values, list):
        return []
    found = []
    for value in values:
        texts = [inner for inner in value.values() if isinstance(inner, str)] if isinstance(value, dict) else [value]
        found.append(max((text for text in texts if isinstance(text, str)), key=len, default=""))
    return found
