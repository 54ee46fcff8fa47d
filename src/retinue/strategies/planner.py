"""`planner`: the plan and nothing else, for others to carry out (OPEA's role "planner")."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..core.protocols import Flow, Task
from ..core.values import AgentFinish
from .planexec import PlanExec


@dataclass(frozen=True)
class Planner:
    """The strategy: it needs no tools, and its answer is `{"steps": ["…", …]}`.

    `approve`: a person decides on the plan. `check`: the model grades it, and may better it. A model that
    answers at once instead of planning is taken at its word: then the answer is the answer.
    """

    approve: bool = False
    check: bool = False
    max_steps: int = 6
    name: str = "planner"

    def __call__(self, task: Task) -> Flow:
        """Make a plan; in `return_values["steps"]` it is a list."""
        by = PlanExec(approve=self.approve, check=self.check, max_steps=self.max_steps)
        plan = yield from by.plan(task)
        if isinstance(plan, AgentFinish):
            return plan
        steps = list(plan)
        return AgentFinish({"output": json.dumps({"steps": steps}, ensure_ascii=False), "steps": steps})
