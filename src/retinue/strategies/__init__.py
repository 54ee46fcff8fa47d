"""The reasoning strategies, by name."""

from collections.abc import Mapping

from ..core.protocols import Strategy
from .auto import Auto
from .careful import Careful
from .parsing.react_text import UnreadableReply
from .planexec import PlanExec
from .react import React
from .react_json import ReactJson
from .self_ask import SelfAsk
from .simple import simple as simple
from .tool_calling import ToolCalling

__all__ = [
    "STRATEGIES", "Auto", "Careful", "PlanExec", "React", "ReactJson", "SelfAsk", "ToolCalling", "UnreadableReply",
    "simple",
]  # fmt: skip

STRATEGIES: Mapping[str, Strategy] = {
    "auto": Auto(),
    "react": React(),
    "react_json": ReactJson(),
    "tool_calling": ToolCalling(),
    "self_ask": SelfAsk(),
    "careful": Careful(),
    "planexec": PlanExec(),
    "humanInLoopPlanExec": PlanExec(approve=True),
}
