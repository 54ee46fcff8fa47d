"""Conformance suites for custom models, tools, components, strategies and document stores.

A suite is a tuple of cases, each of which checks one clause of a contract. It works with pytest but does not need it:

    @pytest.mark.parametrize("case", tool_cases(), ids=str)
    def test_my_tool(case: Case[ToolSubject]) -> None:
        case.run(ToolSubject(lambda: my_tool, valid=["Lyon"]))
"""

from .case import Case
from .component_suite import ComponentSubject, component_cases
from .document_store_suite import document_store_cases
from .document_stores import DocumentStoreSubject
from .model_asks import ModelSubject
from .model_suite import model_cases
from .strategy_runs import StrategySubject
from .strategy_suite import strategy_cases
from .tool_suite import ToolSubject, tool_cases

__all__ = [
    "Case", "ComponentSubject", "DocumentStoreSubject", "ModelSubject", "StrategySubject", "ToolSubject",
    "component_cases", "document_store_cases", "model_cases", "strategy_cases", "tool_cases",
]  # fmt: skip
