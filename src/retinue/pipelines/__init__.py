"""Pipelines: directed graphs of components."""

from .graph import Node, inputs_of, problems
from .pipeline import Pipeline

__all__ = ["Node", "Pipeline", "inputs_of", "problems"]
