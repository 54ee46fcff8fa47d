"""Conformance suites for models, tools, components, strategies and document stores of your own."""

from .case import Case as Case
from .component_suite import ComponentSubject as ComponentSubject, component_cases as component_cases
from .document_store_suite import document_store_cases as document_store_cases
from .document_stores import DocumentStoreSubject as DocumentStoreSubject
from .model_asks import ModelSubject as ModelSubject
from .model_suite import model_cases as model_cases
from .strategy_runs import StrategySubject as StrategySubject
from .strategy_suite import strategy_cases as strategy_cases
from .tool_suite import ToolSubject as ToolSubject, tool_cases as tool_cases
