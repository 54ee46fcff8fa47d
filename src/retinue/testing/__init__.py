"""Conformance suites for models, tools, components, strategies and document stores of your own."""

from .case import Case as Case
from .model_suite import ModelSubject as ModelSubject, model_cases as model_cases
from .strategy_runs import StrategySubject as StrategySubject
from .strategy_suite import strategy_cases as strategy_cases
