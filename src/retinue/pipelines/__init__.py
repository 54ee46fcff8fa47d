"""Pipelines: directed graphs of components."""

from .graph import Node, find_problems, list_inputs
from .pipeline import Pipeline

__all__ = ["Node", "Pipeline", "find_problems", "list_inputs"]
