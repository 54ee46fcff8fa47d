"""Pipelines: directed graphs of components."""

from .checking import problems
from .pipeline import Pipeline
from .wires import Node

__all__ = ["Node", "Pipeline", "problems"]
