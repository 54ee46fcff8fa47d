"""Tools whose pipelines run with bound parameters for their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._internal.message_text import suggestion
from ..core.tool import Tool
from ..errors import UsageError
from .pipeline import Params, Pipeline


@dataclass(frozen=True)
class BoundPipeline:
    """A pipeline that runs with `params`, by node."""

    pipeline: Pipeline
    params: Params

    @property
    def output_variable(self) -> str:
        """The name of its main output."""
        return self.pipeline.output_variable

    async def run_async(self, query: str) -> dict[str, Any]:
        """What the pipeline gives for `query`."""
        return await self.pipeline.run_async(query, params=self.params)


def bind_parameters(tools: Iterable[Tool], params: Mapping[str, Mapping[str, Any]]) -> list[Tool]:
    """Return `tools`, with each pipeline bound to the `params` for its nodes.

    Raises `UsageError` for a node that no pipeline has.
    """
    tools = list(tools)
    names = {id(tool): {node.name for node in tool.something.nodes} for tool in tools if _is_pipeline(tool)}
    known = set().union(*names.values())
    if unknown := [name for name in params if name not in known]:
        there = suggestion(unknown[0], sorted(known))
        raise UsageError(f"params: no pipeline among the tools has a node {unknown[0]!r}; {there}")
    return [_bound(tool, {name: params[name] for name in params if name in names.get(id(tool), ())}) for tool in tools]


def _bound(tool: Tool, params: Params) -> Tool:
    return replace(tool, something=BoundPipeline(tool.something, params)) if params else tool


def _is_pipeline(tool: Tool) -> bool:
    return isinstance(tool.something, Pipeline)
