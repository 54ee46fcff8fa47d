"""The tools of a file's agents: their own, shared ones, and built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any

from .._internal.message_text import suggestion
from ..agent import Agent
from ..core.component_declaration import component
from ..core.tool import Tool, tool_of
from ..errors import DataError, UsageError
from ..run.handoff import handoff
from .callables import existing_path
from .places import Found, Path
from .references import parts, servers, shares, worker_tools
from .registry import TOOLS
from .specs import AgentSpec, FileSpec, ToolRef, Tools
from .tool_files import Loading, entry_tools, load_tools


class Toolmaker:
    """Builds tools; `part` returns what the file defines under a name."""

    def __init__(self, spec: FileSpec, loading: Loading, part: Callable[[str], Any]) -> None:
        self._spec = spec
        self._loading = loading
        self._part = part
        self.folder = FilePath(spec.source.file).parent

    def of(self, agent: AgentSpec, index: int) -> list[Tool]:
        """Return the tools of the file's agent number `index`, and its workers. Without `tools`, an agent gets the
        shared ones; with `[]`, none."""
        workers = [self._used(tool) for tool in worker_tools(agent)]
        workers += [handoff(partial(self._part, name), name) for name in agent.params.handoffs or ()]
        if agent.params.tools is not None:
            return [*self._tools(agent.params.tools, ("agents", index, "params", "tools"), agent), *workers]
        return [*(self.shared.values() if shares(agent, self._spec) else ()), *workers]

    @cached_property
    def shared(self) -> dict[str, Tool]:
        """The shared tools at the top of the file, by name."""
        return {tool.name: tool for tool in self._tools(self._spec.tools or [], ("tools",), None)}

    def _tools(self, tools: Tools, path: Path, agent: AgentSpec | None) -> list[Tool]:
        if isinstance(tools, dict):
            return entry_tools(tools, self.folder, self._spec.source.under(path), self._loading)
        items = [tools] if isinstance(tools, str) else tools
        made: list[Tool] = []
        for at, item in enumerate(items):
            place = path if isinstance(tools, str) else (*path, at)
            try:
                made += [self._used(item)] if isinstance(item, ToolRef) else self._named(item, agent)
            except (UsageError, ValueError) as error:
                raise DataError(str(self._spec.source.problem(Found(place, f"tools: {error}")))) from error
        return made

    def _named(self, text: str, agent: AgentSpec | None) -> list[Tool]:
        """Return the tools that `text` names: a shared tool, a built-in one, those of an MCP server of the file, or
        those of a tool file or folder."""
        if agent is not None and shares(agent, self._spec) and text in self.shared:
            return [self.shared[text]]
        if text in TOOLS:
            return [built_in(text)]
        if text in servers(self._spec):
            tools: list[Tool] = self._part(text).tools()
            return tools
        return load_tools(existing_path(self.folder, text), self._loading)

    def _used(self, ref: ToolRef) -> Tool:
        """Return a component, pipeline or agent as a tool."""
        something, options = self._part(ref.pipeline_or_node), dict(ref.options)
        if ref.output_variable is not None:
            _check_output(ref, something)
            options["output_variable"] = ref.output_variable
        return Tool(ref.name, something, ref.description or self._said_of(ref), **options)

    def _said_of(self, ref: ToolRef) -> str:
        part = parts(self._spec)[ref.pipeline_or_node]
        return (part.params.role_description or "") if isinstance(part, AgentSpec) else ""


def _check_output(ref: ToolRef, something: Any) -> None:
    """Raise `UsageError` if a part with known outputs lacks the one named."""
    outputs = None if isinstance(something, Agent) else component(something).outputs
    if outputs and ref.output_variable not in outputs:
        wrong = f"{ref.pipeline_or_node} has no output {ref.output_variable!r}"
        raise UsageError(f"output_variable: {wrong}; {suggestion(str(ref.output_variable), outputs)}")


def built_in(name: str) -> Tool:
    """Return a built-in tool under its name in files. Raises `UsageError` if it needs parameters."""
    known = TOOLS[name]
    if known.required:
        needs = ", ".join(f"{one}: …" for one in known.required)
        raise UsageError(f"{name} needs parameters; write {name}: {{callable_api: {name}, params: {{{needs}}}}}")
    module, _, attribute = known.builder.partition(":")
    return replace(tool_of(getattr(import_module(module), attribute)), name=name)
