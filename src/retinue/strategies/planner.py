"""`planner`: makes a plan for others to execute (OPEA's role "planner")."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..core.protocols import Flow, Task
from ..core.values import AgentFinish
from .planexec import PlanExec


@dataclass(frozen=True)
class Planner:
    """The strategy. It needs no tools, and its answer is `{"steps": ["…", …]}`.

    `approve`: a person decides on the plan. `check`: the model grades it, and may improve it. If the model answers at
    once instead of planning, that is the answer.
    """

    approve: bool = False
    check: bool = False
    max_steps: int = 6
    name: str = "planner"

    def __call__(self, task: Task) -> Flow:
        """Make a plan; `return_values["steps"]` contains it as a list."""
        by = PlanExec(approve=self.approve, check=self.check, max_steps=self.max_steps)
        plan = yield from by.plan(task)
        if isinstance(plan, AgentFinish):
            return plan
        steps = list(plan)
        return AgentFinish({"output": json.dumps({"steps": steps}, ensure_ascii=False), "steps": steps})
