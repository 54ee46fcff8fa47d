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
    from .component_suite import ComponentSubject as ComponentSubject, component_cases as component_cases
    from .document_store_suite import (
        DocumentStoreSubject as DocumentStoreSubject,
        document_store_cases as document_store_cases,
    )
    from .model_suite import ModelSubject as ModelSubject, model_cases as model_cases
    from .strategy_suite import StrategySubject as StrategySubject, strategy_cases as strategy_cases
    from .tool_suite import ToolSubject as ToolSubject, tool_cases as tool_cases
    from .vendor_server import (
        CHAT_RULES as CHAT_RULES,
        SCRIPT as SCRIPT,
        Asked as Asked,
        Refusal as Refusal,
        Rule as Rule,
        Turn as Turn,
        Vendor as Vendor,
        VendorServer as VendorServer,
        Wire as Wire,
        as_field as as_field,
        chat_wire as chat_wire,
        make_rules as make_rules,
        read_failures as read_failures,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
