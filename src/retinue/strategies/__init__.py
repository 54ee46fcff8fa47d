"""The ways to reason, by name."""

from collections.abc import Mapping

from ..ports import Strategy
from .planexec import PlanExec
from .react import React
from .react_json import ReactJson
from .self_ask import SelfAsk
from .simple import simple as simple
from .tool_calling import ToolCalling

STRATEGIES: Mapping[str, Strategy] = {
    "react": React(),
    "react_json": ReactJson(),
    "tool_calling": ToolCalling(),
    "self_ask": SelfAsk(),
    "planexec": PlanExec(),
    "humanInLoopPlanExec": PlanExec(approve=True),
}
