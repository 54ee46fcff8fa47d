"""Pipelines: directed graphs of components."""

from .checking import inputs_of, problems
from .pipeline import Pipeline
from .wires import Node

__all__ = ["Node", "Pipeline", "inputs_of", "problems"]
