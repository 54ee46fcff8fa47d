"""Configuration files: YAML with source positions, frozen specs, checks, and tool files."""

from .._internal.source_text import Problem
from .file_check import check, load_spec
from .specs import FileSpec, build_json_schema, dump
from .tool_files import load_tools

__all__ = ["FileSpec", "Problem", "build_json_schema", "check", "dump", "load_spec", "load_tools"]
