"""The configurations that are compared: agents of files, each with a fingerprint of all that its answers depend on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..config.agent_snapshot import take_snapshot
from ..config.builder import Builder
from ..config.file_check import load_spec
from ..config.problems import describe_unknown
from ..config.references import index_parts
from ..config.specs import AgentSpec, ChainSpec, GroupSpec
from ..config.yaml_files import select_agent
from ..core.protocols import Model
from ..errors import DataError
from ..models import PromptModel

_READ = (".py", ".yml", ".yaml", ".json", ".jsonl", ".md", ".txt")  # files that an agent may read but not write


@dataclass(frozen=True, slots=True)
class Configuration:
    """An agent, by the name that reports use."""

    name: str
    agent: Agent[Any, Any]


def load_configurations(files: Sequence[Path], names: Sequence[str] = ()) -> tuple[Configuration, ...]:
    """Return the agents called `names` in the files; without names, the only agent of each file.

    Raises `DataError` with all problems of a file, or for a name that no file has, and `UsageError` for a file with
    several agents of which none is named.
    """
    specs = [load_spec(file) for file in files]
    kinds = AgentSpec | GroupSpec | ChainSpec
    there = [[name for name, part in index_parts(spec).items() if isinstance(part, kinds)] for spec in specs]
    for name in names:
        if not any(name in agents for agents in there):
            problem = describe_unknown("agent", name, list(chain.from_iterable(there)))
            raise DataError(f"{', '.join(map(str, files))}: {problem}")
    found = []
    for file, spec, agents in zip(files, specs, there, strict=True):
        builder = Builder(spec)
        chosen = [name for name in names if name in agents] if names else [select_agent(spec, None)]
        found += [(file, Configuration(name, builder.get(name))) for name in dict.fromkeys(chosen)]
    count = Counter(one.name for _, one in found)
    return tuple(replace(one, name=f"{file}:{one.name}") if count[one.name] > 1 else one for file, one in found)


def judge_of(file: Path, name: str) -> Model:
    """Return the model called `name`: a `PromptModel` of the file, or as for `retinue ask`."""
    spec = load_spec(file)
    if any(one.name == name and one.type == "PromptModel" for one in spec.components or ()):
        model: Model = Builder(spec).get(name)
        return model
    return PromptModel(name)


async def fingerprint_agent(agent: Agent[Any, Any], *more: Any) -> str:
    """Return a fingerprint of an agent, of the text files that its file names, and of `more`."""
    origin = agent.origin
    paths = _find_text_files(origin.whole, origin.folder) if origin is not None else ()
    files = [(str(path), hash_file(path)) for path in paths]
    return await fingerprint_setup(agent, take_snapshot(agent).hash, files, *more)


async def fingerprint_setup(agent: Agent[Any, Any], *more: Any) -> str:
    """Return a fingerprint of everything the answers depend on, so that results of another setup are not reused."""
    await agent.model.abilities()
    tools: list[tuple[str, ...]] = []
    for tool in agent.tools:
        member = [await fingerprint_setup(tool.something)] if isinstance(tool.something, Agent) else []
        tools.append((tool.name, tool.description, *member))
    parts = (agent.model.name, repr(agent.strategy), repr(agent.budget), tools, *more)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _find_text_files(value: Any, folder: Path) -> Iterator[Path]:
    """Yield the text files that the values name, as `tools.py`, `tools.py:function`, or by their folder."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _find_text_files(one, folder)
    elif isinstance(value, str) and 0 < len(value) < 256 and value.isprintable():
        for text in dict.fromkeys((value, value.rpartition(":")[0])):
            yield from _list_text_files(folder / text) if text.strip("./") else ()


def _list_text_files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (one for one in sorted(path.rglob("*")) if one.suffix in _READ and one.is_file())
    elif path.suffix in _READ and path.is_file():
        yield path
