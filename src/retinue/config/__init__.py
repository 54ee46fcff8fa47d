"""The only reader of YAML: texts with places, frozen specs, checks; tool files."""

from .checking import check, load_spec
from .places import Problem
from .saving import dump
from .specs import FileSpec, json_schema
from .toolfiles import load_tools

__all__ = ["FileSpec", "Problem", "check", "dump", "json_schema", "load_spec", "load_tools"]
