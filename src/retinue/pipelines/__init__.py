"""Pipelines: directed graphs of components."""

from .graph import Node, list_inputs, problems
from .pipeline import Pipeline

__all__ = ["Node", "Pipeline", "list_inputs", "problems"]
