"""`executor`: runs given actions without a model (OPEA's role "executor")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.protocols import Flow, Task, act
from ..core.values import AgentAction, AgentFinish, StopReason

_WANTED = 'want {"tool": NAME, "input": …}, or a list of these'


@dataclass(frozen=True)
class GivenActions:
    """The strategy. The question is JSON: one action, or a list of actions that run concurrently.

    The answer to one action is its result, and a failure ends the run as `ERROR`; if nothing was run because the
    question is wrong, with the code `invalid_prompt`. The answer to a list is a list of `{"tool", "outcome",
    "output"}`.
    """

    name: str = "executor"

    def __call__(self, task: Task) -> Flow:
        """Run the actions."""
        try:
            actions = read_actions(task.question)
        except ValueError as error:
            return _finish_failed(str(error), "invalid_prompt")
        seen = yield from act(*actions)
        if len(seen) == 1 and task.question.lstrip()[:1] == "{":
            if seen[0].outcome == "result":
                return AgentFinish({"output": seen[0].text})
            refused = seen[0].outcome in ("unknown_tool", "invalid_input")
            return _finish_failed(seen[0].text, "invalid_prompt" if refused else "")
        results = [
            {"tool": action.tool, "outcome": one.outcome, "output": one.text}
            for action, one in zip(actions, seen, strict=True)
        ]
        return AgentFinish({"output": json.dumps(results, ensure_ascii=False), "results": results})


def _finish_failed(problem: str, code: str) -> AgentFinish:
    return AgentFinish({"output": "", "problem": problem, "code": code}, reason=StopReason.ERROR)


def read_actions(text: str) -> tuple[AgentAction, ...]:
    """Parse the actions in a JSON text. Raises `ValueError` with an explanation."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"this is not JSON; {_WANTED}") from None
    actions = tuple(_read_action(value) for value in (values if isinstance(values, list) else [values]))
    if not actions:
        raise ValueError(f"there are no actions; {_WANTED}")
    return actions


def _read_action(value: Any) -> AgentAction:
    if not isinstance(value, Mapping) or not isinstance(value.get("tool"), str) or set(value) - {"tool", "input"}:
        raise ValueError(_WANTED)
    given = value.get("input", "")
    return AgentAction(value["tool"], given if isinstance(given, str | dict) else json.dumps(given))
