"""Conformance suites for custom models, tools, components, strategies and document stores, and runs as tests.

A suite is a tuple of cases, each of which checks one clause of a contract. It works with pytest but does not need it:

    @pytest.mark.parametrize("case", tool_cases(), ids=str)
    def test_my_tool(case: Case[ToolSubject]) -> None:
        case.run(ToolSubject(lambda: my_tool, valid=["Lyon"]))

Names are imported on first use, since pytest imports the package for its plugin.
"""

from typing import TYPE_CHECKING

from .._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from .case import Case as Case
    from .chat_vendor import CHAT_RULES as CHAT_RULES, as_field as as_field, chat_wire as chat_wire
    from .component_suite import ComponentSubject as ComponentSubject, component_cases as component_cases
    from .document_store_suite import document_store_cases as document_store_cases
    from .document_stores import DocumentStoreSubject as DocumentStoreSubject
    from .model_asks import ModelSubject as ModelSubject
    from .model_suite import model_cases as model_cases
    from .strategy_runs import StrategySubject as StrategySubject
    from .strategy_suite import strategy_cases as strategy_cases
    from .tool_suite import ToolSubject as ToolSubject, tool_cases as tool_cases
    from .vendor_rules import (
        SCRIPT as SCRIPT,
        Asked as Asked,
        Rule as Rule,
        Turn as Turn,
        Vendor as Vendor,
        Wire as Wire,
        make_rules as make_rules,
        read_failures as read_failures,
    )
    from .vendor_server import Refusal as Refusal, VendorServer as VendorServer

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
