"""The origin of a built object: the part of a file that defines it, which is written again on export."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .._internal.yaml_io import YamlSerializable
from .references import parts, reached, shares
from .registry import COMPONENTS
from .secret_variables import without_secrets
from .specs import AgentSpec, FileSpec

VERSION = 1
_WORDS = ("description", "script", "questions")  # which name no files
SECTIONS = ("components", "pipelines", "agents", "groups", "chains")


@dataclass(frozen=True, eq=False)
class Origin:
    """The file and name of an object, with its `state` when built. Two origins are equal if they export the same
    content."""

    spec: FileSpec = field(repr=False)
    name: str
    state: Any

    @classmethod
    def of(cls, made: YamlSerializable, spec: FileSpec, name: str) -> Origin:
        """Return the origin of `made`, which was just built."""
        return cls(spec, name, made.state())

    @property
    def folder(self) -> Path:
        """The file's folder, to which its paths are relative."""
        return Path(self.spec.source.file).parent.resolve()

    @cached_property
    def whole(self) -> dict[str, Any]:
        """The content of a file with only the parts it needs."""
        wanted, whole = reached(self.spec, [self.name]), self.spec.model_dump(exclude_unset=True, by_alias=True)
        file: dict[str, Any] = {"retinue": VERSION}
        for section in SECTIONS:
            if kept := [item for item in whole.get(section) or () if item["name"] in wanted]:
                file[section] = kept
        agents = [part for name, part in parts(self.spec).items() if name in wanted and isinstance(part, AgentSpec)]
        if whole.get("tools") and any(shares(agent, self.spec) for agent in agents):
            file["tools"] = whole["tools"]
        return file

    @cached_property
    def written(self) -> dict[str, Any]:
        """The content of a file with only the parts it needs, without secrets."""
        return without_secrets(self.whole)

    @cached_property
    def names_files(self) -> bool:
        """Whether it refers to other files in its folder."""
        components = self.written.get("components", ())
        given = [(one["type"], key) for one in components for key in one.get("params") or ()]
        named = any(COMPONENTS[type_].parameters[key].path for type_, key in given)
        pinned = any(component["type"] == "MCPTools" for component in components)
        return named or pinned or any(map(_is_path, _texts(self.written)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.name)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["pipeline_or_node"]] if "pipeline_or_node" in value else []
        inner = [text for key, one in value.items() if key not in _WORDS for text in _texts(one)]
        tools = value.get("tools")
        named = [tools] if isinstance(tools, str) else [t for t in tools or () if isinstance(t, str)]
        return [text for text in inner if text not in own] + [f"{text}/" for text in named if "/" in text]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def _is_path(text: str) -> bool:
    plain = "\n" not in text and "://" not in text and " " not in text
    return plain and (".py:" in text or text.endswith((".py", ".yaml", ".yml", ".txt", ".json", ".jsonl", "/")))
