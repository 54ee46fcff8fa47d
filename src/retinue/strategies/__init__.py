"""The ways to reason, by name."""

from collections.abc import Mapping

from ..ports import Strategy
from .planexec import PlanExec
from .react import React

STRATEGIES: Mapping[str, Strategy] = {
    "react": React(),
    "planexec": PlanExec(),
    "humanInLoopPlanExec": PlanExec(approve=True),
}
