"""The rule of two: an agent that reads untrusted content, sees private data and has effects, without a person's
approval, can be tricked into leaking that data (Meta, "Agents Rule of Two", 2025; Willison's "lethal trifecta").

And whose data it is: a tool that sees private data with the same credentials for everybody shows them to everybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .._internal.redaction import NAMES
from .._internal.source_text import Found, KeyPath
from .._internal.yaml_text import read_file
from ..core.context_templates import is_bound
from .problems import validate
from .references import Part, find_reached, index_parts, list_servers, list_worker_tools, may_use_shared_tools
from .registry import COMPONENTS
from .specs import AgentSpec, ComponentSpec, FileSpec, PipelineSpec, ToolEntry, ToolFile, ToolRef
from .tool_files import list_tool_files, parse_callable, resolve_existing_path

_TYPES = {  # of components, by label
    "untrusted": (
        "SearchEngine", "SerpAPIComponent", "LinkContentFetcher", "Crawler", "WebRetriever", "Wikipedia", "GitHubAPI",
        "MCPTools", "RemoteAgent", "A2AAgent",
    ),
    "private": ("DocumentStore", "Retriever", "FileConverter", "DeepsetCloudPipeline", "HaystackPipeline"),
    "effects": ("DocumentWriter", "ReportWriter", "MCPTools", "RemoteAgent", "A2AAgent"),
}  # fmt: skip
_WARNING = (
    "{agent} reads untrusted content ({untrusted}), sees private data ({private}) and has effects ({effects}) "
    "without approval: text hidden in what it reads can make it leak that data. Require a person's approval "
    "(approval: true), or remove one of the three; 'labels' of a tool declares which apply to it"
)
_UNBOUND = (
    "{} serves every user with the same credentials: if what it shows is a user's own, put ${{user.secret:NAME}} in "
    "its headers (see docs/users.md); an HTTP tool's 'labels: []' says that it is nobody's"
)
_Labels = frozenset[str]
_Labelled = tuple[str, _Labels]  # a tool's name and its labels


def check_rule_of_two(spec: FileSpec) -> Iterator[Found]:
    """Yield a warning for each agent of the file that has all three labels."""
    for at, agent in enumerate(spec.agents or ()):
        tools = list(_Labeller(spec).label_agent(agent, (agent.name,)))
        held = {label: dict.fromkeys(name for name, labels in tools if label in labels) for label in _TYPES}
        if all(held.values()):
            named = {label: ", ".join(names) for label, names in held.items()}
            yield Found(("agents", at, "name"), _WARNING.format(agent=agent.name, **named), warning=True)


def check_bound(spec: FileSpec) -> Iterator[Found]:
    """Yield a warning for each HTTP tool and MCP server that gives everybody what the operator's credentials, or the
    label `private`, say is somebody's. `labels` without `private` declares that it is nobody's."""
    for at, part in enumerate(spec.components or ()):
        params = part.params or {}
        headers = params.get("headers")
        if part.type in ("MCPTools", "RemoteAgent", "A2AAgent") and isinstance(headers, dict):
            yield from _check_headers(("components", at, "name"), part.name, headers)
    sections: list[tuple[KeyPath, Any]] = [(("tools",), spec.tools)]
    sections += [(("agents", at, "params", "tools"), one.params.tools) for at, one in enumerate(spec.agents or ())]
    for path, tools in sections:
        for name, entry in tools.items() if isinstance(tools, dict) else ():
            if entry.callable_api.startswith(("http://", "https://")) and entry.labels != []:
                private = entry.labels is not None and "private" in entry.labels
                texts = {**(entry.headers or {}), "": entry.callable_api.partition("?")[2]}
                yield from _check_headers((*path, name), name, texts, private=private)


def _check_headers(path: KeyPath, name: str, headers: Mapping[str, Any], *, private: bool = False) -> Iterator[Found]:
    if any(is_bound(str(text)) for text in headers.values()):
        return
    if private or any(NAMES.search(header) for header in headers):
        yield Found(path, _UNBOUND.format(name), warning=True)


class _Labeller:
    """Determines the labels of tools; undefined tools have none. A tool that needs a person's approval does not count
    as having effects. `within` names the parts that are being labelled."""

    def __init__(self, spec: FileSpec) -> None:
        self._spec = spec
        self._parts = index_parts(spec)
        self._folder = Path(spec.source.file).parent

    def label_agent(self, agent: AgentSpec, within: tuple[str, ...]) -> Iterator[_Labelled]:
        """Yield the agent's tools with their labels."""
        asked, tools = agent.params.require_human_feedback, agent.params.tools
        tools = self._spec.tools if tools is None else tools
        labelled: list[_Labelled] = []
        if isinstance(tools, dict) and agent.params.role != "planner":
            labelled += self._label_entries(tools, self._folder)
        elif agent.params.role != "planner":
            for item in [tools] if isinstance(tools, str) else tools or ():
                if isinstance(item, ToolRef):
                    labelled.append((item.name, self._label_reference(item, within)))
                else:
                    labelled += self._label_named_tools(item, agent, within)
        labelled += [(tool.name, self._label_reference(tool, within)) for tool in list_worker_tools(agent)]
        if getattr(getattr(agent.params.harness, "shell", None), "network", None):
            labelled.append(("run_command", frozenset(["untrusted", "effects"])))
        for name, labels in labelled:
            approved = asked is True or (isinstance(asked, list) and name in asked)
            yield name, labels - {"effects"} if approved else labels

    def _label_named_tools(self, text: str, agent: AgentSpec, within: tuple[str, ...]) -> Iterator[_Labelled]:
        shared = self._spec.tools
        if may_use_shared_tools(agent, self._spec) and isinstance(shared, dict) and text in shared:
            yield from self._label_entries({text: shared[text]}, self._folder)
        elif text == "passages":
            yield text, frozenset(["private"])
        elif text in list_servers(self._spec):
            yield text, self._label_part(self._parts[text], within)
        elif "/" in text or "." in text:
            try:
                files = list_tool_files(resolve_existing_path(self._folder, text))
            except (ValueError, OSError):
                return
            for file in files:
                if file.suffix == ".py":
                    yield file.name, frozenset(["effects"])
                else:
                    yield from self._label_entries(validate(ToolFile, read_file(file))[0] or {}, file.parent)

    def _label_entries(self, entries: Mapping[str, ToolEntry], folder: Path) -> Iterator[_Labelled]:
        for name, entry in entries.items():
            labels = frozenset(entry.labels) if entry.labels is not None else _label_callable(entry, folder)
            yield name, labels - {"effects"} if entry.approval else labels

    def _label_reference(self, ref: ToolRef, within: tuple[str, ...]) -> _Labels:
        part = self._parts.get(ref.pipeline_or_node)
        labels: _Labels = frozenset(ref.labels or ())
        if ref.labels is None and part is not None and part.name not in within:
            labels = self._label_part(part, within)
            labels |= {"effects"} if ref.effects in ("once", "idempotent") else set()
        return labels - {"effects"} if ref.approval else labels

    def _label_part(self, part: Part, within: tuple[str, ...]) -> _Labels:
        if isinstance(part, ComponentSpec):
            labels = frozenset(label for label, types in _TYPES.items() if part.type in types)
            if part.type not in COMPONENTS:  # own code may do anything
                labels = frozenset(["effects"])
            return labels - {"effects"} if _is_harmless(part.params or {}) else labels
        if isinstance(part, AgentSpec):
            return frozenset().union(*(labels for _, labels in self.label_agent(part, (*within, part.name))))
        if isinstance(part, PipelineSpec):
            members = {node.name for node in part.nodes} & self._parts.keys()
        else:
            members = find_reached(self._spec, [part.name]) - {part.name, *within}
            within = (*within, *members)
        return frozenset().union(*(self._label_part(self._parts[one], within) for one in members))


def _label_callable(entry: ToolEntry, folder: Path) -> _Labels:
    """Return the labels of an entry in a tool file. Unless marked as read-only, it may have effects."""
    try:
        what = parse_callable(entry.callable_api, folder)
    except ValueError:
        return frozenset()
    if what.kind == "built-in":
        return frozenset(["private"] if what.name == "passages" else [])
    labels = {"untrusted"} if what.kind == "url" else set()
    return frozenset(labels | ({"effects"} if entry.effects != "read" else set()))


def _is_harmless(params: Mapping[str, Any]) -> bool:
    """Whether all chosen tools of an MCP server are marked as read-only or need approval."""
    options, tools = params.get("options"), params.get("tools")
    if not isinstance(options, dict) or not isinstance(tools, list):
        return False
    said = [options.get(name) for name in tools]
    return all(isinstance(one, dict) and (one.get("effects") == "read" or one.get("approval") is True) for one in said)
